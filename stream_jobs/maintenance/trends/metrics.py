"""What is followed, and what a line says of it: days, or kilometres, to its threshold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_jobs.maintenance.trends.robust import Floats, Line, line_through

REFERENCE_PCT: Final = 90
"""Percentile of a vehicle's own values that a threshold given as a share is a share of."""
DAY_S: Final = 86_400.0
MOST_DAYS: Final = 365.0
"""Further ahead a line says nothing."""
METRES_IN_1000_KM: Final = 1e6


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of odograph.trend_metric.

    ``source`` is a column of the roll-ups; it heads for its threshold ``up`` or ``down``. ``threshold_share``
    is a share of the vehicle's own usual value instead.
    """

    metric: str
    source: str
    heads: str
    threshold: float | None
    threshold_share: float | None
    span_days: float
    min_points: int
    min_days: float


@dataclass(frozen=True, slots=True)
class Trend:
    """A row of odograph.vehicle_trend but its keys and times."""

    points: int
    span_days: float
    value: float
    slope_per_day: float
    slope_low_per_day: float
    slope_high_per_day: float
    residual_mad: float
    slope_per_1000_km: float | None
    threshold: float
    days_to_threshold: float | None


def trend_of(metric: Metric, at_s: Floats, odometer_m: Floats, values: Floats) -> Trend | None:
    """The trend of values at times in order, NaN where not known; None where too few or too close."""
    known = ~np.isnan(values) & (at_s > at_s[-1] - metric.span_days * DAY_S)
    at_s, odometer_m, values = at_s[known], odometer_m[known], values[known]
    if len(values) < metric.min_points or at_s[-1] - at_s[0] < metric.min_days * DAY_S:
        return None
    line = line_through((at_s - at_s[0]) / DAY_S, values)
    if line is None:
        return None
    threshold = metric.threshold
    if threshold is None:
        threshold = (metric.threshold_share or 0.0) * float(np.percentile(values, REFERENCE_PCT))
    return Trend(
        points=line.points,
        span_days=line.span,
        value=line.end,
        slope_per_day=line.slope,
        slope_low_per_day=line.slope_low,
        slope_high_per_day=line.slope_high,
        residual_mad=line.residual_mad,
        slope_per_1000_km=_by_distance(odometer_m, values),
        threshold=threshold,
        days_to_threshold=days_to(line, threshold, metric.heads),
    )


def days_to(line: Line, threshold: float, heads: str) -> float | None:
    """Days until the line meets the threshold: 0 beyond it, None where it does not surely head there."""
    sign = 1.0 if heads == "up" else -1.0
    left = sign * (threshold - line.end)
    if left <= 0:
        return 0.0
    surely = line.slope_low > 0 if heads == "up" else line.slope_high < 0
    if not surely:
        return None
    days = left / (sign * line.slope)
    return days if days <= MOST_DAYS else None


def _by_distance(odometer_m: Floats, values: Floats) -> float | None:
    known = ~np.isnan(odometer_m)
    line = line_through(odometer_m[known], values[known])
    return None if line is None else line.slope * METRES_IN_1000_KM
