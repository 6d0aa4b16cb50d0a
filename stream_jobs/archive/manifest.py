"""The archive on disk: names of folders and files, and the manifest that says which files count.

The manifest is a file of lines an hour, only ever added to; what it says is the sum of its lines: ``add`` a
file, ``pack`` files into others, ``swap`` (packed files took the places of the old ones), ``expire`` files,
``withdraw`` those of a batch's earlier try, whose names may come again.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from infra.clients import locks
from infra.contract.errors import ArchiveError
from infra.settings.values import day_ms

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
TELEMETRY: Final = "telemetry"
MANIFEST: Final = "manifest"
LOCK: Final = ".lock"
PACKED: Final = ".packed"  # packed files while the files that they replace are still in their places
PACKING: Final = ".packing"  # work of a compaction: worth nothing when it does not run


def archive_of(home: Path) -> Path:
    """The live archive of a home."""
    return home.absolute() / "archive"


def hour_name(hour_ms: int) -> str:
    """An hour's folder below ``telemetry``, as ``date=2026-01-31/hour=07``."""
    return datetime.fromtimestamp(hour_ms / 1000, UTC).strftime("date=%Y-%m-%d/hour=%H")


def hour_of(folder: Path) -> int | None:
    """Start of the hour of a folder ``.../date=2026-01-31/hour=07``, ms; None where it is none."""
    try:
        at = datetime.strptime(f"{folder.parent.name}/{folder.name}", "date=%Y-%m-%d/hour=%H")
    except ValueError:
        return None
    return int(at.replace(tzinfo=UTC).timestamp() * 1000)


def manifest_of(folder: Path, hour_ms: int) -> Path:
    """The manifest of an hour."""
    return folder / MANIFEST / f"{hour_name(hour_ms)}.jsonl"


def hours_of_date(day: str) -> range:
    """Hours of a day of receipt, as ``2026-01-31``, UTC, ms. Raises ConfigError."""
    return range(*day_ms(day, "--day", "UTC"), HOUR_MS)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Records of one topic partition in a file: the first and the last offset, and how many records.

    ``log``: the identity of the log that they are places in; empty: written before that was noted.
    """

    topic: str
    partition: int
    first: int
    last: int
    count: int
    log: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``received_ms``: the first and the last receive time; None in a file without records."""

    name: str
    rows: int
    bytes: int
    sha256: str
    received_ms: tuple[int, int] | None
    offsets: tuple[Offsets, ...]

    @property
    def logs(self) -> dict[str, str]:
        """The log that its records of each topic are of, where it was noted: those of a batch are of one."""
        return {each.topic: each.log for each in self.offsets if each.log}


def described(path: Path, name: str, logs: Mapping[str, str] = MappingProxyType({})) -> Entry:
    """A file's entry, its records of these ``logs`` by topic. Raises ArchiveError for what is no Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=["topic", "partition", "log_offset", "received_ms"])
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveError(f"{path} cannot be read as Parquet ({reason})") from error
    received = table["received_ms"].to_numpy()
    times = (int(received.min()), int(received.max())) if table.num_rows else None
    measures = ("min", "max", "count")
    found = table.group_by(["topic", "partition"]).aggregate([("log_offset", each) for each in measures])
    columns = found.select(["topic", "partition", *(f"log_offset_{each}" for each in measures)]).to_pydict()
    rows = sorted(zip(*columns.values(), strict=True))
    offsets = tuple(Offsets(t, p, first, last, n, logs.get(t, "")) for t, p, first, last, n in rows)
    return Entry(name, table.num_rows, path.stat().st_size, sha256_of(path), times, offsets)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(slots=True)
class HourState:
    """An hour of the archive: what its manifest says when all lines are read. Times are ms since 1970."""

    files: dict[str, Entry] = field(default_factory=dict)  # that count, by name
    packed_ms: dict[str, int] = field(default_factory=dict)  # of them those that hold others: when packed
    replaced_ms: dict[str, int] = field(default_factory=dict)  # held by others, or expired: since when
    swapped_ms: dict[str, int] = field(default_factory=dict)  # packed files in their places: when
    expired: list[Entry] = field(default_factory=list)

    @property
    def expired_rows(self) -> int:
        return sum(entry.rows for entry in self.expired)

    def apply(self, line: Mapping[str, Any]) -> None:
        """One line more: files that come, then files that go."""
        op, at_ms = line["op"], line["at_ms"]
        come = {"add": [line.get("file")], "pack": line.get("files")}.get(op, [])
        for entry in msgspec.convert(come, list[Entry]):
            if op == "pack":
                self.packed_ms[entry.name] = at_ms
            if entry.name not in self.replaced_ms:
                self.files[entry.name] = entry
        if op == "swap":
            self.swapped_ms |= dict.fromkeys(line["names"], at_ms)
        for name in line.get({"pack": "replaces", "expire": "names", "withdraw": "names"}.get(op, "")) or []:
            gone = self.files.pop(name, None)
            self.expired += [gone] if op == "expire" and gone is not None else []
            if op != "withdraw":
                self.replaced_ms.setdefault(name, at_ms)


def read_hour(folder: Path, hour_ms: int) -> HourState:
    """What the manifest says of an hour; empty where it has nothing."""
    state, path = HourState(), manifest_of(folder, hour_ms)
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        with suppress(orjson.JSONDecodeError):  # empty, or cut short by a crash
            if isinstance(read := orjson.loads(line), dict):
                state.apply(read)
    return state


def append(folder: Path, hour_ms: int, line: Mapping[str, Any]) -> None:
    """Add a line, to the disk; the caller has the lock. Entries in it are written as objects."""
    path = manifest_of(folder, hour_ms)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("ab") as file:
        # The newline before it ends a line that was cut short; one that is empty is read as nothing.
        file.write(b"\n" + orjson.dumps(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        sync(path.parent)


def hours_listed(folder: Path) -> set[int]:
    """Hours, ms, that have a manifest."""
    found = (folder / MANIFEST).glob("date=*/hour=*.jsonl")
    return {hour for path in found if (hour := hour_of(path.with_suffix(""))) is not None}


def locked(folder: Path, writing: bool) -> AbstractContextManager[None]:
    """Nobody else changes the archive meanwhile; a writer is alone. A killed holder lets go.

    Held for a rename and a line, never for the copying of records.
    """
    path = folder / LOCK
    if not writing and not path.exists():  # nothing was ever written under a manifest: a generated day
        return nullcontext()
    return locks.locked(path, shared=not writing)


def sync(path: Path) -> None:
    """A file or folder to the disk: what is said of it next is believed after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
