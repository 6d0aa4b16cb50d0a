"""The history of one vehicle over any span: windows, or the roll-ups that are fine enough for its steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import pandas as pd

from dashboard.queries import Connection, frame

MINUTES_FROM_S: Final = 600
HOURS_FROM_S: Final = 3_600
DAYS_FROM_S: Final = 86_400
"""Steps from which minutes, hours, days are read in the place of windows, s."""


BUCKET_LIMIT: Final[LiteralString] = "5000"
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


@dataclass(frozen=True, slots=True)
class Level:
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
MINUTES: Final = Level("serving.vehicle_minute")
HOURS: Final = Level("serving.vehicle_hour")
DAYS: Final = Level("serving.vehicle_day")


def level(step_s: int) -> Level:
    """The coarsest level that steps of this length can be made of."""
    if step_s < MINUTES_FROM_S:
        return WINDOWS
    if step_s < HOURS_FROM_S:
        return MINUTES
    return HOURS if step_s < DAYS_FROM_S else DAYS


def vehicle_history(
    connection: Connection, vehicle_id: str, start: datetime, end: datetime, bucket_s: int, tz: str = "UTC"
) -> pd.DataFrame:
    """One vehicle from ``start`` to before ``end``, one row a bucket of ``bucket_s`` with data.

    Long steps are cut at the hours and days of ``tz``. Charge, fuel level and speed limit are in windows
    only: null in steps of ten minutes and more. ``windows_restated`` counts rows of the level that was read.
    """
    of = level(bucket_s)
    return frame(
        connection,
        f"""
        SELECT time_bucket(make_interval(secs => %(bucket_s)s), {of.time}, %(tz)s) AS bucket,
               {of.windows} AS windows, count(*) FILTER (WHERE revision > 0) AS windows_restated,
               sum(speed_mean_kmh * {of.weight}) / nullif(sum({of.weight}), 0) AS speed_mean_kmh,
               {_MEASURES}, {of.only_windows}
        FROM {of.view}
        WHERE vehicle_id = %(vehicle_id)s AND {of.time} >= %(start)s AND {of.time} < %(end)s
        GROUP BY 1 ORDER BY 1 LIMIT {BUCKET_LIMIT}
        """,  # noqa: S608  names of this module
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        bucket_s=bucket_s,
        tz=tz,
    )
