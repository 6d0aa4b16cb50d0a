"""Which windows a run restates, in which pieces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stream_jobs.repair_plan import Grid


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
