"""Questions about one vehicle."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

POINT_LIMIT: Final = 3_000
CRASH_LIMIT: Final = 5


def vehicle(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """The newest state of one vehicle: one row or none."""
    return frame(
        connection,
        "SELECT * FROM serving.fleet_latest WHERE vehicle_id = %(vehicle_id)s",
        vehicle_id=vehicle_id,
    )


def vehicle_summary(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """All windows of one vehicle in one row, or none."""
    return frame(
        connection,
        "SELECT * FROM serving.vehicle_summary WHERE vehicle_id = %(vehicle_id)s",
        vehicle_id=vehicle_id,
    )


def vehicle_history(
    connection: Connection, vehicle_id: str, start: datetime, end: datetime, bucket_s: int
) -> pd.DataFrame:
    """One vehicle's windows from ``start`` to before ``end``, one row a bucket of ``bucket_s`` with data."""
    return frame(
        connection,
        """
        SELECT time_bucket(make_interval(secs => %(bucket_s)s), window_start) AS bucket,
               sum(frames)::bigint AS frames, sum(frames_late)::bigint AS frames_late,
               sum(samples)::bigint AS samples, sum(out_of_range)::bigint AS out_of_range,
               count(*) AS windows, count(*) FILTER (WHERE revision > 0) AS windows_restated,
               sum(speed_mean_kmh * samples)
                   / nullif(sum(samples) FILTER (WHERE speed_mean_kmh IS NOT NULL), 0) AS speed_mean_kmh,
               max(speed_max_kmh) AS speed_max_kmh, max(speed_limit_kmh) AS speed_limit_kmh,
               sum(distance_m) AS distance_m, sum(moving_s) AS moving_s, sum(idle_s) AS idle_s,
               sum(speeding_s) AS speeding_s, sum(fuel_l) AS fuel_l, sum(energy_kwh) AS energy_kwh,
               avg(coolant_mean_c) AS coolant_mean_c, max(coolant_max_c) AS coolant_max_c,
               max(oil_temp_max_c) AS oil_temp_max_c, min(oil_pressure_min_kpa) AS oil_pressure_min_kpa,
               avg(battery_mean_v) AS battery_mean_v, min(battery_min_v) AS battery_min_v,
               avg(tyre_fl_kpa20) AS tyre_fl_kpa20, avg(tyre_fr_kpa20) AS tyre_fr_kpa20,
               avg(tyre_rl_kpa20) AS tyre_rl_kpa20, avg(tyre_rr_kpa20) AS tyre_rr_kpa20,
               max(dpf_soot_max_pct) AS dpf_soot_max_pct,
               avg(soc_pct) AS soc_pct, avg(fuel_level_pct) AS fuel_level_pct,
               max(cell_spread_max_mv) AS cell_spread_max_mv, max(cell_temp_max_c) AS cell_temp_max_c,
               max(motor_temp_max_c) AS motor_temp_max_c
        FROM serving.vehicle_window
        WHERE vehicle_id = %(vehicle_id)s AND window_start >= %(start)s AND window_start < %(end)s
        GROUP BY 1 ORDER BY 1
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        bucket_s=bucket_s,
    )


def vehicle_trace(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Positions of one vehicle, the last of each window; over POINT_LIMIT windows every n-th is kept.

    ``step_s`` is the time that a kept row stands for, s.
    """
    return frame(
        connection,
        """
        SELECT window_start, lat_deg, lon_deg, heading_deg, speed_mean_kmh, every * window_s AS step_s
        FROM (SELECT *, row_number() OVER (ORDER BY window_start) AS place,
                     ceil(count(*) OVER () / %(limit)s::double precision)::integer AS every,
                     extract(epoch FROM window_end - window_start)::integer AS window_s
              FROM serving.vehicle_window
              WHERE vehicle_id = %(vehicle_id)s AND window_start >= %(start)s AND window_start < %(end)s
                AND lat_deg IS NOT NULL AND lon_deg IS NOT NULL) w
        WHERE place %% every = 0
        ORDER BY window_start
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        limit=POINT_LIMIT,
    )


def crash_records(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """The newest crash records of a vehicle; ``record`` as received; at most CRASH_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT * FROM serving.crash_record WHERE vehicle_id = %(vehicle_id)s
        ORDER BY event_time DESC LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        limit=CRASH_LIMIT,
    )
