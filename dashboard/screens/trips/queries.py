"""Queries about trips: lists, one trip with its path, and what happened on it."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import pandas as pd

from dashboard.db import Connection, Query, queries_of, query
from dashboard.screens.trips import path
from dashboard.shared.text import Record

SQL: Final = queries_of(__file__)

TRIP_LIMIT: Final = 500

_WANTED: Final = """
    FROM serving.trip
    WHERE (%(day)s::date IS NOT NULL OR started_at > now() - make_interval(hours => %(hours)s))
    AND (%(day)s::date IS NULL OR (started_at >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
                                   AND started_at < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s))
    AND (%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))
    AND (NOT %(harsh)s OR harsh_brake + harsh_accelerate + harsh_corner > 0)
"""

# Trips begun within ``hours``, or on a local ``day``, newest first; ``harsh``: with such an event
trips: Query[...] = query(
    "trips(vehicles, hours, day, tz, harsh, most = 500)",
    f"SELECT * {_WANTED} ORDER BY started_at DESC, vehicle_id LIMIT %(most)s",
)
# One row: all trips that ``trips`` is about; fuel over the distance of the trips that burnt fuel
trip_sums: Query[[Sequence[str] | None, int, date | None, str, bool]] = query(
    "trip_sums(vehicles, hours, day, tz, harsh)",
    f"""
    SELECT count(*) AS trips, count(DISTINCT vehicle_id) AS vehicles, sum(distance_m) / 1000 AS distance_km,
           sum(duration_s) AS duration_s, sum(idle_s) / nullif(sum(duration_s), 0) * 100 AS idle_pct,
           sum(fuel_l) / nullif(sum(distance_m) FILTER (WHERE fuel_l > 0), 0) * 100000 AS fuel_l_per_100km,
           sum(energy_kwh) FILTER (WHERE powertrain = 'electric') * 100000
               / nullif(sum(distance_m) FILTER (WHERE powertrain = 'electric' AND energy_kwh IS NOT NULL), 0)
               AS energy_kwh_per_100km,
           sum(harsh_brake + harsh_accelerate + harsh_corner) AS harsh_events,
           sum(harsh_brake + harsh_accelerate + harsh_corner) / nullif(sum(distance_m), 0) * 100000
               AS harsh_per_100km
    {_WANTED}""",
)
trip: Query[[str]] = SQL["trip"]

POINTS_MOST, WAY_MOST = 5_000, 1_000_000

trip_points: Query[[str, datetime, datetime, int]] = SQL["trip_points"]


def way(connection: Connection, trip: Record) -> pd.DataFrame:
    """The way of a trip as points of shared/tracks.py, none left out."""
    points = trip_points(connection, trip["vehicle_id"], trip["started_at"], trip["ended_at"], WAY_MOST)
    return path.track(trip, path.pieces(points))


speed_ratio: Query[[list[str], list[int], list[float | None]]] = SQL["speed_ratio"]
harsh_events: Query[[str, datetime, datetime]] = SQL["harsh_events"]
idle_episodes: Query[[str, datetime, datetime]] = SQL["idle_episodes"]
stops_around: Query[[str, datetime, datetime]] = SQL["stops_around"]
trip_alerts: Query[[str, datetime, datetime]] = SQL["trip_alerts"]
