"""A vehicle's own history in a few numbers: moving mean and variance, or a quantile (P-square); pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final, NamedTuple

QUANTILES: Final = {"p01": 0.01, "p05": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}
CLIP_SD: Final = 3.0
"""A value further off than this moves the mean only so far: one outlier is no history."""


class Moving(NamedTuple):
    """Values taken in, their mean and variance, the time of the last."""

    taken: int
    mean: float
    variance: float
    at_ms: int


def moved(was: Moving | None, value: float, at_ms: int, memory_s: float, warm_up: int) -> Moving:
    """Mean and variance after one more value: plain while warming up, then forgetting with ``memory_s``."""
    if was is None:
        return Moving(1, value, 0.0, at_ms)
    count = was.taken + 1
    weight = 1 / count
    if was.taken >= warm_up:
        reach = CLIP_SD * math.sqrt(was.variance)
        value = min(max(value, was.mean - reach), was.mean + reach) if reach > 0 else value
        weight = (
            min(weight, 1.0)
            if memory_s <= 0
            else max(weight, 1 - math.exp(-_passed_s(was, at_ms) / memory_s))
        )
    off = value - was.mean
    mean = was.mean + weight * off
    variance = (1 - weight) * (was.variance + weight * off * off)
    return Moving(count, mean, variance, max(at_ms, was.at_ms))


def _passed_s(was: Moving, at_ms: int) -> float:
    return max(0, at_ms - was.at_ms) / 1000


class Quantile(NamedTuple):
    """The P-square method of Jain and Chlamtac (1985): five heights and their places; before, the values."""

    taken: int
    heights: tuple[float, ...]
    places: tuple[float, ...]


def noted(was: Quantile | None, value: float, share: float) -> Quantile:
    """The quantile's markers after one more value."""
    if was is None or was.taken < 5:
        heights = (*(was.heights if was else ()), value)
        return Quantile(len(heights), tuple(sorted(heights)), (1.0, 2.0, 3.0, 4.0, 5.0))
    q, n = list(was.heights), list(was.places)
    if value < q[0]:
        q[0] = value
    elif value > q[4]:
        q[4] = value
    cell = min(3, max(0, bisect_right(q, value) - 1))
    for k in range(cell + 1, 5):
        n[k] += 1
    for k, part in ((1, share / 2), (2, share), (3, (1 + share) / 2)):
        off = 1 + was.taken * part - n[k]
        if (off >= 1 and n[k + 1] - n[k] > 1) or (off <= -1 and n[k - 1] - n[k] < -1):
            _move(q, n, k, 1 if off > 0 else -1)
    return Quantile(was.taken + 1, tuple(q), tuple(n))


def _move(q: list[float], n: list[float], k: int, d: int) -> None:
    """Move one marker a place towards where it should be."""
    up, down = (q[k + 1] - q[k]) / (n[k + 1] - n[k]), (q[k] - q[k - 1]) / (n[k] - n[k - 1])
    parabola = q[k] + d / (n[k + 1] - n[k - 1]) * ((n[k] - n[k - 1] + d) * up + (n[k + 1] - n[k] - d) * down)
    if not q[k - 1] < parabola < q[k + 1]:
        parabola = q[k] + d * (q[k + d] - q[k]) / (n[k + d] - n[k])
    q[k] = parabola
    n[k] += d


def quantile(was: Quantile, share: float) -> float:
    """The quantile now."""
    if was.taken <= 5:
        return was.heights[min(len(was.heights) - 1, int(share * len(was.heights)))]
    return was.heights[2]
