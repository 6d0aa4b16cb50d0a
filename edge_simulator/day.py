"""A whole day made faster than real time, straight into files of the archive's format.

``<home>/days/<run_id>/`` holds ``telemetry/date=/hour=/*.parquet`` with the columns of the live archive,
``crash.parquet``, ``poison.parquet`` (what the bridge would have dead-lettered), ``truth.jsonl`` and, last,
``run.json`` with the counts and each file's digest: a folder without it is not whole. The live archive is not
touched; a replay reads a day from where it lies.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from edge_simulator.day_files import HourFiles, RecordFile
from edge_simulator.runfiles import write_sequences
from edge_simulator.scenario import Scenario
from edge_simulator.sending.run import LINK_COUNTS
from edge_simulator.stopping import StopFlag
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.world import Slot, World
from infra.contract.errors import ConfigError, OdographError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings

Say = Callable[[str], None]
SAY_EVERY_S = 2.0


class UnfinishedError(OdographError):
    """The day was not finished."""


def make(scenario: Scenario, settings: Settings, run_id: str, say: Say) -> Mapping[str, Any]:
    """Make the day of a scenario; the summary. Raises ConfigError where that day is there already."""
    folder = settings.paths.home / "days" / run_id
    if folder.exists():
        raise ConfigError(f"--run-id: {folder} exists; give another id or remove it")
    draft = folder.with_name(f".{run_id}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    world = World(scenario)
    with StopFlag(say) as stop:
        counts = _write(world, settings, draft, run_id, _told(world, say), stop)
    if counts is None:
        shutil.rmtree(draft)
        raise UnfinishedError(f"stopped: {run_id} was not finished, and nothing of it was kept")
    write_sequences(draft, world.emitter.sequences())
    summary = _summary(world, run_id, counts) | {"files": digests(draft)}
    (draft / "run.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")
    draft.rename(folder)
    return {"folder": str(folder), **{k: v for k, v in summary.items() if k != "files"}}


def _write(
    world: World, settings: Settings, folder: Path, run_id: str, slots: Iterator[Slot],
    stopped: Callable[[], bool],
) -> Mapping[str, int] | None:  # fmt: skip
    """Write all that the world sends; how many records a verdict, or None when it was stopped."""
    limits = clock_limits(settings)
    with (
        HourFiles(folder / "telemetry", run_id, world.vehicle_ids, limits) as hours,
        RecordFile(folder / "crash.parquet", f"{run_id}.crash", world.vehicle_ids) as crashes,
        RecordFile(folder / "poison.parquet", f"{run_id}.poison", world.vehicle_ids) as poison,
        (folder / "truth.jsonl").open("wb") as truth,
    ):
        for slot in slots:
            truth.writelines(orjson.dumps(row) + b"\n" for row in slot.truth)
            _sort_in(slot.messages, hours, crashes, poison)
            if stopped():
                return None
        end_ms = world.scenario.start_ms + world.scenario.span_ms
        rest, open_rows = world.end(end_ms)
        _sort_in(rest, hours, crashes, poison)
        truth.writelines(orjson.dumps(row) + b"\n" for row in open_rows)
        return dict(hours.verdicts)


def _sort_in(items: Sequence[Outgoing], hours: HourFiles, crashes: RecordFile, poison: RecordFile) -> None:
    """Each message to its file; births and farewells are none of the archive's."""
    hours.take(i for i in items if i.channel == "telemetry" and i.flag != "poison")
    crashes.take(i for i in items if i.channel == "crash")
    poison.take(i for i in items if i.flag == "poison")


def _told(world: World, say: Say) -> Iterator[Slot]:
    """The world's slots, with a line now and then on how far the day is."""
    begun, said = time.monotonic(), 0.0
    start_ms, span_ms = world.scenario.start_ms, world.scenario.span_ms
    for slot in world.slots():
        yield slot
        passed = time.monotonic() - begun
        if passed - said >= SAY_EVERY_S:
            said, share = passed, (slot.end_ms - start_ms) / span_ms
            at = datetime.fromtimestamp(slot.end_ms / 1000, UTC)
            say(
                f"{at:%Y-%m-%d %H:%M}Z  {100 * share:.1f} %  {world.counts['generated']} frames  "
                f"{share * span_ms / 1000 / passed:.0f} x real time  {passed * (1 / share - 1):.0f} s to go"
            )


def _summary(world: World, run_id: str, verdicts: Mapping[str, int]) -> dict[str, Any]:
    sc, made = world.scenario, world.counts
    return {
        "run_id": run_id,
        "seed": sc.seed,
        "vehicles": sc.vehicles,
        "boot_id": sc.start_ms,
        "start_ms": sc.start_ms,
        "end_ms": sc.start_ms + sc.span_ms,
        "interval_ms": sc.cadence.interval_ms,
        "generated": made["generated"],
        "lost_on_link": made["lost"],
        "dropped_on_board": made["dropped_on_board"],
        "poison": made["poison"],
        "records": sum(verdicts.values()),
        "verdicts": dict(verdicts),
        "crashes": made["crashes"],
        "link": {name: made[name] for name in LINK_COUNTS},
        "faults": {"planned": made["planned_faults"], "begun": made["begun_faults"]},
    }


def digests(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Size and SHA-256 of every file, by its path below the folder."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    return found
