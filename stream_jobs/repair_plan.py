"""What a repair has to read: which windows, which hours of the archive, which receive times. Pure.

A frame with the verdict ok that has a sample at ``e`` was received in ``[e - ahead, e + lateness]``: its
first sample is at most ``e`` and its last at least ``e``. So ok frames of a window are found by receive time,
late ones only by their index in the table late_frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from infra.archive.layout import HOUR_MS
from infra.contract.errors import ConfigError
from infra.contract.settings import Settings

MAX_INTERVALS: Final = 32
"""Beyond this the narrowest gaps are read too: a filter of hundreds of terms costs more than it saves."""

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LateFrame:
    """A line of odograph.late_frame; topic, partition and offset say which record it is.

    A day that was filled in (odograph backfill) brings a topic's name and offsets of its own.
    """

    topic: str
    partition: int
    log_offset: int
    vehicle_id: str
    t0_ms: int
    span_ms: int

    def starts_ms(self, window_ms: int) -> range:
        """Starts of the windows that its samples lie in, or may lie in where samples are far apart."""
        first = self.t0_ms // window_ms * window_ms
        return range(first, self.t0_ms + self.span_ms + 1, window_ms)


@dataclass(frozen=True, slots=True)
class Grid:
    """Lengths that the plan needs, ms."""

    window_ms: int
    road_window_ms: int
    ahead_ms: int
    lateness_ms: int


def grid_of(settings: Settings) -> Grid:
    """The lengths in force; raises ConfigError where they do not fit each other."""
    jobs = settings.jobs
    if jobs.road_window_s % jobs.window_s:
        raise ConfigError(
            f"ODOGRAPH_JOBS_ROAD_WINDOW_S {jobs.road_window_s} is no multiple of "
            f"ODOGRAPH_JOBS_WINDOW_S {jobs.window_s}"
        )
    return Grid(
        window_ms=jobs.window_s * 1000,
        road_window_ms=jobs.road_window_s * 1000,
        ahead_ms=jobs.ahead_s * 1000,
        lateness_ms=jobs.lateness_s * 1000,
    )


def road_starts_ms(frames: Iterable[LateFrame], grid: Grid) -> list[int]:
    """Starts of the road windows that ``frames`` touch, in order; vehicle windows lie inside them."""
    return sorted({start for frame in frames for start in frame.starts_ms(grid.road_window_ms)})


def vehicle_keys(frames: Iterable[LateFrame], grid: Grid) -> list[tuple[str, int]]:
    """Vehicle and start of the vehicle windows that ``frames`` touch, in order."""
    return sorted({(f.vehicle_id, start) for f in frames for start in f.starts_ms(grid.window_ms)})


def received_intervals(starts_ms: Sequence[int], grid: Grid) -> list[Interval]:
    """Receive times, ms, of all ok frames with a sample in the road windows that begin at ``starts_ms``."""
    merged: list[Interval] = []
    for start in starts_ms:
        low, high = start - grid.ahead_ms, start + grid.road_window_ms + grid.lateness_ms
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return _joined(merged)


def _joined(intervals: list[Interval]) -> list[Interval]:
    """``intervals`` with the narrowest gaps closed until at most MAX_INTERVALS are left."""
    gaps = sorted(b[0] - a[1] for a, b in pairwise(intervals))
    closed = max(0, len(intervals) - MAX_INTERVALS)
    widest_closed = gaps[closed - 1] if closed else -1
    joined = intervals[:1]
    for low, high in intervals[1:]:
        if low - joined[-1][1] <= widest_closed:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def hours_ms(intervals: Iterable[Interval], late_hours_ms: Iterable[int]) -> list[int]:
    """Starts of the archive's hours that hold ``intervals``, and ``late_hours_ms`` themselves."""
    return sorted({hour for interval in intervals for hour in _hours_between(interval)} | set(late_hours_ms))


def _hours_between(interval: Interval) -> Iterator[int]:
    low, high = interval
    return iter(range(low // HOUR_MS * HOUR_MS, high + 1, HOUR_MS))
