"""The manifest: a file of lines an hour, which is only ever added to; what it says is the sum of its lines.

Each change of an hour is one line, written and synced under the archive's lock: ``add`` a file, ``pack``
files into others, ``swap`` (the packed files took the places of the old ones), ``expire`` files. A line that
a crash cut short is not believed, and the next line begins anew behind it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from infra.contract.errors import ArchiveError, ConfigError

LOCK: Final = ".lock"


@dataclass(slots=True)
class HourState:
    """An hour of the archive: what its manifest says when all lines are read."""

    files: dict[str, Entry] = field(default_factory=dict)
    """Files that count, by name."""
    packed_ms: dict[str, int] = field(default_factory=dict)
    """Of them those that hold others: when they were packed."""
    replaced_ms: dict[str, int] = field(default_factory=dict)
    """Files that other files hold now, or that have expired, and since when: they count no more."""
    swapped_ms: dict[str, int] = field(default_factory=dict)
    """Packed files that took the places of the old ones: when."""
    expired_rows: int = 0

    def take(self, line: Mapping[str, Any]) -> None:
        """Read one line more."""
        match line["op"]:
            case "add":
                self._add(entry_of(line["file"]))
            case "pack":
                for each in line["files"]:
                    self._add(entry_of(each))
                    self.packed_ms[each["name"]] = line["at_ms"]
                self._leave(line["replaces"], line["at_ms"])
            case "swap":
                self.swapped_ms |= dict.fromkeys(line["names"], line["at_ms"])
            case "expire":
                self.expired_rows += sum(self.files[n].rows for n in line["names"] if n in self.files)
                self._leave(line["names"], line["at_ms"])

    def _add(self, entry: Entry) -> None:
        if entry.name not in self.replaced_ms:
            self.files[entry.name] = entry

    def _leave(self, names: Iterable[str], at_ms: int) -> None:
        for name in names:
            self.files.pop(name, None)
            self.replaced_ms.setdefault(name, at_ms)


def read_hour(folder: Path, hour_ms: int) -> HourState:
    """What the manifest says of an hour; empty where it has nothing."""
    state = HourState()
    try:
        text = manifest_of(folder, hour_ms).read_bytes()
    except FileNotFoundError:
        return state
    for line in text.split(b"\n"):
        if (read := _line(line)) is not None:
            state.take(read)
    return state


def _line(text: bytes) -> dict[str, Any] | None:
    """A line; None for one that a crash cut short."""
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return read if isinstance(read, dict) else None


def append(folder: Path, hour_ms: int, line: Mapping[str, Any]) -> None:
    """Add a line, to the disk; the caller has the lock."""
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


@contextmanager
def locked(folder: Path, writing: bool) -> Iterator[None]:
    """Nobody else changes the archive meanwhile; a writer is alone. A killed holder lets go.

    Held for a rename and a line, never for the copying of records.
    """
    path = folder / LOCK
    if not writing and not path.exists():  # nothing was ever written under a manifest: a generated day
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT if writing else os.O_RDONLY
    handle = os.open(path, flags, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def sync(path: Path) -> None:
    """A file or folder to the disk: what is said of it next is believed after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

TELEMETRY: Final = "telemetry"
MANIFEST: Final = "manifest"
PACKED: Final = ".packed"
"""Packed files while the files that they replace are still in their places."""
PACKING: Final = ".packing"
"""Work of a compaction: worth nothing when it does not run."""


def archive_of(home: Path) -> Path:
    """The live archive of a home."""
    return home.absolute() / "archive"


def telemetry_of(home: Path) -> Path:
    """The root of the live archive's Parquet files."""
    return archive_of(home) / TELEMETRY


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


def hours_between(since_ms: int, until_ms: int) -> range:
    """Starts of the hours that hold a moment of [since, until)."""
    return range(since_ms // HOUR_MS * HOUR_MS, until_ms, HOUR_MS)


def day_span(day: str) -> tuple[int, int]:
    """Begin and end of a day of receipt, as ``2026-01-31``, UTC, ms. Raises ConfigError."""
    try:
        begun = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError as error:
        raise ConfigError(f"{day!r} is no day: write it as 2026-01-31") from error
    since_ms = int(begun.timestamp() * 1000)
    return since_ms, since_ms + DAY_MS


def days_of(hours_ms: Iterable[int]) -> list[str]:
    """The days of these hours, as ``2026-01-31``, in order."""
    return sorted({f"{datetime.fromtimestamp(h / 1000, UTC):%Y-%m-%d}" for h in hours_ms})


@dataclass(frozen=True, slots=True)
class Offsets:
    """Records of one topic partition in a file: the first and the last offset, and how many records."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``received_ms``: the first and the last receive time; None in a file without records."""

    name: str
    rows: int
    bytes: int
    sha256: str
    received_ms: tuple[int, int] | None
    offsets: tuple[Offsets, ...]

    def as_json(self) -> dict[str, Any]:
        """Fit for a line of the manifest."""
        return asdict(self)


def entry_of(line: Mapping[str, Any]) -> Entry:
    """The entry in a line of the manifest."""
    times = line["received_ms"]
    return Entry(
        name=line["name"],
        rows=line["rows"],
        bytes=line["bytes"],
        sha256=line["sha256"],
        received_ms=None if times is None else (times[0], times[1]),
        offsets=tuple(Offsets(**each) for each in line["offsets"]),
    )


def described(path: Path, name: str) -> Entry:
    """What there is to say of a file to be called ``name``. Raises ArchiveError for what is no Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            table = file.read(columns=["topic", "partition", "log_offset", "received_ms"])
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{path} cannot be read as Parquet ({_first_line(error)})") from error
    return Entry(name, rows, path.stat().st_size, sha256_of(path), _times(table), _offsets(table))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _times(table: pa.Table) -> tuple[int, int] | None:
    if not table.num_rows:
        return None
    received = table["received_ms"].to_numpy()
    return int(received.min()), int(received.max())


def _offsets(table: pa.Table) -> tuple[Offsets, ...]:
    measures = [("log_offset", "min"), ("log_offset", "max"), ("log_offset", "count")]
    found = table.group_by(["topic", "partition"]).aggregate(measures)
    names = ["topic", "partition", "log_offset_min", "log_offset_max", "log_offset_count"]
    columns = (found[name].to_pylist() for name in names)
    return tuple(sorted((Offsets(*row) for row in zip(*columns, strict=True)), key=_place))


def _place(offsets: Offsets) -> tuple[str, int]:
    return offsets.topic, offsets.partition


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
