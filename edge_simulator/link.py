"""What the radio link does to frames: hold back, repeat, swap, lose; and what a broken clock or device sends.

Fates are drawn per frame from the seed before encoding, so that a frame can carry the time it is really sent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from edge_simulator.geo import Ints
from edge_simulator.scenario import LinkShares

FATES = ("late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset")
PLAIN = len(FATES)
_FATE_NAMES = (*FATES, "plain")
CLOCK_2036_MS = 2_085_978_496_000
"""The day the 32-bit seconds of NTP roll over."""
CLOCK_1970_MS = 0


@dataclass(frozen=True, slots=True, order=True)
class Outgoing:
    """A message on its way to the broker; sorts by time, then by order of making."""

    due_ms: int
    order: int
    vehicle: int = field(compare=False)
    channel: str = field(compare=False)
    payload: bytes = field(compare=False)
    flag: str = field(compare=False, default="plain")
    copy: bool = field(compare=False, default=False)
    """A second sending of a frame that was sent before."""
    retain: bool = field(compare=False, default=False)


class Fates:
    """Draws what happens to frames. ``rng`` is the link's own."""

    def __init__(
        self, shares: LinkShares, rng: np.random.Generator, interval_ms: int, lateness_ms: int
    ) -> None:
        self._edges = np.cumsum(shares.fates)
        self._poison = shares.poison
        self._rng = rng
        self._interval_ms = interval_ms
        self._lateness_ms = lateness_ms

    def draw(self, n: int) -> tuple[Ints, Ints]:
        """Fate (index into FATES, or PLAIN) and delay in ms of ``n`` frames; a duplicate's is its copy's."""
        fate = np.searchsorted(self._edges, self._rng.random(n), side="right")
        span = self._rng.random(n)
        interval = self._interval_ms
        most = max(self._lateness_ms - 2 * interval - 3000, 2500)
        delay = np.select(
            [fate == 0, fate == 1, fate == 2, fate == 3],
            [
                2000 + span * (most - 2000),
                self._lateness_ms + 3000 + span * 12_000,
                50 + span * 2000,
                interval * (1.05 + 0.4 * span) + 20,
            ],
            0.0,
        )
        return fate.astype(np.int64), delay.astype(np.int64)

    def poisoned(self, n: int) -> Ints:
        """Which of ``n`` frames are followed by a poison message; indices."""
        return np.flatnonzero(self._rng.random(n) < self._poison) if self._poison else np.empty(0, np.int64)


def name(fate: int) -> str:
    """A fate's name."""
    return _FATE_NAMES[fate]


def poison(kind: int, vehicle_id: str, payload: bytes) -> bytes:
    """A message nobody can understand, made of a good one: cut short, foreign identity, NaN, or no UTF-8."""
    match kind % 4:
        case 0:
            return payload[: len(payload) // 2]
        case 1:
            other = ("X" if vehicle_id[0] != "X" else "Y") + vehicle_id[1:]
            return payload.replace(vehicle_id.encode(), other.encode(), 1)
        case 2:
            return payload.replace(b'"dt_ms":', b'"x":NaN,"dt_ms":', 1)
        case _:
            return b"\xff\xfe" + payload


class Queue:
    """Messages in the order of their sending, with counts of what the link did."""

    def __init__(self) -> None:
        self._heap: list[Outgoing] = []
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, items: Iterable[Outgoing]) -> None:
        """Hold messages until they are due."""
        for item in items:
            heapq.heappush(self._heap, item)

    def take(self, until_ms: int) -> list[Outgoing]:
        """Messages due before ``until_ms``, in order."""
        due = []
        while self._heap and self._heap[0].due_ms < until_ms:
            due.append(heapq.heappop(self._heap))
        return due

    def flush(self) -> list[Outgoing]:
        """All that is left, in order."""
        rest = sorted(self._heap)
        self._heap.clear()
        return rest
