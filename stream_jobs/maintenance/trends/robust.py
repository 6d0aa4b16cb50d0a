"""A straight line that a quarter of wrong points cannot bend: Theil-Sen; pure.

The slope is the median of the slopes of all pairs (H. Theil, 1950; P. K. Sen, 1968), its interval follows
from the ranks of those slopes by the variance of Kendall's S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MOST_POINTS: Final = 120
"""More points are first joined to medians of equal spans of time: pairs grow with the square."""
Z_90: Final = 1.645
"""Of a two-sided interval of 90 %."""


@dataclass(frozen=True, slots=True)
class Line:
    """``slope`` a unit of x with its 90 % interval, ``end`` the line's value at the last x.

    ``residual_mad`` is the median distance of the points from the line; ``points`` how many there were.
    """

    slope: float
    slope_low: float
    slope_high: float
    end: float
    residual_mad: float
    points: int
    span: float


def line_through(x: Floats, y: Floats, most_points: int = MOST_POINTS) -> Line | None:
    """The line through points in order of x; None below three points or without a span of x."""
    points = len(x)
    if points < 3 or x[-1] <= x[0]:
        return None
    end, span = float(x[-1]), float(x[-1] - x[0])
    x, y = thinned(x, y, most_points)
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    there = apart > 0
    slopes = np.sort((y[second] - y[first])[there] / apart[there])
    slope = float(np.median(slopes))
    low, high = _interval(slopes, len(x))
    rest = y - slope * x
    level = float(np.median(rest))
    mad = float(np.median(np.abs(rest - level)))
    return Line(slope, low, high, level + slope * end, mad, points, span)


def _interval(slopes: Floats, n: int) -> tuple[float, float]:
    half = Z_90 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2
    middle = (len(slopes) - 1) / 2
    low, high = math.floor(middle - half), math.ceil(middle + half)
    return float(slopes[max(low, 0)]), float(slopes[min(high, len(slopes) - 1)])


def thinned(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """At most ``most`` points: medians by equal spans of x where there are more."""
    if len(x) <= most:
        return x, y
    edges = np.linspace(x[0], x[-1], most + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, most - 1)
    groups = [np.flatnonzero(place == p) for p in np.unique(place)]
    return (
        np.array([np.median(x[g]) for g in groups]),
        np.array([np.median(y[g]) for g in groups]),
    )
