"""Which windows a run restates, in which pieces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stream_jobs.repair_plan import Grid, LateFrame


@dataclass(frozen=True, slots=True)
class Span:
    """Event times, ms: from ``from_ms`` to before ``until_ms``; ``vehicle_id`` None: of all vehicles."""

    from_ms: int
    until_ms: int
    vehicle_id: str | None = None


def starts_ms(span: Span, grid: Grid) -> range:
    """Starts of the road windows that begin in the span; vehicle windows lie inside them."""
    first = -(-span.from_ms // grid.road_window_ms) * grid.road_window_ms
    return range(first, span.until_ms - grid.road_window_ms + 1, grid.road_window_ms)


def slices(starts: Iterable[int], slice_ms: int, done_until_ms: int | None) -> Iterator[list[int]]:
    """The starts, which come in order, by slices of time that each goes into one transaction.

    Those before ``done_until_ms`` are done.
    """
    piece: list[int] = []
    for start in starts:
        if done_until_ms is not None and start < done_until_ms:
            continue
        if piece and start // slice_ms != piece[0] // slice_ms:
            yield piece
            piece = []
        piece.append(start)
    if piece:
        yield piece


def closed_until_ms(caught_up_ms: int, grid: Grid, grace_ms: int) -> int:
    """End of the last road window to which the stream adds nothing more."""
    return (caught_up_ms - grid.lateness_ms - grace_ms) // grid.road_window_ms * grid.road_window_ms


@dataclass(frozen=True, slots=True)
class Reach:
    """The slice before: its road windows, and the late frames seen open at it that reach beyond it."""

    starts: frozenset[int] = frozenset()
    frames: frozenset[LateFrame] = frozenset()


def taken_in(
    found: Iterable[LateFrame], starts_ms: Sequence[int], length_ms: int, before: Reach
) -> tuple[list[LateFrame], Reach]:
    """Of the late frames ``found`` open at a slice, those that are in all their windows once it is written.

    A frame that reaches back is in the slice before only if it was seen there too. One that reaches on, or
    came between the two, stays open: the next slice takes it, or the task `repair` of the stream.
    """
    ours = frozenset(starts_ms)
    taken, reaching = [], []
    for frame in found:
        windows = set(frame.starts_ms(length_ms))
        if windows <= ours or (frame in before.frames and windows <= ours | before.starts):
            taken.append(frame)
        else:
            reaching.append(frame)
    return taken, Reach(ours, frozenset(reaching))
