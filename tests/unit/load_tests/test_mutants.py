"""Each defect that a drill must see still finds the name whose place it takes."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from load_tests.drills import defects, mutant_bridge, mutant_jobs, mutant_programs
from load_tests.drills.poison.table import ATTACKS
from stream_jobs.frames.batch import frame_batch
from stream_jobs.vehicles import sequencer
from stream_jobs.windows.open_windows import Memory, OpenWindows
from tests.support_frames import frame
from tests.unit.stream_jobs.window_support import JOBS, LIMITS, T0, received, recorded

OF_THE_ATTACK = ("row5-any-caller", "row2-broker-without-limit")
"""Defects of the database and of the broker: the attack puts them in itself."""
TABLES = [
    *(module.MUTANTS for module in (mutant_bridge, mutant_jobs, mutant_programs)),
    *(attack.mutants for attack in ATTACKS),
]
MUTANTS = {name: defect for table in TABLES for name, defect in table.items() if name not in OF_THE_ATTACK}


@pytest.mark.parametrize("defect", MUTANTS.values(), ids=MUTANTS)
def test_a_defect_takes_the_place_of_something(
    defect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[Any] = []

    def note(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        replaced.append(make(getattr(owner, name)))

    names = [
        (module, name)
        for module in sys.modules.values()
        if module.__name__.startswith("load_tests.drills.")
        for name, value in vars(module).items()
        if value is defects.replace
    ]
    for module, name in names:
        monkeypatch.setattr(module, name, note)
    defect()
    assert replaced


WORKERS = Path(mutant_jobs.__file__).with_name("mutant_workers") / "sitecustomize.py"


def _in_this_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a defect of Spark's Python workers into this process, until the test ends."""

    def put(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))

    monkeypatch.setattr(defects, "replace", put)
    monkeypatch.setenv("MUTANT", name)
    runpy.run_path(str(WORKERS))


def test_a_worker_that_closes_early_loses_what_is_in_time_and_tells_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_the_way_s = {0: 1, 20: 1, 3: 20}
    records = [received(frame(1, s, T0 + 1000 * s, speed_kmh=9.0), 1000 * k) for s, k in on_the_way_s.items()]

    def told() -> tuple[int, int]:
        """Frames of the first window when all is in, and how many are listed as missed."""
        memory, frames_by_start, missed = Memory(), dict[datetime, int](), 0
        for record in records:
            windows, frames = OpenWindows(JOBS, None, memory), frame_batch(recorded([record]), LIMITS)
            assert frames is not None
            windows.take(frames, frames.ok)
            windows.publish(record[0], idle=True)
            windows.close(record[0])
            rows = [row for table in windows.found.vehicle for row in table.to_pylist()]
            frames_by_start |= {row["window_start"]: row["frames"] for row in rows}
            missed += sum(table.num_rows for table in windows.found.missed)
            memory = windows.memory()
        return frames_by_start[min(frames_by_start)], missed

    assert told() == (2, 0)
    _in_this_worker("early-close", monkeypatch)
    assert told() == (1, 0)


def test_a_worker_without_a_sequencer_takes_frames_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = sequencer.Order.take
    _in_this_worker("no-sequencer", monkeypatch)
    assert sequencer.Order.take is not honest
    arrival = sequencer.Arrival(1, 7, T0, T0, 4)
    assert [*sequencer.Order().take(arrival, JOBS, [])] == [4]
