"""The custody log's chain: each entry holds the hash of the one before it; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = "0" * 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Key = tuple[str, int, str]
"""Vehicle id, boot id, crash id."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as the table has it; see the comments of odograph.custody."""

    entry: int
    at: datetime
    actor: str
    action: str
    vehicle_id: str
    boot_id: int
    crash_id: str
    digest: str
    detail: str
    previous: str
    sha256: str

    @property
    def key(self) -> Key:
        """The record it is about."""
        return self.vehicle_id, self.boot_id, self.crash_id

    def hashed(self) -> str:
        """The hash that it should hold."""
        at_us = (self.at - _EPOCH) // timedelta(microseconds=1)
        lines = (
            self.previous, self.entry, at_us, self.actor, self.action, self.vehicle_id, self.boot_id,
            _CONTROL.sub(" ", self.crash_id), self.digest, self.detail,
        )  # fmt: skip
        return hashlib.sha256("\n".join(map(str, lines)).encode()).hexdigest()


def broken(entries: Iterable[Entry]) -> Iterator[str]:
    """What does not hold in the whole log, in its order, in words."""
    before: Entry | None = None
    for entry in entries:
        wanted = 1 if before is None else before.entry + 1
        if entry.entry != wanted:
            yield f"entry {wanted} is missing: {entry.entry} follows"
        elif entry.previous != (START if before is None else before.sha256):
            yield f"entry {entry.entry} does not follow from the one before"
        if entry.sha256 != entry.hashed():
            yield f"entry {entry.entry} was changed: its hash is not that of what it says"
        before = entry


def tampered(entries: Sequence[Entry], digests: Mapping[Key, str], locked: Iterable[Key]) -> Iterator[str]:
    """Records and locks that are not what the log says. ``digests``: of the records as they are stored."""
    last: dict[Key, Entry] = {}
    was_locked: set[Key] = set()
    for entry in entries:
        if entry.action in ("received", "changed", "deleted"):
            last[entry.key] = entry
        elif entry.action == "locked":
            was_locked.add(entry.key)
    for key, entry in last.items():
        if entry.action == "deleted":
            continue
        if key not in digests:
            yield f"{_name(key)} is gone, and the log does not say so"
        elif digests[key] != entry.digest:
            yield f"{_name(key)} is not what was {entry.action} (entry {entry.entry})"
    yield from (f"{_name(key)} is not in the log" for key in digests if key not in last)
    gone = was_locked - set(locked)
    yield from (f"{_name(key)} was locked and is not any more" for key in sorted(gone))


def _name(key: Key) -> str:
    return f"record {key[2]} of {key[0]} (boot {key[1]})"
