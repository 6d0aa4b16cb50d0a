"""What the radio link does to frames: hold back, repeat, swap, lose; and what a broken clock or device sends.

Fates are drawn per frame from the seed before encoding, so that a frame can carry the time it is really sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge_simulator.geo import Ints
from edge_simulator.wireless.settings import LinkShares
from infra.contract import frame

FATES = ("late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset")
PLAIN = len(FATES)
LOST = FATES.index("lost")
DUPLICATE = FATES.index("duplicate")
CLOCK_AHEAD, CLOCK_UNSET = FATES.index("clock_ahead"), FATES.index("clock_unset")
FATE_NAMES = (*FATES, "plain")
HELD_BACK = np.array([FATES.index(held) for held in ("late", "late_beyond", "disorder")])
CLOCK_2036_MS = 2_085_978_496_000  # the day the 32-bit seconds of NTP roll over
CLOCK_1970_MS = 0
HUGE_BYTES = 10_000_000
HUGE_EVERY = 500  # one poison message in so many is of HUGE_BYTES
NEST_DEPTH = 200
UP_MS = 60_000  # a device with such a clock has been up so long when the run begins


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


def poison(kind: int, vehicle_id: str, payload: bytes) -> bytes:
    """A message nobody can understand, made of a good one.

    Cut short, under a foreign identity, with NaN, no UTF-8, nested too deep, or too large; now and then huge.
    """
    if kind % HUGE_EVERY == HUGE_EVERY - 1:
        return payload.ljust(HUGE_BYTES)
    nest = b"[" * NEST_DEPTH + b"]" * NEST_DEPTH
    other = ("X" if vehicle_id[0] != "X" else "Y") + vehicle_id[1:]
    spoiled: tuple[Callable[[], bytes], ...] = (
        lambda: payload[: len(payload) // 2],
        lambda: payload.replace(vehicle_id.encode(), other.encode(), 1),
        lambda: payload.replace(b'"dt_ms":', b'"x":NaN,"dt_ms":', 1),
        lambda: b"\xff\xfe" + payload,
        lambda: payload.replace(b'"dt_ms":', b'"x":' + nest + b',"dt_ms":', 1),
        lambda: payload.ljust(frame.MAX_BYTES + 1),
    )
    return spoiled[kind % len(spoiled)]()
