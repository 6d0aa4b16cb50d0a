"""Queries about one vehicle: the span of time they are about, history, signals, trends, trips, quality."""

import math
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString, NamedTuple

import pandas as pd

from dashboard.db import Connection, Query, frame, queries_of
from dashboard.shared.queries import QUIET

SQL: Final = queries_of(__file__)

TRIP_LIMIT: Final = 200
_WHEELS: Final = {"fl": "front left", "fr": "front right", "rl": "rear left", "rr": "rear right"}
METRICS: Final[dict[str, tuple[str, LiteralString]]] = {
    **{f"tyre_{k}": (f"Tyre, {wheel}", f"tyre_{k}_kpa20") for k, wheel in _WHEELS.items()},
    **{f"brake_pad_{k}": (f"Brake pad, {wheel}", f"brake_pad_wear_{k}_pct") for k, wheel in _WHEELS.items()},
    "battery_rest": ("12 V at rest", "battery_rest_v"),
    "dpf_soot": ("Filter soot", "dpf_soot_max_pct"),
    "cell_spread_rest": ("Cells apart at rest", "cell_spread_rest_mv"),
}
"""Metric of odograph.trend_metric -> what people call it, the column of the hours that its line is of."""

vehicle_extent: Query[[str]] = SQL["vehicle_extent"]
vehicle_trace: Query[[str, datetime, datetime]] = SQL["vehicle_trace"]
signals: Query[[str, datetime]] = SQL["signals"]
trends: Query[[str]] = SQL["trends"]


def trend_hours(
    connection: Connection, vehicle_id: str, metric: str, start: datetime, end: datetime
) -> pd.DataFrame:
    """The hours that a trend's line goes through: ``bucket`` and ``value``."""
    column = METRICS[metric][1]
    sql: LiteralString = f"""
        SELECT bucket, {column} AS value FROM serving.vehicle_hour
        WHERE vehicle_id = %(vehicle_id)s AND bucket >= %(start)s AND bucket <= %(end)s
          AND {column} IS NOT NULL ORDER BY bucket LIMIT 3000
        """  # noqa: S608  names of this module
    return frame(connection, sql, vehicle_id=vehicle_id, start=start, end=end)


trips: Query[[str, datetime, datetime]] = SQL["trips"]
codes: Query[[str]] = SQL["codes"]
gaps: Query[[str, datetime, datetime]] = SQL["gaps"]
quality: Query[[str, datetime, datetime]] = SQL["quality"]


_HOURS: Final = {"15 min": 0.25, "1 h": 1, "6 h": 6, "24 h": 24, "7 d": 168, "30 d": 720}
SPANS: Final[dict[str, timedelta | None]] = {k: timedelta(hours=h) for k, h in _HOURS.items()} | {"all": None}
FIRST: Final = "1 h"
OWN: Final = "own"  # a span from and to moments of the reader's
STEPS_S: Final = (10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
BUCKETS: Final = 360
_MEASURES: Final[LiteralString] = """sum(frames)::bigint AS frames, sum(frames_late)::bigint AS frames_late,
       sum(samples)::bigint AS samples, sum(out_of_range)::bigint AS out_of_range,
       max(speed_max_kmh) AS speed_max_kmh, sum(distance_m) AS distance_m, sum(moving_s) AS moving_s,
       sum(idle_s) AS idle_s, sum(speeding_s) AS speeding_s, sum(fuel_l) AS fuel_l,
       sum(energy_kwh) AS energy_kwh,
       avg(coolant_mean_c) AS coolant_mean_c, max(coolant_max_c) AS coolant_max_c,
       max(oil_temp_max_c) AS oil_temp_max_c, min(oil_pressure_min_kpa) AS oil_pressure_min_kpa,
       avg(battery_mean_v) AS battery_mean_v, min(battery_min_v) AS battery_min_v,
       avg(tyre_fl_kpa20) AS tyre_fl_kpa20, avg(tyre_fr_kpa20) AS tyre_fr_kpa20,
       avg(tyre_rl_kpa20) AS tyre_rl_kpa20, avg(tyre_rr_kpa20) AS tyre_rr_kpa20,
       max(dpf_soot_max_pct) AS dpf_soot_max_pct, max(cell_spread_max_mv) AS cell_spread_max_mv,
       max(cell_temp_max_c) AS cell_temp_max_c, max(motor_temp_max_c) AS motor_temp_max_c"""


class Span(NamedTuple):
    """From ``start`` to before ``end`` in steps; ``past``: it ends at the vehicle's last data, not now."""

    start: datetime
    end: datetime
    step_s: int
    past: bool

    def whole(self) -> tuple[datetime, datetime]:
        """Start and end on whole steps: the same query within a step."""
        steps = (self.start.timestamp() // self.step_s, self.end.timestamp() // self.step_s + 1)
        begin, end = (datetime.fromtimestamp(step * self.step_s, UTC) for step in steps)
        return begin, end


def span(choice: str, first_event: datetime, last_event: datetime, now: datetime) -> Span:
    """The span chosen. A vehicle that is silent is shown up to its last data: now would show nothing."""
    past = now - last_event > QUIET
    end = last_event + timedelta(seconds=10) if past else now
    length = SPANS[choice]
    start = first_event - timedelta(seconds=10) if length is None else end - length
    return Span(start, end, step_of((end - start).total_seconds()), past)


def between(start: datetime, end: datetime) -> Span:
    """The span from one moment to another, in whichever order they come; a minute at least."""
    first, last = min(start, end), max(start, end)
    last = max(last, first + timedelta(minutes=1))
    return Span(first, last, step_of((last - first).total_seconds()), past=False)


def pace_s(choice: str, least_s: float, most_s: float) -> float:
    """How often a span is worth drawing anew, s: one in steps of minutes does not change each ten seconds."""
    length = SPANS.get(choice)
    return most_s if length is None else min(most_s, max(least_s, step_of(length.total_seconds())))


def step_of(length_s: float) -> int:
    """The shortest step that makes at most BUCKETS of a length."""
    wanted = length_s / BUCKETS
    days = math.ceil(wanted / STEPS_S[-1]) * STEPS_S[-1]
    return next((step for step in STEPS_S if step >= wanted), days)


class Level(NamedTuple):
    """One view: where its rows' times stand, and what it has for what only windows have themselves."""

    view: LiteralString
    time: LiteralString = "bucket"
    windows: LiteralString = "sum(windows)::bigint"
    weight: LiteralString = "speed_n"
    only_windows: LiteralString = """NULL::double precision AS speed_limit_kmh,
       NULL::double precision AS soc_pct, NULL::double precision AS fuel_level_pct"""


WINDOWS: Final = Level(
    "serving.vehicle_window",
    "window_start",
    "count(*)",
    "CASE WHEN speed_mean_kmh IS NOT NULL THEN samples END",
    """max(speed_limit_kmh) AS speed_limit_kmh, avg(soc_pct) AS soc_pct,
       avg(fuel_level_pct) AS fuel_level_pct""",
)
LEVELS: Final = {86_400: "serving.vehicle_day", 3_600: "serving.vehicle_hour", 600: "serving.vehicle_minute"}
"""Step, s, from which this view is read in the place of windows."""


def level(step_s: int) -> Level:
    """The coarsest level that steps of this length can be made of."""
    return next((Level(view) for from_s, view in LEVELS.items() if step_s >= from_s), WINDOWS)


def vehicle_history(
    connection: Connection, vehicle_id: str, start: datetime, end: datetime, bucket_s: int, tz: str = "UTC"
) -> pd.DataFrame:
    """One vehicle from ``start`` to before ``end``, one row a bucket of ``bucket_s`` with data.

    Long steps are cut at the hours and days of ``tz``. Charge, fuel level and speed limit are in windows
    only: null in steps of ten minutes and more. ``windows_restated`` counts rows of the level that was read.
    """
    of = level(bucket_s)
    sql: LiteralString = f"""
        SELECT time_bucket(make_interval(secs => %(bucket_s)s), {of.time}, %(tz)s) AS bucket,
               {of.windows} AS windows, count(*) FILTER (WHERE revision > 0) AS windows_restated,
               sum(speed_mean_kmh * {of.weight}) / nullif(sum({of.weight}), 0) AS speed_mean_kmh,
               {_MEASURES}, {of.only_windows}
        FROM {of.view}
        WHERE vehicle_id = %(vehicle_id)s AND {of.time} >= %(start)s AND {of.time} < %(end)s
        GROUP BY 1 ORDER BY 1 LIMIT 5000
        """  # noqa: S608  names of this module
    return frame(connection, sql, vehicle_id=vehicle_id, start=start, end=end, bucket_s=bucket_s, tz=tz)
