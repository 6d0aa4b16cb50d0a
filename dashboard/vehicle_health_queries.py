"""Questions about how one vehicle is: signals now, where they are heading, trouble codes, data quality."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

import pandas as pd

from dashboard.queries import Connection, frame

TRIP_LIMIT: Final = 200
CODE_LIMIT: Final = 50
HOUR_LIMIT: Final[LiteralString] = "3000"
GAPS_DAYS: Final = 7
"""Gaps are looked for in the last days of a span only: they are in windows, not in roll-ups."""

TREND_COLUMNS: Final[dict[str, LiteralString]] = {
    "tyre_fl": "tyre_fl_kpa20",
    "tyre_fr": "tyre_fr_kpa20",
    "tyre_rl": "tyre_rl_kpa20",
    "tyre_rr": "tyre_rr_kpa20",
    "brake_pad_fl": "brake_pad_wear_fl_pct",
    "brake_pad_fr": "brake_pad_wear_fr_pct",
    "brake_pad_rl": "brake_pad_wear_rl_pct",
    "brake_pad_rr": "brake_pad_wear_rr_pct",
    "battery_rest": "battery_rest_v",
    "dpf_soot": "dpf_soot_max_pct",
    "cell_spread_rest": "cell_spread_rest_mv",
}
"""Metric of odograph.trend_metric -> the column of the hours that its line goes through."""


def signals(connection: Connection, vehicle_id: str, until: datetime) -> pd.DataFrame:
    """One row: the newest minute of windows up to ``until``; null for what the vehicle does not tell.

    Windows follow the newest frame by a batch, or by minutes while the jobs catch up.
    """
    return frame(
        connection,
        """
        WITH newest AS (
            SELECT max(window_start) AS window_start FROM serving.vehicle_window
            WHERE vehicle_id = %(vehicle_id)s AND window_start <= %(until)s
              AND window_start > %(until)s - INTERVAL '30 minutes'
        )
        SELECT max(coolant_max_c) AS coolant_max_c, -max(oil_shortfall_max_kpa) AS oil_margin_kpa,
               avg(battery_running_v) AS battery_running_v, avg(battery_rest_v) AS battery_rest_v,
               max(tyre_temp_max_c) AS tyre_temp_max_c, max(brake_pad_wear_max_pct) AS brake_pad_wear_max_pct,
               avg(fuel_trim_mean_pct) AS fuel_trim_mean_pct, max(dpf_soot_max_pct) AS dpf_soot_max_pct,
               max(cell_temp_max_c) AS cell_temp_max_c, max(cell_spread_rest_mv) AS cell_spread_rest_mv,
               max(dtc_count) AS dtc_count, max(window_end) AS until
        FROM serving.vehicle_window
        WHERE vehicle_id = %(vehicle_id)s AND window_start <= %(until)s
          AND window_start > %(until)s - INTERVAL '31 minutes'
          AND window_start > (SELECT window_start FROM newest) - INTERVAL '1 minute'
        """,
        vehicle_id=vehicle_id,
        until=until,
    )


def rules(connection: Connection) -> pd.DataFrame:
    """The rules as the jobs last started with them; empty before their first start."""
    return frame(
        connection,
        "SELECT rule, severity, beyond, limit_sql, in_force FROM serving.rule ORDER BY rule LIMIT 500",
    )


def trends(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """Where slow quantities are heading, those nearest to their threshold first."""
    return frame(
        connection,
        """
        SELECT * FROM serving.vehicle_trend WHERE vehicle_id = %(vehicle_id)s
        ORDER BY days_to_threshold NULLS LAST, metric LIMIT 50
        """,
        vehicle_id=vehicle_id,
    )


def trend_hours(
    connection: Connection, vehicle_id: str, metric: str, start: datetime, end: datetime
) -> pd.DataFrame:
    """The hours that a trend's line goes through: ``bucket`` and ``value``."""
    column = TREND_COLUMNS[metric]
    return frame(
        connection,
        f"""
        SELECT bucket, {column} AS value FROM serving.vehicle_hour
        WHERE vehicle_id = %(vehicle_id)s AND bucket >= %(start)s AND bucket <= %(end)s
          AND {column} IS NOT NULL ORDER BY bucket LIMIT {HOUR_LIMIT}
        """,  # noqa: S608  names of this module
        vehicle_id=vehicle_id,
        start=start,
        end=end,
    )


def trips(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Trips that began in the span, the newest first; at most TRIP_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT trip_id, started_at, ended_at, phase, distance_m, duration_s, idle_s, speed_mean_kmh,
               speed_max_kmh, fuel_l_per_100km, energy_kwh_per_100km,
               harsh_brake + harsh_accelerate + harsh_corner AS harsh
        FROM serving.trip
        WHERE vehicle_id = %(vehicle_id)s AND started_at >= %(start)s AND started_at < %(end)s
        ORDER BY started_at DESC LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        limit=TRIP_LIMIT,
    )


def codes(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """Trouble codes that alerts told of, active and newest first; ``code`` is null where none was named."""
    return frame(
        connection,
        """
        SELECT nullif(split_part(rule, '.', 2), '') AS code, split_part(rule, '.', 1) AS rule, severity,
               active, opened_at, last_at, cleared_at, findings
        FROM serving.alert
        WHERE vehicle_id = %(vehicle_id)s AND starts_with(rule, 'dtc_')
        ORDER BY active DESC, last_at DESC LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        limit=CODE_LIMIT,
    )


def gaps(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """One row: times without a window while the ignition was on before them; null without any window."""
    return frame(
        connection,
        """
        SELECT count(*) FILTER (WHERE gap_s > 0) AS gaps, sum(gap_s) FILTER (WHERE gap_s > 0) AS gap_s,
               max(gap_s) AS longest_s, count(*) AS windows
        FROM (SELECT extract(epoch FROM lead(window_start) OVER w - window_end)::double precision AS gap_s,
                     ignition_on
              FROM serving.vehicle_window
              WHERE vehicle_id = %(vehicle_id)s AND window_start < %(end)s
                AND window_start >= greatest(%(start)s, %(end)s - make_interval(days => %(days)s))
              WINDOW w AS (ORDER BY window_start)) g
        WHERE ignition_on IS NOT FALSE
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        days=GAPS_DAYS,
    )


def quality(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """One row: late, quarantined and dead frames of the span with delays and clock, duplicates and missing.

    Duplicates and missing frames are known by whole hours, as the ledger last found them; null: none.
    """
    return frame(
        connection,
        """
        SELECT * FROM (
            SELECT count(*) AS late, count(*) FILTER (WHERE repaired_at IS NULL) AS late_open,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY delay_s) AS delay_p50_s,
                   max(delay_s) AS delay_max_s
            FROM serving.vehicle_late_frame
            WHERE vehicle_id = %(vehicle_id)s AND event_time >= %(start)s AND event_time < %(end)s) l,
        (SELECT count(*) AS quarantined, count(*) FILTER (WHERE verdict = 'clock_unset') AS clock_unset,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY ahead_s) AS ahead_p50_s,
                max(ahead_s) AS ahead_max_s
         FROM serving.vehicle_quarantined_frame
         WHERE vehicle_id = %(vehicle_id)s AND received_at >= %(start)s AND received_at < %(end)s) q,
        (SELECT coalesce(sum(messages), 0)::bigint AS dead FROM serving.dead_letter
         WHERE vehicle_id = %(vehicle_id)s AND received_at >= %(start)s AND received_at < %(end)s) d,
        (SELECT sum(duplicate)::bigint AS duplicate, sum(missing)::bigint AS missing,
                sum(lost)::bigint AS lost
         FROM serving.audit_vehicle
         WHERE vehicle_id = %(vehicle_id)s AND hour >= date_trunc('hour', %(start)s) AND hour < %(end)s) a
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
    )
