"""Where a vehicle's slow quantities are heading: a robust line through its hours, days to a threshold."""

import math
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from infra.clients.db import sql_of
from infra.contract.errors import ConfigError
from stream_jobs.app.database import Connection, execute, fetch, insert_rows
from stream_jobs.frames.arrays import Floats
from stream_jobs.maintenance.rollups import NAMES

SQL: Final = sql_of(__file__)

AT_ONCE: Final = 50  # vehicles in one pass
MOST_POINTS: Final = 120  # more are joined to medians of equal spans of time: pairs grow with the square
Z_90: Final = 1.645  # of a two-sided interval of 90 %
REFERENCE_PCT: Final = 90  # percentile of a vehicle's own values that a threshold is a share of
DAY_S: Final = 86_400.0
MOST_DAYS: Final = 365.0  # further ahead a line says nothing
METRES_IN_1000_KM: Final = 1e6

_TABLE: Final = "odograph.vehicle_trend"
_FORGET: Final = f"DELETE FROM {_TABLE} WHERE vehicle_id = ANY(%(vehicles)s)"  # noqa: S608


class Line(NamedTuple):
    """``slope`` a unit of x with its 90 % interval, ``value`` the line's at the last x.

    ``residual_mad`` is the median distance of the points from the line; ``points`` how many there were.
    """

    points: int
    span: float
    value: float
    slope: float
    slope_low: float
    slope_high: float
    residual_mad: float


class Metric(NamedTuple):
    """A row of odograph.trend_metric: ``source``, of the roll-ups, ``heads`` ``up`` or ``down``.

    ``threshold_share``, without a ``threshold``, is a share of the vehicle's own usual value.
    """

    metric: str
    source: str
    heads: str
    threshold: float | None
    threshold_share: float | None
    span_days: float
    min_points: int
    min_days: float


class Trend(NamedTuple):
    """A line over days, the slope over 1000 km, and the days to the threshold."""

    line: Line
    slope_per_1000_km: float | None
    threshold: float
    days_to_threshold: float | None


_COLUMNS: Final = (
    "vehicle_id", "metric", "as_of", "points", "span_days", "value", "slope_per_day", "slope_low_per_day",
    "slope_high_per_day", "residual_mad", "slope_per_1000_km", "threshold", "days_to_threshold",
)  # fmt: skip
_METRICS: Final = f"SELECT {', '.join(Metric._fields)} FROM odograph.trend_metric"  # noqa: S608


def renew(connection: Connection) -> int:
    """The trends of up to ``AT_ONCE`` vehicles, in the transaction at hand; how many vehicles.

    Raises ConfigError where a metric names no column of the roll-ups.
    """
    due: dict[str, datetime] = dict(fetch(connection, SQL["due"], {"at_once": AT_ONCE}))
    if not due:
        return 0
    wanted = [Metric(*row) for row in fetch(connection, _METRICS)]
    for metric in wanted:
        if metric.source not in NAMES:
            raise ConfigError(
                f"odograph.trend_metric, {metric.metric}: "
                f"source {metric.source!r} is no column of odograph.vehicle_hour"
            )
    hours = SQL["hours"].format(columns=", ".join(["odometer_m", *(metric.source for metric in wanted)]))
    passed = {"vehicles": [*due], "as_of": [*due.values()]}
    out: list[tuple[Any, ...]] = []
    days = math.ceil(max((metric.span_days for metric in wanted), default=0))
    found = fetch(connection, hours, passed | {"days": days})
    for vehicle_id, rows in groupby(found, itemgetter(0)):
        at_s, odometer_m, *columns = np.array([row[1:] for row in rows], np.float64).T
        for metric, column in zip(wanted, columns, strict=True):
            if trend := trend_of(metric, at_s, odometer_m, column):
                out.append((vehicle_id, metric.metric, due[vehicle_id], *trend.line, *trend[1:]))
    execute(connection, _FORGET, passed)
    if out:
        insert_rows(connection, _TABLE, pa.table([*map(pa.array, zip(*out, strict=True))], [*_COLUMNS]))
    execute(connection, SQL["baselines"], passed)
    return len(due)


def trend_of(metric: Metric, at_s: Floats, odometer_m: Floats, values: Floats) -> Trend | None:
    """The trend of values at times in order, NaN where not known; None where too few or too close.

    Days to the threshold: 0 beyond it, None where the line does not surely head there within a year.
    """
    known = ~np.isnan(values) & (at_s > at_s[-1] - metric.span_days * DAY_S)
    at_s, odometer_m, values = at_s[known], odometer_m[known], values[known]
    if len(values) < metric.min_points or at_s[-1] - at_s[0] < metric.min_days * DAY_S:
        return None
    line = line_through((at_s - at_s[0]) / DAY_S, values)
    if line is None:
        return None
    driven = ~np.isnan(odometer_m)
    by_distance = line_through(odometer_m[driven], values[driven])
    slope_per_1000_km = None if by_distance is None else by_distance.slope * METRES_IN_1000_KM
    threshold = metric.threshold
    if threshold is None:
        threshold = (metric.threshold_share or 0.0) * float(np.percentile(values, REFERENCE_PCT))
    sign, slowest = (1.0, line.slope_low) if metric.heads == "up" else (-1.0, -line.slope_high)
    left = sign * (threshold - line.value)
    days: float | None = None
    if left <= 0:
        days = 0.0
    elif slowest > 0 and left / (sign * line.slope) <= MOST_DAYS:
        days = left / (sign * line.slope)
    return Trend(line, slope_per_1000_km, threshold, days)


def line_through(x: Floats, y: Floats) -> Line | None:
    """The line through points in order of x; None below three points or without a span of x.

    The slope is the median of the slopes of all pairs (H. Theil, 1950; P. K. Sen, 1968): a quarter of wrong
    points cannot bend it. Its interval follows from the ranks of those slopes by the variance of Kendall's S.
    """
    points = len(x)
    if points < 3 or x[-1] <= x[0]:
        return None
    end, span = float(x[-1]), float(x[-1] - x[0])
    if points > MOST_POINTS:  # medians by equal spans of x
        edges = np.linspace(x[0], x[-1], MOST_POINTS + 1)
        place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, MOST_POINTS - 1)
        groups = [np.flatnonzero(place == p) for p in np.unique(place)]
        x, y = (np.array([np.median(values[g]) for g in groups]) for values in (x, y))
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    there = apart > 0
    slopes = np.sort((y[second] - y[first])[there] / apart[there])
    slope = float(np.median(slopes))
    n, middle = len(x), (len(slopes) - 1) / 2
    half = Z_90 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2
    low, high = max(math.floor(middle - half), 0), min(math.ceil(middle + half), len(slopes) - 1)
    rest = y - slope * x
    level = float(np.median(rest))
    mad = float(np.median(np.abs(rest - level)))
    return Line(points, span, level + slope * end, slope, float(slopes[low]), float(slopes[high]), mad)
