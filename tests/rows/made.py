"""What periodic tasks make of rows that are there: roll-ups; and a few trends, as data."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from stream_jobs.maintenance.rollups import roll_up, set_zone
from tests.rows.town import Row, vehicle_id

CHANGED = """
INSERT INTO odograph.window_change (minute, vehicles)
SELECT date_trunc('minute', window_start), array_agg(DISTINCT vehicle_id)
FROM odograph.vehicle_window GROUP BY 1 ORDER BY 1
"""


def keep(connection: psycopg.Connection[Any], tz: str = "UTC") -> None:
    """The tasks' work on the windows that are there; each pass is a transaction of its own."""
    with connection.transaction():
        connection.execute(CHANGED)
        set_zone(connection, tz)
    left = 1
    while left:
        with connection.transaction():
            left = roll_up(connection, tz)


def trends(now: datetime) -> list[Row]:
    """Vehicle 3 loses air at the rear left; its pads are fine; vehicle 25's battery is beyond its limit."""
    return [
        _trend(3, "tyre_rl", now, 172.0, -9.6, 169.5, 0.26),
        _trend(3, "tyre_rr", now, 229.0, -0.02, 172.0, None),
        _trend(3, "brake_pad_fl", now, 41.0, 0.11, 80.0, None),
        _trend(25, "battery_rest", now, 11.9, -0.05, 12.2, 0.0),
    ]


def _trend(
    n: int, metric: str, now: datetime, value: float, slope: float, threshold: float, days: float | None
) -> Row:
    return {
        "vehicle_id": vehicle_id(n),
        "metric": metric,
        "as_of": now,
        "points": 40,
        "span_days": 6.5,
        "value": value,
        "slope_per_day": slope,
        "slope_low_per_day": slope - 0.1,
        "slope_high_per_day": slope + 0.1,
        "residual_mad": 0.8,
        "threshold": threshold,
        "days_to_threshold": days,
    }
