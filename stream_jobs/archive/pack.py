"""Compaction: the many small files of an hour into few, record by record in the same order.

The stream writes a file a batch: 360 an hour. The packed file is written aside, read back and compared with
what it replaces, and counts from the moment when a line of the manifest says so. The files that it replaces
stay in their places, and it in ``.packed``, until everyone who listed them has had ``archive.grace_min``;
then ``settle`` changes the places (upkeep.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from infra.clients.duck import connected
from infra.contract.errors import ArchiveError
from stream_jobs.archive import format as parquet
from stream_jobs.archive.entry import Entry, described, sha256_of
from stream_jobs.archive.layout import PACKED, PACKING, hour_name
from stream_jobs.archive.manifest import append, locked, read_hour, sync
from stream_jobs.archive.reader import ArchiveFile, of_hours
from stream_jobs.archive.writer import adopt, now_ms

BATCH_FILE: Final = re.compile(r"(?P<query>.+)-(?P<batch>\d{9})-\d{3}\.parquet")
"""What the archive query writes. A packed file ends with its number of batches, and is not packed again."""
GROUP_BYTES: Final = 32 << 20
"""Records in memory at once, about: they become a row group."""
READ_ROWS: Final = 8192
_MEMORY: Final = "512MB"
"""What DuckDB may use to compare."""

_SUMS: Final = """
SELECT count(*), sum(hash(record)::hugeint) FROM read_parquet(?, hive_partitioning = false) record
"""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a compaction did with an hour."""

    hour_ms: int
    files_before: int
    files_after: int
    rows: int
    bytes_before: int
    bytes_after: int

    def text(self) -> str:
        """For people."""
        return (
            f"{hour_name(self.hour_ms)}: {self.files_before} files to {self.files_after}, "
            f"{self.rows:,} records, {self.bytes_before:,} bytes to {self.bytes_after:,}"
        )


def pack_hour(folder: Path, hour_ms: int, target_bytes: int) -> Packed | None:
    """Pack an hour's batch files; None where there is nothing to pack. The caller alone does so.

    Raises ArchiveError: a file is damaged, or the disk is full; the hour is then as it was.
    """
    adopt(folder, hour_ms)
    chunks = list(chosen(of_hours(folder, [hour_ms]), target_bytes))
    if not chunks:
        return None
    try:
        made = [_packed(folder, hour_ms, chunk) for chunk in chunks]
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise ArchiveError(
            f"{hour_name(hour_ms)} of {folder} cannot be packed: {error}. It is as it was, and is tried "
            "again; packing needs room for a second copy of the hour"
        ) from error
    sources = [file.entry for chunk in chunks for file in chunk if file.entry is not None]
    _commit(folder, hour_ms, made, [entry.name for entry in sources])
    return Packed(
        hour_ms=hour_ms,
        files_before=len(sources),
        files_after=len(made),
        rows=sum(entry.rows for entry in made),
        bytes_before=sum(entry.bytes for entry in sources),
        bytes_after=sum(entry.bytes for entry in made),
    )


def chosen(files: Sequence[ArchiveFile], target_bytes: int) -> Iterator[list[ArchiveFile]]:
    """Which files become one: those of a query, in order, up to ``target_bytes`` together; two at least."""
    plain = [file for file in files if BATCH_FILE.fullmatch(file.path.name)]
    for _, group in groupby(plain, key=_query):
        chunk: list[ArchiveFile] = []
        size = 0
        for file in group:
            bytes_more = 0 if file.entry is None else file.entry.bytes
            if chunk and size + bytes_more > target_bytes:
                yield from [chunk] if len(chunk) > 1 else []
                chunk, size = [], 0
            chunk.append(file)
            size += bytes_more
        yield from [chunk] if len(chunk) > 1 else []


def _query(file: ArchiveFile) -> str:
    found = BATCH_FILE.fullmatch(file.path.name)
    assert found is not None
    return found["query"]


def _packed(folder: Path, hour_ms: int, chunk: Sequence[ArchiveFile]) -> Entry:
    """The packed file of a chunk, in ``.packed``, compared and on the disk."""
    sources = [sound(file) for file in chunk]
    name = f"{sources[0].name.removesuffix('.parquet')}-packed-{len(sources)}.parquet"
    draft = folder / PACKING / name
    draft.parent.mkdir(parents=True, exist_ok=True)
    join(sources, draft)
    _compare(sources, draft)
    entry = described(draft, name)
    sync(draft)
    target = folder / PACKED / hour_name(hour_ms) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    sync(target.parent)
    return entry


def sound(file: ArchiveFile) -> Path:
    """The path of a file that has the bytes that were written. Raises ArchiveError for another."""
    if file.entry is None or sha256_of(file.path) == file.entry.sha256:
        return file.path
    raise ArchiveError(f"{file.path} has other bytes than were written (SHA-256); put it back from a copy")


def join(sources: Sequence[Path], target: Path) -> None:
    """Write the records of ``sources`` into ``target`` in their order; some MiB of them are in memory."""
    schema = pq.read_schema(sources[0])
    with parquet.writer(target, schema) as file:
        held: list[pa.RecordBatch] = []
        for batch in _batches(sources, schema):
            held.append(batch)
            if sum(each.nbytes for each in held) >= GROUP_BYTES:
                file.write_table(pa.Table.from_batches(held, schema))
                held = []
        if held:
            file.write_table(pa.Table.from_batches(held, schema))


def _batches(sources: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in sources:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema):
                raise ArchiveError(f"{path} has other columns than the file before it: it cannot be packed")
            yield from file.iter_batches(READ_ROWS)


def _compare(sources: Sequence[Path], packed: Path) -> None:
    """Raises ArchiveError unless both hold the same records, each as often."""
    before, after = content(sources), content([packed])
    if before != after:
        raise ArchiveError(
            f"{packed} has not the records of the {len(sources)} files it was made of ({after[0]} for "
            f"{before[0]}): nothing was replaced. Verify the hour: odograph archive verify"
        )


def content(files: Sequence[Path]) -> tuple[Any, ...]:
    """Records of ``files`` and the sum of their hashes over all columns: the order is of no account."""
    with connected(_MEMORY) as connection:
        row = connection.execute(_SUMS, [[str(path) for path in files]]).fetchone()
    assert row is not None
    return tuple(row)


def _commit(folder: Path, hour_ms: int, made: Sequence[Entry], replaces: Sequence[str]) -> None:
    """From this line on the packed files count, and the others do not."""
    with locked(folder, writing=True):
        assert set(replaces) <= set(read_hour(folder, hour_ms).files)
        line = {"op": "pack", "at_ms": now_ms(), "files": [e.as_json() for e in made], "replaces": replaces}
        append(folder, hour_ms, line)
