"""Records into Parquet by hour (in Python workers, on any host), and finished files into the archive."""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import ERASED, ClockLimits
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import HOUR_MS, TELEMETRY, Entry, hour_name
from stream_jobs.archive.reader import of_hours
from stream_jobs.frames.batch import in_range, verdicts
from stream_jobs.frames.reading import read_heads

UNKNOWN: Final = -1  # a number that an unreadable record does not give
RECORD: Final = ("topic", "partition", "log_offset", "key", "received_ms", "value")
EXCEPTION: Final = (  # what the database hears of a record whose verdict is not ok
    "topic", "partition", "log_offset", "vehicle_id", "boot_id", "seq", "t0_ms", "span_ms", "verdict",
    "received_ms",
)  # fmt: skip
WRITTEN: Final = pa.schema({"hour_ms": pa.int64(), "sha256": pa.string(), "content": pa.binary()})
"""A piece of a file, from a worker: hour of receipt, hash of the whole file in its last piece, bytes."""
FILE_BYTES: Final = 32 << 20  # a file that has reached this size ends, and another one follows
HOURS_OPEN: Final = 4  # of those whose files are not whole yet; the one begun first ends, and another follows
PIECE_BYTES: Final = 8 << 10
RECORDS_AT_ONCE: Final = 250
"""Rows that Spark passes at once, to a worker and from it: so many pieces are 2 MB, and Java makes no arrays
of a whole file, which none but a full collection of its old generation would free."""
READ_AT_ONCE: Final = 2_500  # records that are read at once: each reading has a cost of its own
REPEATED: Final = ["topic", "key", "vehicle_id", "verdict"]
SEARCHED: Final = ["topic", "partition", "log_offset", "received_ms", "vehicle_id", "seq", "t0_ms", "verdict"]

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
    numbers = {"boot_id": table["boot_id"], "seq": table["seq"], "t0_ms": table["t0_ms"]}
    numbers |= {"span_ms": pc.multiply(pc.subtract(table["n"], 1), table["dt_ms"]), "n": table["n"]}
    columns |= {name: pc.fill_null(column, UNKNOWN) for name, column in numbers.items()}
    return pa.table(columns | {"verdict": pa.array(verdict, pa.string())})


def hour_files(batches: Iterable[pa.RecordBatch], limits: ClockLimits) -> Iterator[pa.RecordBatch]:
    """Parquet files of records, one an hour of receipt or several, in their order: rows of WRITTEN.

    The files are rows, with their bytes, since the disk of a worker is not the driver's: a file is there
    whole, or the batch has not come to its end.
    """
    files: dict[int, tuple[pa.BufferOutputStream, pq.ParquetWriter]] = {}
    for batch in gathered(batches, len, READ_AT_ONCE):
        table = indexed(batch, limits)
        hours = table["received_ms"].to_numpy() // HOUR_MS
        for hour in np.unique(hours).tolist():
            if hour not in files:
                sink = pa.BufferOutputStream()
                files[hour] = sink, parquet_writer(sink, table.schema)
            sink, writer = files[hour]
            writer.write_table(table.filter(pa.array(hours == hour)))
            if sink.tell() >= FILE_BYTES:
                yield from _pieces(hour * HOUR_MS, *files.pop(hour))
        for hour in [*files][:-HOURS_OPEN]:
            yield from _pieces(hour * HOUR_MS, *files.pop(hour))
    for hour in list(files):
        yield from _pieces(hour * HOUR_MS, *files.pop(hour))


def gathered(
    batches: Iterable[pa.RecordBatch], size: Callable[[pa.RecordBatch], int], least: int
) -> Iterator[pa.RecordBatch]:
    """The same records, batches of at least so much of a size but for the last one."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(size, held)) >= least:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _pieces(hour_ms: int, sink: pa.BufferOutputStream, writer: pq.ParquetWriter) -> Iterator[pa.RecordBatch]:
    writer.close()
    content = sink.getvalue()
    ends = np.minimum(np.arange(0, content.size + PIECE_BYTES, PIECE_BYTES), content.size).astype(np.int32)
    count = len(ends) - 1
    columns = [
        pa.array(np.full(count, hour_ms)),
        pa.array([*[None] * (count - 1), hashlib.sha256(content).hexdigest()], pa.string()),
        pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), content]),
    ]
    yield from pa.table(columns, schema=WRITTEN).to_batches(max_chunksize=RECORDS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Written:
    """A file that workers made: hour of receipt, hash, and its bytes in pieces."""

    hour_ms: int
    sha256: str
    pieces: pa.ChunkedArray

    def write(self, path: Path) -> None:
        """To ``path``; its folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in self.pieces:
                file.write(piece.as_buffer())


def files_of(rows: pa.Table) -> list[Written]:
    """The files in ``rows`` (columns WRITTEN), by hour, else in the order in which they came."""
    ends = np.flatnonzero(pc.is_valid(rows["sha256"]).to_numpy()) + 1
    found = [
        Written(rows["hour_ms"][begin].as_py(), rows["sha256"][end - 1].as_py(), rows["content"][begin:end])
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    return sorted(found, key=lambda file: file.hour_ms)


def write_files(folder: Path, records: Iterable[pa.RecordBatch], limits: ClockLimits) -> None:
    """Files of records below ``folder``, without a manifest; each is written as soon as it is whole."""
    held: list[pa.RecordBatch] = []
    number = 0
    for batch in hour_files(records, limits):
        held.append(batch)
        for file in files_of(pa.Table.from_batches(held)):
            file.write(folder / hour_name(file.hour_ms) / f"part-{number:05d}.parquet")
            held, number = [], number + 1


def place(folder: Path, hour_ms: int, staged: Path, entry: Entry) -> bool:
    """Move a finished file to its place, over a copy of an earlier try; whether it was taken.

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


def withdraw(folder: Path, hour_ms: int, stem: str, staged: Collection[str]) -> None:
    """Take those files of a batch out of an hour that are not ``staged`` again: an earlier try had more.

    Files go before their line: one that is missing is an error until the batch has run, one without a line
    would be read. What was packed or has expired stays.
    """
    place_of = folder / TELEMETRY / hour_name(hour_ms)
    with manifest.locked(folder, writing=True):
        state = manifest.read_hour(folder, hour_ms)
        there = {name for name in state.files if name.startswith(f"{stem}-")}
        there |= {path.name for path in place_of.glob(f"{stem}-*.parquet")}
        gone = there.difference(staged, state.packed_ms, state.replaced_ms)
        for name in gone:
            (place_of / name).unlink(missing_ok=True)
        if gone:
            manifest.append(folder, hour_ms, {"op": "withdraw", "at_ms": now_ms(), "names": sorted(gone)})


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
