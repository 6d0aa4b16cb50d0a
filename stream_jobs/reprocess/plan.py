"""Which windows a run makes again, in which slices, and where the archive has their frames. Pure.

A frame with the verdict ok that has a sample at ``e`` was received in ``[e - ahead, e + lateness]``. So ok
frames of a window are found by receive time, late ones only by their index in the table late_frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Final, NamedTuple

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.archive.manifest import HOUR_MS

GRACE_MS: Final = 2_000
"""How long after its receive time a record may appear in the log without reopening a restated window."""

Interval = tuple[int, int]


def moment(at_ms: int) -> datetime:
    """Milliseconds since 1970 as a time, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """Event times, ms: from ``from_ms`` to before ``until_ms``; ``vehicle_id`` None: of all vehicles."""

    from_ms: int
    until_ms: int
    vehicle_id: str | None = None


class LateFrame(NamedTuple):
    """A line of odograph.late_frame; topic, partition and offset identify the record.

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
        return range(self.t0_ms // window_ms * window_ms, self.t0_ms + self.span_ms + 1, window_ms)


@dataclass(frozen=True, slots=True)
class Grid:
    """Lengths that the plan needs, ms."""

    road_window_ms: int
    ahead_ms: int
    lateness_ms: int

    def closed_until_ms(self, caught_up_ms: int) -> int:
        """End of the last road window to which the stream, which has taken in all that, adds nothing more."""
        return (caught_up_ms - self.lateness_ms - GRACE_MS) // self.road_window_ms * self.road_window_ms

    def received(self, starts: Sequence[int]) -> Interval:
        """Receive times of all ok frames with a sample in the road windows ``starts``, which are in order."""
        return starts[0] - self.ahead_ms, starts[-1] + self.road_window_ms + self.lateness_ms

    def starts_ms(self, span: Span) -> range:
        """Starts of the road windows that lie in the span whole; vehicle windows lie inside them."""
        first = -(-span.from_ms // self.road_window_ms) * self.road_window_ms
        return range(first, span.until_ms - self.road_window_ms + 1, self.road_window_ms)


def grid_of(settings: Settings) -> Grid:
    """The lengths in force; raises ConfigError where they do not fit each other."""
    jobs = settings.jobs
    if jobs.road_window_s % jobs.window_s:
        raise ConfigError(
            f"ODOGRAPH_JOBS_ROAD_WINDOW_S {jobs.road_window_s} is no multiple of "
            f"ODOGRAPH_JOBS_WINDOW_S {jobs.window_s}"
        )
    return Grid(1000 * jobs.road_window_s, 1000 * jobs.ahead_s, 1000 * jobs.lateness_s)


def slices(
    starts: Iterable[int], road_ms: int, slice_ms: int, done_until_ms: int | None
) -> Iterator[list[int]]:
    """The starts, which come in order, without a gap in a slice; each slice is one transaction.

    Those before ``done_until_ms`` are done.
    """
    piece: list[int] = []
    for start in starts:
        if done_until_ms is not None and start < done_until_ms:
            continue
        if piece and (start // slice_ms != piece[0] // slice_ms or start != piece[-1] + road_ms):
            yield piece
            piece = []
        piece.append(start)
    if piece:
        yield piece


def hours_ms(intervals: Iterable[Interval], others_ms: Iterable[int] = ()) -> list[int]:
    """Starts of the archive's hours that hold ``intervals``, and ``others_ms`` themselves."""
    hours = (range(low // HOUR_MS * HOUR_MS, high + 1, HOUR_MS) for low, high in intervals)
    return sorted({*chain.from_iterable(hours), *others_ms})


class Reach(NamedTuple):
    """The slice before: its road windows, and the late frames open at it that reach beyond it."""

    starts: frozenset[int] = frozenset()
    frames: frozenset[LateFrame] = frozenset()


def taken_in(
    found: Iterable[LateFrame], starts: Sequence[int], length_ms: int, before: Reach
) -> tuple[list[LateFrame], Reach]:
    """Of the late frames ``found`` open at a slice, those that are in all their windows once it is written.

    A frame that reaches back is in the slice before only if it was listed there too. One that reaches on, or
    came between the two, stays open: the next slice takes it, or the task `repair`.
    """
    ours = frozenset(starts)
    taken, reaching = list[LateFrame](), list[LateFrame]()
    for frame in found:
        windows = set(frame.starts_ms(length_ms))
        whole = windows <= ours or (frame in before.frames and windows <= ours | before.starts)
        (taken if whole else reaching).append(frame)
    return taken, Reach(ours, frozenset(reaching))
