"""The manifest: a file of lines an hour, which is only ever added to; what it says is the sum of its lines.

Each change of an hour is one line, written and synced under the archive's lock: ``add`` a file, ``pack``
files into others, ``swap`` (the packed files took the places of the old ones), ``expire`` files. A line that
a crash cut short is not believed, and the next line begins anew behind it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from stream_jobs.archive.entry import Entry, entry_of
from stream_jobs.archive.layout import MANIFEST, hour_of, manifest_of

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
