"""Rows of the stage as arrivals for the sequencer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from stream_jobs.vehicles.beat import Beat, HarshRun
from stream_jobs.vehicles.facts import CLASSES, FACTS, POWERTRAINS
from stream_jobs.vehicles.harsh_runs import KINDS, RUN
from stream_jobs.vehicles.readings import readings_of
from stream_jobs.vehicles.sequencer import Arrival

_PLACE: Final = {name: place for place, name in enumerate(FACTS)}
_BELIEVED: Final = _PLACE["believed"]
_WHOLE: Final = ("moving_ms", "moving_from_ms", "moving_to_ms", "speeding_ms")
_FRACTIONS: Final = tuple(
    (name, _PLACE[name])
    for name in (
        "lat_deg", "lon_deg", "heading_deg", "speed_kmh", "speed_max_kmh", "distance_m", "fuel_l",
        "energy_kwh", "odometer_m",
    )
)  # fmt: skip


Placed = tuple[int, int, Arrival]
"""Partition, offset and what stands there."""


def arrival(
    vehicle_id: str,
    facts: Sequence[Any],
    runs: Sequence[float],
    numbers: Sequence[Any],
    names: Sequence[Any],
) -> Arrival:
    """The arrival; ``facts`` as FACTS and ``numbers`` as readings.NUMBERS, None where not known."""
    boot_id, seq, t0_ms, end_ms, received_ms = (int(each) for each in facts[:5])
    if not facts[_BELIEVED]:
        return Arrival(boot_id, seq, t0_ms, received_ms, None)
    on, kind, powertrain = (facts[_PLACE[name]] for name in ("ignition_on", "vehicle_class", "powertrain"))
    beat = Beat(
        vehicle_id=vehicle_id,
        boot_id=boot_id,
        seq=seq,
        t0_ms=t0_ms,
        end_ms=end_ms,
        received_ms=received_ms,
        ignition_on=None if on is None else on > 0,
        readings=readings_of(numbers, names),
        vehicle_class=None if kind is None else CLASSES[int(kind)],
        powertrain=None if powertrain is None else POWERTRAINS[int(powertrain)],
        harsh=_harsh(runs),
        **{name: facts[place] for name, place in _FRACTIONS},
        **{name: None if facts[_PLACE[name]] is None else int(facts[_PLACE[name]]) for name in _WHOLE},
    )
    return Arrival(boot_id, seq, t0_ms, received_ms, beat)


def _harsh(runs: Sequence[float]) -> tuple[HarshRun, ...]:
    return tuple(
        HarshRun(KINDS[int(runs[i])], int(runs[i + 1]), int(runs[i + 2]), runs[i + 3], runs[i + 4])
        for i in range(0, len(runs), RUN)
    )


def by_vehicle(chunks: Iterable[pd.DataFrame]) -> dict[str, list[Placed]]:
    """Arrivals by vehicle; a group may come in several chunks."""
    found: dict[str, list[Placed]] = defaultdict(list)
    for chunk in chunks:
        for vehicle_id, partition, offset, *content in zip(*_lists(chunk), strict=True):
            found[vehicle_id].append((partition, offset, arrival(vehicle_id, *content)))
    return found


def _lists(chunk: pd.DataFrame) -> list[list[Any]]:
    plain: list[list[Any]] = [chunk[name].tolist() for name in ("vehicle_id", "partition", "log_offset")]
    facts, runs = _known(chunk["facts"]), [run.tolist() for run in chunk["runs"]]
    if "numbers" not in chunk:  # read without rules
        return [*plain, facts, runs, [()] * len(chunk), [()] * len(chunk)]
    return [*plain, facts, runs, _known(chunk["numbers"]), chunk["names"].tolist()]


def _known(column: Any) -> list[list[Any]]:
    """Rows of doubles as lists, None where not known."""
    matrix = np.vstack(column.to_list()) if len(column) else np.empty((0, 0))
    known = matrix.astype(object)
    known[np.isnan(matrix)] = None
    rows: list[list[Any]] = known.tolist()
    return rows
