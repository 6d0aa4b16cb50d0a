"""Queries about trips: lists, one trip with its path, and what happened on it."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import pandas as pd

from dashboard.db import Connection, Query, queries_of
from dashboard.screens.trips import path
from dashboard.shared.text import Record

SQL: Final = queries_of(__file__)

TRIP_LIMIT: Final = 500

trips: Query[...] = SQL["trips"]
trip_sums: Query[[Sequence[str] | None, int, date | None, str, bool]] = SQL["trip_sums"]
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
