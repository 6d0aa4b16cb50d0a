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


def vehicle_extent(connection: Connection, vehicle_id: str) -> pd.DataFrame:
    """From when to when there is data of a vehicle, and how much: one row or none.

    Out of its days; its windows are asked where no day has been rolled up yet: then there are few.
    """
    found = frame(
        connection,
        """
        SELECT min(d.first_event) AS first_event,
               greatest(max(d.last_event), max(l.event_time)) AS last_event,
               sum(d.frames)::bigint AS frames, sum(d.distance_m) / 1000 AS distance_km,
               sum(d.windows)::bigint AS windows
        FROM serving.vehicle_day d LEFT JOIN serving.fleet_latest l USING (vehicle_id)
        WHERE d.vehicle_id = %(vehicle_id)s HAVING count(*) > 0
        """,
        vehicle_id=vehicle_id,
    )
    return vehicle_summary(connection, vehicle_id) if found.empty else found


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
