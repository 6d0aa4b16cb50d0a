"""The custody log's chain: each entry holds the hash of the one before it; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = "0" * 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Key = tuple[str, int, str]
"""Vehicle id, boot id, crash id."""
May = Mapping[str, Collection[str]]
"""By action who may do it; an action that is not named anybody."""


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


def tampered(
    entries: Sequence[Entry], digests: Mapping[Key, str], locked: Collection[Key], may: May
) -> Iterator[str]:
    """Records and locks that are not what the log says, and entries by who may not write them.

    ``digests``: of the records as they are stored.
    """
    histories: dict[Key, list[Entry]] = {}
    for entry in entries:
        histories.setdefault(entry.key, []).append(entry)
    for key, history in histories.items():
        for what in _of_record(history, digests.get(key), key in locked, may):
            yield f"{name_of(key)} {what}"
    yield from (f"{name_of(key)} is not in the log" for key in digests if key not in histories)


def _of_record(history: Sequence[Entry], digest: str | None, locked: bool, may: May) -> Iterator[str]:
    """What is wrong with one record; ``digest`` None: it is not there."""
    yield from _of_entries(history, digest is not None, may)
    actions = {entry.action for entry in history}
    first = next((entry for entry in history if entry.action == "received"), None)
    if first is None:
        yield "is not in the log as received"
    elif digest is None and "deleted" not in actions:
        yield "is gone, and the log does not say so"
    elif digest is not None and digest != first.digest:
        yield f"is not what was received (entry {first.entry})"
    if ("locked" in actions) != locked:
        yield "is locked, and the log does not say so" if locked else "was locked and is not any more"


def _of_entries(history: Sequence[Entry], there: bool, may: May) -> Iterator[str]:
    """What is wrong with the entries of one record in themselves."""
    before: set[str] = set()
    for entry in history:
        where = f"(entry {entry.entry})"
        if entry.actor not in may.get(entry.action, (entry.actor,)):
            yield f"was {entry.action} by {entry.actor}, who may not {where}"
        if entry.action == "received" and "received" in before:
            yield f"was received a second time {where}"
        elif entry.action == "changed":
            yield f"was changed by {entry.actor}, and nobody may {where}"
        elif entry.action == "deleted" and (there or "locked" in before):
            yield f"was deleted {where}, but {'it is still there' if there else 'it was locked'}"
        before.add(entry.action)


def name_of(key: Key) -> str:
    """A record, for people."""
    return f"record {key[2]} of {key[0]} (boot {key[1]})"
