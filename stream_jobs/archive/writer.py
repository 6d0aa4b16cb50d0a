"""Records into Parquet by hour (in Python workers, on any host), and finished files into the archive."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import ERASED, OK, ClockLimits
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import HOUR_MS, TELEMETRY, Entry, hour_name
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
FILE: Final = {"hour_ms": pa.int64(), "sha256": pa.string(), "content": pa.binary()}
"""A whole file: hour of receipt, hash and bytes."""
WRITTEN: Final = pa.schema(EXCEPTION | FILE)
"""What comes back from the workers: a row an exception, then a row a file; the other's columns are null."""
FILE_BYTES: Final = 32 << 20
"""A file that has reached this size ends, and another one follows: a row stays small."""
REPEATED: Final = ["topic", "key", "vehicle_id", "verdict"]
SEARCHED: Final = ["partition", "log_offset", "received_ms", "vehicle_id", "seq", "t0_ms", "verdict"]

log = structlog.get_logger("stream_jobs.archive")


def parquet_writer(where: Path | pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes a file of the archive: a dictionary for what is repeated, statistics for what is searched."""
    return pq.ParquetWriter(
        where, schema, compression="zstd", use_dictionary=REPEATED, write_statistics=SEARCHED
    )


def indexed(batch: pa.RecordBatch, limits: ClockLimits) -> pa.Table:
    """Records with the index columns of the archive."""
    table = in_range(read_heads(batch.column("value")))
    verdict = verdicts(table, batch.column("received_ms").to_numpy(), limits, batch.column("key"))
    verdict = np.where(batch.column("value").is_null(), ERASED, verdict)
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
    """Makes Parquet files of records, one an hour of receipt, in their order: rows of WRITTEN. Exceptions are
    what is not ok, and all of the topic ``deferred``.

    The files are rows, with their bytes, since the disk of a worker is not the driver's: a file is there
    whole, or the batch has not come to its end.
    """

    limits: ClockLimits
    deferred: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[int, tuple[pa.BufferOutputStream, pq.ParquetWriter]] = {}
        for batch in batches:
            table = indexed(batch, self.limits)
            hours = table["received_ms"].to_numpy() // HOUR_MS
            for hour in np.unique(hours).tolist():
                if hour not in files:
                    sink = pa.BufferOutputStream()
                    files[hour] = sink, parquet_writer(sink, table.schema)
                sink, writer = files[hour]
                writer.write_table(table.filter(pa.array(hours == hour)))
                if sink.tell() >= FILE_BYTES:
                    yield _file_row(hour * HOUR_MS, *files.pop(hour))
            odd = pc.invert(pc.is_in(table["verdict"], pa.array([OK, ERASED])))
            told = pc.or_(odd, pc.equal(table["topic"], self.deferred))
            for found in table.filter(told).select([*EXCEPTION]).to_batches():
                yield _row(dict(zip(EXCEPTION, found.columns, strict=True)), found.num_rows)
        for hour, file in files.items():
            yield _file_row(hour * HOUR_MS, *file)


def _file_row(hour_ms: int, sink: pa.BufferOutputStream, writer: pq.ParquetWriter) -> pa.RecordBatch:
    writer.close()
    content = sink.getvalue().to_pybytes()
    values = (hour_ms, hashlib.sha256(content).hexdigest(), content)
    row = zip(FILE.items(), values, strict=True)
    return _row({name: pa.array([value], kind) for (name, kind), value in row}, 1)


def _row(columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    found = [columns.get(column.name, pa.nulls(rows, column.type)) for column in WRITTEN]
    return pa.RecordBatch.from_arrays(found, schema=WRITTEN)


def write_files(folder: Path, records: Iterable[pa.RecordBatch], limits: ClockLimits) -> None:
    """Files of records below ``folder``, without a manifest."""
    rows = (row for found in HourFiles(limits)(records) for row in found.select([*FILE]).to_pylist())
    for number, row in enumerate(row for row in rows if row["content"] is not None):
        path = folder / hour_name(row["hour_ms"]) / f"part-{number:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["content"])


def place(folder: Path, hour_ms: int, staged: Path, entry: Entry) -> bool:
    """Move a finished file to its place under its entry's name, over a copy of an earlier try; whether it
    was taken.

    A name that was packed or has expired since is refused, and the staged file goes: its records are there
    already. ``staged`` must lie on the same file system. Raises OSError.
    """
    name = entry.name
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
