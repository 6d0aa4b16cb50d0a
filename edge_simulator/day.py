"""A whole day made faster than real time, straight into Parquet files with the archive's columns (README).

A message is received when it is due on the run's clock: that decides its verdict.
"""

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator.console import line_s, stop_flag
from edge_simulator.runfiles import run_name, write_sequences
from edge_simulator.scenario import Scenario
from edge_simulator.sending.run import LINK_COUNTS, Say
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.truth import Row
from edge_simulator.world import World
from infra.contract.errors import ConfigError, OdographError
from infra.contract.topics import HOUR_MS
from infra.contract.verdict import ClockLimits, clock_limits, verdict
from infra.settings.settings import Settings

PARTITIONS = 4
ROWS = 20_000  # rows of a row group

RECORD = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("log_offset", pa.int64()), ("key", pa.binary()),
    ("received_ms", pa.int64()), ("value", pa.binary()),
])  # fmt: skip
ARCHIVED = pa.schema([
    *RECORD, ("vehicle_id", pa.string()), ("boot_id", pa.int64()), ("seq", pa.int64()), ("t0_ms", pa.int64()),
    ("span_ms", pa.int64()), ("n", pa.int64()), ("verdict", pa.string()),
])  # fmt: skip


class RecordFile:
    """One topic's records, in one file at a time; offsets go on from file to file."""

    def __init__(self, topic: str, ids: Sequence[str], schema: pa.Schema = RECORD) -> None:
        self._topic, self._ids, self._schema = topic, ids, schema
        self._offsets = [0] * PARTITIONS
        self._rows: list[tuple[object, ...]] = []
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self, path: Path) -> Self:
        self.__exit__()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        return self

    def add(self, item: Outgoing, *more: object) -> None:
        """Add a message, in the order of receive times; ``more`` are the columns beyond RECORD."""
        part, key = item.vehicle % PARTITIONS, self._ids[item.vehicle].encode()
        self._rows.append((self._topic, part, self._offsets[part], key, item.due_ms, item.payload, *more))
        self._offsets[part] += 1
        if len(self._rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows and self._file is not None:
            columns = zip(zip(*self._rows, strict=True), self._schema.types, strict=True)
            arrays = [pa.array(values, kind) for values, kind in columns]
            self._file.write_table(pa.table(arrays, schema=self._schema))
            self._rows.clear()

    def __exit__(self, *_error: object) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()


class HourFiles(RecordFile):
    """Telemetry by hour of receipt, UTC; ``verdicts`` counts what was written."""

    def __init__(self, folder: Path, run_id: str, vehicle_ids: Sequence[str], limits: ClockLimits) -> None:
        super().__init__(f"{run_id}.telemetry", vehicle_ids, ARCHIVED)
        self._folder, self._name, self._limits, self._hour = folder, f"{run_id}.parquet", limits, -1
        self.verdicts: Counter[str] = Counter()

    def take(self, item: Outgoing) -> None:
        """Add a readable frame, in the order of receive times."""
        if item.due_ms // HOUR_MS > self._hour:
            self._hour = item.due_ms // HOUR_MS
            at = datetime.fromtimestamp(self._hour * HOUR_MS / 1000, UTC)
            self.begin(self._folder / f"date={at:%Y-%m-%d}" / f"hour={at:%H}" / self._name)
        frame = orjson.loads(item.payload)
        span_ms = (frame["n"] - 1) * frame["dt_ms"]
        word = verdict(frame["t0_ms"], span_ms, item.due_ms, self._limits)
        self.verdicts[word] += 1
        head = (frame["vehicle_id"], frame["boot_id"], frame["seq"], frame["t0_ms"])
        self.add(item, *head, span_ms, frame["n"], word)


def make(scenario: Scenario, settings: Settings, run_id: str, say: Say) -> Mapping[str, Any]:
    """Make the day of a scenario; the summary. Raises ConfigError where that day is there already."""
    folder = settings.paths.home / "days" / run_name(run_id)
    if folder.exists():
        raise ConfigError(f"--run-id: {folder} exists; give another id or remove it")
    draft = folder.with_name(f".{run_id}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    world = World(scenario)
    ids, limits = world.vehicle_ids, clock_limits(settings)
    with (
        stop_flag(say) as stopped,
        HourFiles(draft / "telemetry", run_id, ids, limits) as hours,
        RecordFile(f"{run_id}.crash", ids).begin(draft / "crash.parquet") as crashes,
        RecordFile(f"{run_id}.poison", ids).begin(draft / "poison.parquet") as poison,
        (draft / "truth.jsonl").open("wb") as truth,
    ):
        for messages, rows in _batches(world, say):
            truth.writelines(orjson.dumps(row) + b"\n" for row in rows)
            for item in messages:  # births and farewells are none of the archive's
                if item.flag == "poison":
                    poison.add(item)
                elif item.channel == "telemetry":
                    hours.take(item)
                elif item.channel == "crash":
                    crashes.add(item)
            if stopped():
                break
    if stopped():
        shutil.rmtree(draft)
        raise OdographError(f"stopped: {run_id} was not finished, and nothing of it was kept")
    write_sequences(draft, world.emitter.sequences())
    sc, made = world.scenario, world.counts
    summary = {
        "run_id": run_id, "seed": sc.seed, "vehicles": sc.vehicles, "boot_id": sc.start_ms,
        "start_ms": sc.start_ms, "end_ms": sc.start_ms + sc.span_ms, "interval_ms": sc.cadence.interval_ms,
        "generated": made["generated"], "lost_on_link": made["lost"],
        "dropped_on_board": made["dropped_on_board"], "poison": made["poison"],
        "records": hours.verdicts.total(), "verdicts": dict(hours.verdicts), "crashes": made["crashes"],
        "link": {name: made[name] for name in LINK_COUNTS},
        "faults": {"planned": made["planned_faults"], "begun": made["begun_faults"]},
    }  # fmt: skip
    write_summary(draft, summary)
    draft.rename(folder)
    return {"folder": str(folder), **summary}


def _batches(world: World, say: Say) -> Iterator[tuple[list[Outgoing], list[Row]]]:
    """All that the world sends, and what truly happened; a line now and then on how far the day is."""
    begun, said = time.monotonic(), 0.0
    end_ms = start_ms = world.scenario.start_ms
    span_ms = world.scenario.span_ms
    for slot in world.slots():
        end_ms = slot.end_ms
        yield slot.messages, slot.truth
        passed = time.monotonic() - begun
        if passed - said >= line_s():
            said, share = passed, (end_ms - start_ms) / span_ms
            at = datetime.fromtimestamp(end_ms / 1000, UTC)
            say(
                f"{at:%Y-%m-%d %H:%M}Z  {100 * share:.1f} %  {world.counts['generated']} frames  "
                f"{share * span_ms / 1000 / passed:.0f} x real time  {passed * (1 / share - 1):.0f} s to go"
            )
    yield world.end(end_ms)


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """``run.json`` of a day: the summary, and size and SHA-256 of every other file by its path."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    body = orjson.dumps({**summary, "files": files}, option=orjson.OPT_INDENT_2)
    (folder / "run.json").write_bytes(body + b"\n")
