"""Stored trips, for the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from psycopg.rows import dict_row

from infra.clients.db import connected

MOST: Final = 1000
_TRIPS: Final = """
SELECT vehicle_id, trip_id, phase, started_at, ended_at, distance_m, unseen_m, duration_s, moving_s, standing_s, idle_s,
       halts, speed_mean_kmh, speed_max_kmh, speeding_s, fuel_l, fuel_l_per_100km, energy_kwh, energy_kwh_per_100km,
       co2_g, harsh_brake, harsh_accelerate, harsh_corner, start_lat_deg, start_lon_deg, end_lat_deg, end_lon_deg,
       start_h3_r7, end_h3_r7, revision
FROM serving.trip
WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
  AND started_at < %(until)s AND ended_at >= %(since)s
ORDER BY started_at DESC LIMIT %(most)s
"""  # noqa: E501  a list of columns


def stored_trips(url: str, vehicle: str | None, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """Trips that lie in [since, until) at least in part, oldest first; of many the newest MOST.

    Raises ServiceError.
    """
    values = {"vehicle": vehicle, "since": since, "until": until, "most": MOST}
    with connected(url, row_factory=dict_row) as connection:
        return connection.execute(_TRIPS, values).fetchall()[::-1]
