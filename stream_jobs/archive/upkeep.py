"""Upkeep of the archive: pack closed hours, expire old ones, let files go when nobody can be reading them.

Each step is a line of the manifest or can be done again: one that was killed is done again by the next pass.
"""

import ctypes
import errno
import os
import re
import shutil
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from infra.clients import locks
from infra.clients.db import sql_of
from infra.clients.duck import connected
from infra.contract.errors import ArchiveError
from infra.contract.verdict import ERASED, LATE, OK
from infra.settings.sections import Archive
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import DAY_MS, HOUR_MS, PACKED, PACKING, TELEMETRY, Entry, hour_name
from stream_jobs.archive.reader import ArchiveFile, examined, hours, of_hours, paths
from stream_jobs.archive.writer import adopt, gathered, now_ms, parquet_writer

SQL: Final = sql_of(__file__)

MINUTE_MS: Final = 60_000
UPKEEP_LOCK: Final = ".upkeep.lock"
SWAP: Final = "swap"
# What the archive query writes. A packed file ends with its number of batches, and is not packed again.
BATCH_FILE: Final = re.compile(r"(?P<query>.+)-\d{9}-\d{3}\.parquet")
ERASED_FILE: Final = re.compile(r"-erased-[0-9A-F]{10}$")
GROUP_BYTES: Final = 32 << 20  # records in memory at once, about: they become a row group
READ_ROWS: Final = 8192
MEMORY: Final = "512MB"  # what DuckDB may use to compare

log = structlog.get_logger("stream_jobs.archive")


@contextmanager
def alone(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Only one upkeep at a time; raises ArchiveError while another runs, unless it is to ``wait``."""
    busy = ArchiveError(
        f"another upkeep of {folder} runs (odograph maintenance does it too): try again in a minute"
    )
    with locks.locked(folder / UPKEEP_LOCK, busy=None if wait else busy):
        shutil.rmtree(folder / PACKING, ignore_errors=True)  # what a killed one left
        try:
            yield
        finally:
            shutil.rmtree(folder / PACKING, ignore_errors=True)


def upkeep(folder: Path, rules: Archive) -> int:
    """One pass: what is due; at most one hour is packed. How many hours were touched."""
    if not (folder / TELEMETRY).exists():
        return 0
    with alone(folder):
        now = now_ms()
        stored = []
        for hour in hours(folder):  # by its folders alone: most hours of a long archive rest
            place, aside = _places(folder, hour)
            names = _names(place)
            batches = sum(map(bool, map(BATCH_FILE.fullmatch, names)))
            if aside.is_dir() or batches > 1 or (names and _expires(hour, rules, now)):
                stored.append(hour)
        due = due_hours(folder, stored, rules, now)
        expire(folder, due)
        touched = len(due)
        for hour in stored:
            try:
                touched += settle(folder, hour, rules.grace_min, now)
            except OSError as error:
                log.error("files of an hour did not go", hour=hour_name(hour), error=str(error))
        for packed in compact(folder, stored, rules, now):
            if isinstance(packed, Packed):
                counts = {"files": packed.files_before, "rows": packed.rows}
                log.info("hour packed", hour=hour_name(packed.hour_ms), **counts)
                return touched + 1
            log.error("an hour was not packed", error=str(packed))
    return touched


def _places(folder: Path, hour_ms: int) -> tuple[Path, Path]:
    return folder / TELEMETRY / hour_name(hour_ms), folder / PACKED / hour_name(hour_ms)


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()


@dataclass(frozen=True, slots=True)
class Packed:
    """What a compaction did with an hour."""

    hour_ms: int
    files_before: int
    files_after: int
    rows: int
    bytes_before: int
    bytes_after: int


def compact(
    folder: Path, hours_ms: Iterable[int], rules: Archive, at_ms: int
) -> Iterator[Packed | ArchiveError]:
    """Pack those of the hours that ended long enough ago, as it is asked for; errors come out too."""
    for hour in hours_ms:
        if hour + HOUR_MS + rules.pack_after_min * MINUTE_MS <= at_ms:
            try:
                if packed := pack_hour(folder, hour, rules.pack_mb << 20):
                    yield packed
            except ArchiveError as error:
                yield error


def pack_hour(folder: Path, hour_ms: int, target_bytes: int) -> Packed | None:
    """Pack an hour's batch files; None where there is nothing to pack. The caller alone does so.

    Raises ArchiveError: a file is damaged, or the disk is full; the hour is then as it was.
    """
    adopt(folder, hour_ms)
    chunks = _chunks(of_hours(folder, [hour_ms]), target_bytes)
    if not chunks:
        return None
    names = [f"{chunk[0][0].stem}-packed-{len(chunk)}.parquet" for chunk in chunks]
    with _as_it_was(folder, hour_ms):
        made = [_rewritten(folder, hour_ms, *each) for each in zip(chunks, names, strict=True)]
    sources = [entry for chunk in chunks for _, entry in chunk]
    _replace(folder, hour_ms, made, [entry.name for entry in sources])
    bytes_before, bytes_after = (sum(entry.bytes for entry in entries) for entries in (sources, made))
    rows = sum(entry.rows for entry in made)
    return Packed(hour_ms, len(sources), len(made), rows, bytes_before, bytes_after)


@contextmanager
def _as_it_was(folder: Path, hour_ms: int) -> Iterator[None]:
    """Errors of disk and files as ArchiveError, while nothing of an hour is replaced yet."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(
            f"{hour_name(hour_ms)} of {folder} cannot be rewritten: {error}. It is as it was; to do it again "
            "needs room for a second copy of the hour"
        ) from error


def _replace(folder: Path, hour_ms: int, made: Sequence[Entry], replaces: Sequence[str]) -> None:
    with manifest.locked(folder, writing=True):
        assert set(replaces) <= set(manifest.read_hour(folder, hour_ms).files)
        line = {"op": "pack", "at_ms": now_ms(), "files": made, "replaces": replaces}
        manifest.append(folder, hour_ms, line)


def _chunks(files: Iterable[ArchiveFile], target_bytes: int) -> list[list[tuple[Path, Entry]]]:
    """Which files become one: those of a query, in order, up to ``target_bytes`` together; two at least.

    The records of a topic in a file are of one log.
    """
    chunks: list[list[tuple[Path, Entry]]] = []
    query, size, logs = "", 0, dict[str, str]()
    for file in files:
        match = BATCH_FILE.fullmatch(file.path.name)
        if match is None or file.entry is None:
            continue
        another = any(logs.get(topic, log) != log for topic, log in file.logs.items())
        if another or match["query"] != query or size + file.entry.bytes > target_bytes:
            chunks.append([])
            query, size, logs = match["query"], 0, {}
        chunks[-1].append((file.path, file.entry))
        size += file.entry.bytes
        logs |= file.logs
    return [chunk for chunk in chunks if len(chunk) > 1]


def _rewritten(
    folder: Path, hour_ms: int, chunk: Sequence[tuple[Path, Entry]], name: str,
    changed: Callable[[pa.Table], pa.Table] | None = None,
) -> Entry:  # fmt: skip
    """One file ``name`` of those of a chunk, ``changed``: its records instead; it lies in its grace place."""
    for path, entry in chunk:
        if manifest.sha256_of(path) != entry.sha256:
            raise ArchiveError(f"{path} has other bytes than were written (SHA-256); put it back from a copy")
    sources = [path for path, _ in chunk]
    draft, target = folder / PACKING / name, _places(folder, hour_ms)[1] / name
    for path in (draft, target):
        path.parent.mkdir(parents=True, exist_ok=True)
    schema = pq.read_schema(sources[0])
    with parquet_writer(draft, schema) as file:
        for group in gathered(_batches(sources, schema), attrgetter("nbytes"), GROUP_BYTES):
            records = pa.Table.from_batches([group])
            file.write_table(records if changed is None else changed(records))
            pa.default_memory_pool().release_unused()  # it would keep 100 MiB for the next ones
    before, after = _content(sources), _content([draft])
    if before != after if changed is None else before[0] != after[0]:
        raise ArchiveError(
            f"{draft} has not the records of the {len(sources)} files it was made of ({after[0]} for "
            f"{before[0]}): nothing was replaced. Verify the hour: odograph archive verify"
        )
    entry = manifest.described(draft, name, dict(ChainMap(*(entry.logs for _, entry in chunk))))
    manifest.sync(draft)
    draft.replace(target)
    manifest.sync(target.parent)
    return entry


def _batches(sources: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of ``sources`` in their order."""
    for path in sources:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema):
                raise ArchiveError(f"{path} has other columns than the file before it: it cannot be packed")
            # Threads keep what they took, 40 MiB, long after the hour is packed.
            yield from file.iter_batches(READ_ROWS, use_threads=False)


def _content(files: Sequence[Path]) -> tuple[Any, ...]:
    """Records of ``files`` and the sum of their hashes over all columns: in any order."""
    with connected(MEMORY) as connection:
        (row,) = connection.execute(SQL["sums"], [[str(path) for path in files]]).fetchall()
    return tuple(row)


def expire(folder: Path, due_ms: Iterable[int]) -> None:
    """Let the files of these hours count no more, damaged ones too. They go by ``settle``."""
    for hour in due_ms:
        try:
            adopt(folder, hour)
        except ArchiveError as error:
            log.error("an hour expires with what is damaged in it", hour=hour_name(hour), error=str(error))
        names = sorted(file.path.name for file in examined(folder, [hour])[0])
        _places(folder, hour)[1].mkdir(parents=True, exist_ok=True)  # so that `upkeep` sees to the hour
        with manifest.locked(folder, writing=True):
            manifest.append(folder, hour, {"op": "expire", "at_ms": now_ms(), "names": names})
        log.info("hour expired", hour=hour_name(hour), files=len(names))


def due_hours(folder: Path, hours_ms: Iterable[int], rules: Archive, at_ms: int) -> list[int]:
    """Those of the hours that ended ``keep_days`` ago and have records, whole or damaged."""
    return [hour for hour in hours_ms if _expires(hour, rules, at_ms) and examined(folder, [hour])[0]]


def partitions_of(folder: Path, vehicle_id: str) -> dict[str, set[int]]:
    """By topic the partitions in which records of a vehicle lay. Raises ArchiveError."""
    files = paths(folder)
    with connected(MEMORY) as connection:
        rows = connection.execute(SQL["partitions"], [files, vehicle_id]).fetchall() if files else []
    return {topic: {p for name, p in rows if name == topic} for topic, _ in rows}


def erase(folder: Path, hour_ms: int, target_bytes: int, vehicle_id: str, name: str) -> int:
    """Take a vehicle out of an hour's records, which are packed before; how many were its. One at a time.

    The records keep their places, numbers and times, under ``name`` and the verdict ``erased``. The old files
    go by ``settle``. Raises ArchiveError: a file is damaged, or the disk is full; the hour is then as it was.
    """
    adopt(folder, hour_ms)
    made: dict[str, Entry] = {}
    count = 0
    with _as_it_was(folder, hour_ms):
        if any(_held(file, vehicle_id) for file in of_hours(folder, [hour_ms])):
            pack_hour(folder, hour_ms, target_bytes)
        for file in of_hours(folder, [hour_ms]):
            ours = _held(file, vehicle_id)
            if ours and file.entry is not None:
                stem = ERASED_FILE.sub("", file.path.name.removesuffix(".parquet"))
                fresh = f"{stem}-erased-{name[-10:]}.parquet"
                nobodys = partial(_nobodys, vehicle_id=vehicle_id, name=name)
                made[file.path.name] = _rewritten(folder, hour_ms, [(file.path, file.entry)], fresh, nobodys)
                count += ours
    if made:
        _replace(folder, hour_ms, [*made.values()], [*made])
    return count


def _held(file: ArchiveFile, vehicle_id: str) -> int:
    """How many of a file's records are of a vehicle."""
    held = pq.read_table(file.path, columns=["vehicle_id"], partitioning=None)["vehicle_id"]
    return pc.sum(pc.equal(held, vehicle_id)).as_py() or 0


def _nobodys(records: pa.Table, vehicle_id: str, name: str) -> pa.Table:
    """Records of the vehicle as nobody's, the others as they are."""
    ours = pc.equal(records["vehicle_id"], vehicle_id)
    believed = pc.is_in(records["verdict"], pa.array([OK, LATE]))
    t0_ms = pc.if_else(believed, records["t0_ms"], records["received_ms"])
    instead = {
        "key": name.encode(), "value": None, "vehicle_id": name, "verdict": ERASED, "t0_ms": t0_ms,
        "span_ms": 0, "n": 0,
    }  # fmt: skip
    for column, value in instead.items():
        place = records.schema.get_field_index(column)
        field = records.schema.field(place)
        other = value if column == "t0_ms" else pa.scalar(value, field.type)
        records = records.set_column(place, field, pc.if_else(ours, other, records[column]))
    return records


def _expires(hour_ms: int, rules: Archive, at_ms: int) -> bool:
    return rules.keep_days > 0 and hour_ms + HOUR_MS + rules.keep_days * DAY_MS <= at_ms


def settle(folder: Path, hour_ms: int, grace_min: int, at_ms: int) -> bool:
    """Let files go that were replaced or expired ``grace_min`` ago; whether there were any."""
    old_ms = at_ms - grace_min * MINUTE_MS
    place, aside = _places(folder, hour_ms)
    replaced_ms = manifest.read_hour(folder, hour_ms).replaced_ms
    due = {name for name, since in replaced_ms.items() if since <= old_ms} & _names(place)
    if due:
        with manifest.locked(folder, writing=True):
            _swap(folder, hour_ms, due, at_ms)
        shutil.rmtree(folder / PACKING / SWAP, ignore_errors=True)
    state = manifest.read_hour(folder, hour_ms)
    for name in _names(aside):  # a packed file stays until it has had another name in place for long
        since = state.replaced_ms.get(name, state.swapped_ms.get(name))
        if name not in state.files if since is None else since <= old_ms:
            (aside / name).unlink()
    if not state.replaced_ms.keys() & _names(place):
        _drop_empty(aside)
    return bool(due)


def _swap(folder: Path, hour_ms: int, due: set[str], at_ms: int) -> None:
    """The hour's folder without the files ``due`` and with the packed ones, at once; the lock is held."""
    place, aside = _places(folder, hour_ms)
    state = manifest.read_hour(folder, hour_ms)
    packed = {name: aside / name for name in state.packed_ms if name in state.files}
    fresh = folder / PACKING / SWAP
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, path in (packed | {name: place / name for name in _names(place) - due}).items():
        os.link(path, fresh / name)
    manifest.sync(fresh)
    if not exchanged(place, fresh):  # a reader that asks no manifest may see records twice meanwhile
        for name in _names(fresh) - _names(place):
            (fresh / name).rename(place / name)
        for name in due:
            (place / name).unlink()
        manifest.sync(place)
    manifest.sync(place.parent)
    manifest.append(folder, hour_ms, {"op": "swap", "at_ms": at_ms, "names": sorted(packed)})
    _drop_empty(place)


def exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places at once; False where kernel or file system cannot. Raises OSError."""
    at_cwd, exchange = -100, 2  # linux/fs.h, since Linux 3.15: ext4, XFS, Btrfs, tmpfs
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if not rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange):
        return True
    error = ctypes.get_errno()
    if error in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), str(one), None, str(other))


def _drop_empty(hour_folder: Path) -> None:
    for folder in (hour_folder, hour_folder.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
