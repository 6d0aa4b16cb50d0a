"""Rows of roll-ups by literal values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from tests.support_frames import vin

COUNTS = (
    *("windows", "frames", "frames_late", "samples", "out_of_range", "speed_n", "rpm_n", "engine_load_n"),
    *("coolant_n", "fuel_trim_n", "tyre_fl_n", "tyre_fr_n", "tyre_rl_n", "tyre_rr_n", "battery_n"),
    *("battery_rest_n", "battery_running_n", "ambient_n"),
)


def insert_bucket(
    connection: psycopg.Connection[Any], table: str, at: datetime, number: int = 1, **values: float
) -> None:
    """A row of roll-ups of a vehicle, the first one unless told, with these values."""
    row = dict.fromkeys(COUNTS, 0) | {"vehicle_id": vin(number), "bucket": at}
    row |= {"first_event": at, "last_event": at}
    row |= values
    marks = ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO odograph.{table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])
