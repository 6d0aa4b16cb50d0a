"""A whole day made faster than real time, straight into Parquet files with the archive's columns.

``<home>/days/<run_id>/`` holds ``telemetry/date=/hour=/*.parquet``, ``crash.parquet``, ``poison.parquet``
(what the bridge would have dead-lettered), ``truth.jsonl`` and, last, ``run.json`` with counts and digests: a
folder without it is incomplete. Coordinates are made up: the run's own topic name, the partition by vehicle,
offsets without gaps. A message is received when it is due on the run's clock: that decides its verdict.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator.console import StopFlag
from edge_simulator.runfiles import write_sequences
from edge_simulator.scenario import Scenario
from edge_simulator.sending.run import LINK_COUNTS
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.world import Slot, World
from infra.contract.errors import ConfigError, OdographError
from infra.contract.verdict import ClockLimits, clock_limits, verdict
from infra.settings.settings import Settings

PARTITIONS = 4
ROWS = 20_000  # rows of a row group
HOUR_MS = 3_600_000

RECORD = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("log_offset", pa.int64()), ("key", pa.binary()),
    ("received_ms", pa.int64()), ("value", pa.binary()),
])  # fmt: skip
ARCHIVED = pa.schema([
    *RECORD, ("vehicle_id", pa.string()), ("boot_id", pa.int64()), ("seq", pa.int64()), ("t0_ms", pa.int64()),
    ("span_ms", pa.int64()), ("n", pa.int64()), ("verdict", pa.string()),
])  # fmt: skip


class RecordFile:
    """One topic's records in one file; also numbers the records of a topic that lies in several."""

    def __init__(
        self, path: Path, topic: str, vehicle_ids: Sequence[str], schema: pa.Schema = RECORD
    ) -> None:
        self._topic, self._ids, self._schema = topic, vehicle_ids, schema
        self._offsets = [0] * PARTITIONS
        self._rows: list[tuple[object, ...]] = []
        self._file = pq.ParquetWriter(path, schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def take(self, items: Iterable[Outgoing]) -> None:
        """Add messages in the order of their receive times."""
        self.add(self.record(item) for item in items)

    def add(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Add rows of the file's schema."""
        self._rows.extend(rows)
        if len(self._rows) >= ROWS:
            self._flush()

    def record(self, item: Outgoing) -> tuple[object, ...]:
        """The record of a message, with the next offset of its partition."""
        part = item.vehicle % PARTITIONS
        offset = self._offsets[part]
        self._offsets[part] += 1
        return (self._topic, part, offset, self._ids[item.vehicle].encode(), item.due_ms, item.payload)

    def turn(self, path: Path) -> None:
        """Go on in another file; the offsets go on too."""
        self._flush()
        self._file.close()
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def _flush(self) -> None:
        if self._rows:
            columns = zip(zip(*self._rows, strict=True), self._schema.types, strict=True)
            arrays = [pa.array(values, kind) for values, kind in columns]
            self._file.write_table(pa.table(arrays, schema=self._schema))
            self._rows.clear()

    def __exit__(self, *_error: object) -> None:
        self._flush()
        self._file.close()


class HourFiles:
    """Telemetry by hour of receipt, UTC; ``verdicts`` counts what was written."""

    def __init__(self, folder: Path, run_id: str, vehicle_ids: Sequence[str], limits: ClockLimits) -> None:
        self._folder, self._run_id, self._ids, self._limits = folder, run_id, vehicle_ids, limits
        self._hour = -1
        self._file: RecordFile | None = None
        self.verdicts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def take(self, items: Iterable[Outgoing]) -> None:
        """Add readable frames; they come in the order of their receive times."""
        for item in items:
            file = self._of(item.due_ms // HOUR_MS)
            frame = orjson.loads(item.payload)
            span_ms = (frame["n"] - 1) * frame["dt_ms"]
            word = verdict(frame["t0_ms"], span_ms, item.due_ms, self._limits)
            self.verdicts[word] += 1
            head = (frame["vehicle_id"], frame["boot_id"], frame["seq"], frame["t0_ms"])
            file.add([(*file.record(item), *head, span_ms, frame["n"], word)])

    def _of(self, hour: int) -> RecordFile:
        """The file of an hour; a new one when the hour has changed."""
        if self._file is not None and hour <= self._hour:
            return self._file
        at = datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC)
        path = self._folder / f"date={at:%Y-%m-%d}" / f"hour={at:%H}" / f"{self._run_id}.parquet"
        path.parent.mkdir(parents=True)
        if self._file is None:
            self._file = RecordFile(path, f"{self._run_id}.telemetry", self._ids, ARCHIVED)
        else:
            self._file.turn(path)
        self._hour = hour
        return self._file

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.__exit__()


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
        verdicts = _write(world, settings, draft, run_id, _reported(world, say), stop)
    if verdicts is None:
        shutil.rmtree(draft)
        raise UnfinishedError(f"stopped: {run_id} was not finished, and nothing of it was kept")
    write_sequences(draft, world.emitter.sequences())
    sc, made = world.scenario, world.counts
    summary = {
        "run_id": run_id, "seed": sc.seed, "vehicles": sc.vehicles, "boot_id": sc.start_ms,
        "start_ms": sc.start_ms, "end_ms": sc.start_ms + sc.span_ms, "interval_ms": sc.cadence.interval_ms,
        "generated": made["generated"], "lost_on_link": made["lost"],
        "dropped_on_board": made["dropped_on_board"], "poison": made["poison"],
        "records": sum(verdicts.values()), "verdicts": verdicts, "crashes": made["crashes"],
        "link": {name: made[name] for name in LINK_COUNTS},
        "faults": {"planned": made["planned_faults"], "begun": made["begun_faults"]},
    }  # fmt: skip
    write_summary(draft, summary)
    draft.rename(folder)
    return {"folder": str(folder), **summary}


def _write(
    world: World, settings: Settings, folder: Path, run_id: str, slots: Iterator[Slot],
    stopped: Callable[[], bool],
) -> dict[str, int] | None:  # fmt: skip
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


def _reported(world: World, say: Say) -> Iterator[Slot]:
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


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """``run.json`` of a day: the summary, and size and SHA-256 of every other file by its path."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    body = orjson.dumps({**summary, "files": files}, option=orjson.OPT_INDENT_2)
    (folder / "run.json").write_bytes(body + b"\n")
