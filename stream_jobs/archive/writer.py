"""Records into Parquet by hour (in Python workers), and finished files into the archive."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import OK, ClockLimits
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import HOUR_MS, TELEMETRY, hour_name
from stream_jobs.archive.reader import of_hours
from stream_jobs.frames.batch import in_range, verdicts
from stream_jobs.frames.reading import read_heads

UNKNOWN: Final = -1  # a number that an unreadable record does not give
RECORD: Final = ("topic", "partition", "log_offset", "key", "received_ms", "value")
EXCEPTION: Final = {  # what the database hears of a record whose verdict is not ok
    "topic": pa.string(), "partition": pa.int32(), "log_offset": pa.int64(), "vehicle_id": pa.string(),
    "boot_id": pa.int64(), "seq": pa.int64(), "t0_ms": pa.int64(), "span_ms": pa.int64(),
    "verdict": pa.string(), "received_ms": pa.int64(),
}  # fmt: skip
REPEATED: Final = ["topic", "key", "vehicle_id", "verdict"]
SEARCHED: Final = ["partition", "log_offset", "received_ms", "vehicle_id", "seq", "t0_ms", "verdict"]

log = structlog.get_logger("stream_jobs.archive")


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes a file of the archive: a dictionary for what is repeated, statistics for what is searched."""
    return pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=REPEATED, write_statistics=SEARCHED
    )


def indexed(batch: pa.RecordBatch, limits: ClockLimits) -> pa.Table:
    """Records with the index columns of the archive."""
    table = in_range(read_heads(batch.column("value")))
    verdict = verdicts(table, batch.column("received_ms").to_numpy(), limits, batch.column("key"))
    columns = {name: batch.column(name) for name in RECORD}
    keys = batch.column("key").dictionary_encode()  # few are different
    texts = (key.decode(errors="replace") for key in keys.dictionary.to_pylist())
    vehicles = pa.array([text if VEHICLE_ID.fullmatch(text) else None for text in texts], pa.string())
    columns["vehicle_id"] = pc.coalesce(table["vehicle_id"], vehicles.take(keys.indices), "")
    span_ms = pc.multiply(pc.subtract(table["n"], 1), table["dt_ms"])
    numbers = {"boot_id": table["boot_id"], "seq": table["seq"], "t0_ms": table["t0_ms"]}
    numbers |= {"span_ms": span_ms, "n": table["n"]}
    columns |= {name: pc.fill_null(column, UNKNOWN) for name, column in numbers.items()}
    return pa.table(columns | {"verdict": pa.array(verdict, pa.string())})


@dataclass(frozen=True, slots=True)
class HourFiles:
    """Writes records below ``folder``, a file an hour of receipt, in their order; gives the exceptions: what
    is not ok, and all of the topic ``deferred``.
    """

    folder: Path
    limits: ClockLimits
    deferred: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The exceptions; the files are whole when the last of them is out."""
        with ExitStack() as files:
            writers: dict[int, pq.ParquetWriter] = {}
            for batch in batches:
                table = indexed(batch, self.limits)
                hours = table["received_ms"].to_numpy() // HOUR_MS
                for hour in np.unique(hours).tolist():
                    if hour not in writers:
                        path = self.folder / hour_name(hour * HOUR_MS) / "part-00000.parquet"
                        path.parent.mkdir(parents=True, exist_ok=True)
                        writers[hour] = files.enter_context(parquet_writer(path, table.schema))
                    writers[hour].write_table(table.filter(pa.array(hours == hour)))
                told = pc.or_(pc.not_equal(table["verdict"], OK), pc.equal(table["topic"], self.deferred))
                yield from table.filter(told).select([*EXCEPTION]).to_batches()


def place(folder: Path, hour_ms: int, staged: Path, name: str) -> bool:
    """Move a finished file to its place under ``name``, over a copy of an earlier try; whether it was taken.

    A name that was packed or has expired since is refused, and the staged file goes: its records are there
    already. ``staged`` must lie on the same file system. Raises ArchiveError, OSError.
    """
    entry = manifest.described(staged, name)
    manifest.sync(staged)
    target = folder / TELEMETRY / hour_name(hour_ms) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with manifest.locked(folder, writing=True):
        if name in manifest.read_hour(folder, hour_ms).replaced_ms:
            log.warning("archived before, left out", file=name, hour=hour_name(hour_ms))
            staged.unlink()
            return False
        staged.replace(target)
        manifest.sync(target.parent)
        manifest.append(folder, hour_ms, {"op": "add", "at_ms": now_ms(), "file": entry})
    return True


def adopt(folder: Path, hour_ms: int) -> list[str]:
    """Give files that the manifest does not know their lines; their names. Raises ArchiveError."""
    unknown = [file for file in of_hours(folder, [hour_ms]) if file.entry is None]
    entries = [manifest.described(file.path, file.path.name) for file in unknown]
    with manifest.locked(folder, writing=True):
        known = manifest.read_hour(folder, hour_ms)
        fresh = [e for e in entries if e.name not in known.files and e.name not in known.replaced_ms]
        for entry in fresh:
            manifest.append(folder, hour_ms, {"op": "add", "at_ms": now_ms(), "file": entry})
    return [entry.name for entry in fresh]


def now_ms() -> int:
    """For the lines of the manifest."""
    return time.time_ns() // 1_000_000
