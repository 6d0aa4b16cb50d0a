"""What is noted once a second while a load runs, and what follows from a row of such notes. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

MEMORY_FLAT_SHARE = 0.02
MEMORY_FLAT_MB = 16.0
"""Memory is flat where the trend over the second half gains less than either in that time."""
MEMORY_PARTS = 12
"""Of the second half, of each of which the lowest counts: an hour that is packed, or an audit, has its memory
for minutes."""
MEMORY_JUDGED_S = 290.0
"""A shorter run tells nothing of memory: Java's heaps fill for minutes."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the simulator has noted of its run; ``noted_s`` is when, on the wall clock."""

    sent: int = 0
    overrun: int = 0
    """Frames that left more than 100 ms late."""
    noted_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """The state of the chain at one moment. Counts are of telemetry since the stack's start."""

    at_s: float
    """On the monotonic clock."""
    appended: int
    """Records in the log."""
    committed: Mapping[str, int]
    """Records whose results are in, by query."""
    queued: int
    """Messages that the broker holds for the bridge: acknowledged to the vehicle, not yet by Kafka."""
    dropped: int
    in_flight: int | None
    """Messages between MQTT and Kafka inside the bridge; None where its page did not answer in time."""
    load: Load
    memory_mb: Mapping[str, float] | None = None
    """By part; not at each tick."""

    def lag(self, query: str) -> int:
        """Messages that the broker has taken and that are not in the query's results."""
        return self.appended - self.committed.get(query, 0) + self.queued


def lags(ticks: Sequence[Tick], query: str) -> list[float]:
    """The lag of a query at each tick, records."""
    return [float(tick.lag(query)) for tick in ticks]


def slope_per_s(at_s: Sequence[float], values: Sequence[float]) -> float:
    """The trend of ``values`` by least squares; 0 for fewer than three."""
    if len(values) < 3:
        return 0.0
    return float(np.polyfit(np.asarray(at_s) - at_s[0], values, 1)[0])


def trend(ticks: Sequence[Tick], query: str, block_s: float = 0.0) -> float:
    """How fast a query's lag grows, records/s.

    With ``block_s`` the trend of the lowest lag in each block of so long: for a query that commits rarely,
    whose lag goes up and down with its trigger. 0 where there are fewer than three blocks.
    """
    values = lags(ticks, query)
    if block_s <= 0:
        return slope_per_s([tick.at_s for tick in ticks], values)
    lowest: dict[int, float] = {}
    for tick, value in zip(ticks, values, strict=True):
        block = int((tick.at_s - ticks[0].at_s) // block_s)
        lowest[block] = min(value, lowest.get(block, value))
    whole = sorted(lowest)[:-1]  # the last block may have just begun
    return slope_per_s([block * block_s for block in whole], [lowest[block] for block in whole])


def pause_s(ticks: Sequence[Tick], query: str) -> float:
    """The longest time between two commits of a query, s: its lag swings by what comes in meanwhile."""
    changes = [ticks[0].at_s]
    for before, now in itertools.pairwise(ticks):
        if now.committed.get(query, 0) != before.committed.get(query, 0):
            changes.append(now.at_s)
    return max(after - before for before, after in itertools.pairwise([*changes, ticks[-1].at_s]))


def rate_of(ticks: Sequence[Tick], query: str | None = None) -> float:
    """Records/s appended, or committed by a query, between the first tick and the last."""
    first, last = ticks[0], ticks[-1]
    span_s = max(1e-9, last.at_s - first.at_s)
    if query is None:
        return (last.appended - first.appended) / span_s
    return (last.committed.get(query, 0) - first.committed.get(query, 0)) / span_s


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one part over a run, MiB; the slope is that of the second half, MiB a minute."""

    begin_mb: float
    end_mb: float
    most_mb: float
    slope_mb_per_min: float
    flat: bool | None
    """None where the run was too short to tell."""


def memories(ticks: Sequence[Tick]) -> dict[str, Memory]:
    """Memory of each part that was there all the time."""
    noted = [(tick.at_s, tick.memory_mb) for tick in ticks if tick.memory_mb]
    names = set.intersection(*(set(m) for _, m in noted)) if noted else set()
    return {name: _memory([(at_s, m[name]) for at_s, m in noted]) for name in sorted(names)}


def _memory(noted: Sequence[tuple[float, float]]) -> Memory:
    half = noted[len(noted) // 2 :]
    parts = np.array_split(np.array(half), min(MEMORY_PARTS, len(half)))
    lowest = [part[part[:, 1].argmin()] for part in parts]
    per_s = slope_per_s([at for at, _ in lowest], [mb for _, mb in lowest])
    gain_mb = per_s * (half[-1][0] - half[0][0])
    values = [mb for _, mb in noted]
    flat = gain_mb <= max(MEMORY_FLAT_MB, MEMORY_FLAT_SHARE * values[-1])
    long = noted[-1][0] - noted[0][0] >= MEMORY_JUDGED_S
    begin, end, most = (round(mb, 1) for mb in (values[0], values[-1], max(values)))
    return Memory(begin, end, most, round(60 * per_s, 2), flat if long else None)
