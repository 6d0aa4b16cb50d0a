"""A recorder's memory: which events it keeps, and which may go (49 CFR 563.9)."""

from __future__ import annotations

from dataclasses import dataclass

BUFFERS = 4
"""Events that fit in all; an engineering default."""
UNLOCKED = 2
"""Events without a deployment that are kept at most."""
SET_MS = 5000
"""Two events that begin within this are one crash."""


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event, ``number`` 1 or 2; ``locked`` where a restraint was deployed for good."""

    crash_id: str
    zero_ms: float
    locked: bool
    number: int
    first: Event | None
    """Event 1, where this is event 2 of the same crash."""


class Memory:
    """The memory of one vehicle, oldest event first. What is locked is never overwritten."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """What it holds."""
        return tuple(self._events)

    def store(self, crash_id: str, zero_ms: float, locked: bool) -> Event | None:
        """Keep an event; None where there is no room, or where it is a crash's third without deployment.

        The oldest event without a deployment goes when a third such event comes, and when all is full.
        """
        first = self._first_of_this_crash(zero_ms)
        if first is not None and not locked and any(event.first is first for event in self._events):
            return None
        if not self._make_room(locked):
            return None
        event = Event(crash_id, zero_ms, locked, 1 if first is None else 2, first)
        self._events.append(event)
        return event

    def _first_of_this_crash(self, zero_ms: float) -> Event | None:
        firsts = [e for e in self._events if e.number == 1 and zero_ms - e.zero_ms <= SET_MS]
        return firsts[-1] if firsts else None

    def _make_room(self, locked: bool) -> bool:
        free = [event for event in self._events if not event.locked]
        crowded = len(self._events) >= BUFFERS or (not locked and len(free) >= UNLOCKED)
        if crowded and free:
            self._events.remove(free[0])
        return len(self._events) < BUFFERS
