"""A value's recent course in few numbers: means by bucket of time, their mean and their slope; pure.

A series is a tuple of buckets (number, frames, sum of values), oldest first, at most PARTS + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

PARTS: Final = 10
"""Buckets of a span."""
LEAST_SHARE: Final = 0.5
"""Of the buckets of a mean so many must have frames."""
COVERED: Final = 0.7
"""A slope is taken over at least this share of its span."""
MAD_TO_SD: Final = 1.4826

Bucket = tuple[int, int, float]
Series = tuple[Bucket, ...]


def add(series: Series, at_ms: int, value: float, span_ms: int) -> tuple[Series, bool]:
    """The series with one more value; whether a bucket was complete by it. Older ones than the span go."""
    number = at_ms * PARTS // span_ms
    if not series:
        return ((number, 1, value),), False
    last, frames, total = series[-1]
    if number <= last:
        return (*series[:-1], (last, frames + 1, total + value)), False
    kept = tuple(bucket for bucket in series if number - bucket[0] <= PARTS)
    return (*kept, (number, 1, value)), True


def mean(series: Series) -> float | None:
    """The mean over the complete buckets; None before they span the whole time."""
    complete = series[:-1]
    now = series[-1][0]
    if not complete or now - complete[0][0] < PARTS or len(complete) < LEAST_SHARE * PARTS:
        return None
    frames = sum(bucket[1] for bucket in complete)
    return sum(bucket[2] for bucket in complete) / frames


def add_point(series: Series, at_ms: int, value: float, span_ms: int) -> tuple[Series, bool]:
    """As ``add``, but two complete buckets stay however old: frames may be rarer than the span is long."""
    after, complete = add(series, at_ms, value, span_ms)
    if complete and len(after) < 3:
        after = (*series[-2:], after[-1])
    return after, complete


def slope(series: Series, span_ms: int) -> tuple[float, float] | None:
    """Change of the value per second and its standard error, over complete buckets (Theil and Sen).

    None where they cover too little of the span. The error is 0 where two points leave none to estimate.
    """
    points = [(bucket[0] * span_ms / PARTS / 1000, bucket[2] / bucket[1]) for bucket in series[:-1]]
    if len(points) < 2 or (points[-1][0] - points[0][0]) * 1000 < COVERED * span_ms:
        return None
    pairs = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :]]
    steepness = median(pairs)
    return steepness, _error(points, steepness)


def _error(points: Sequence[tuple[float, float]], steepness: float) -> float:
    rests = [value - steepness * at_s for at_s, value in points]
    middle = median(rests)
    spread = MAD_TO_SD * median(abs(rest - middle) for rest in rests)
    mean_s = sum(at_s for at_s, _ in points) / len(points)
    width = math.sqrt(sum((at_s - mean_s) ** 2 for at_s, _ in points))
    return spread / width
