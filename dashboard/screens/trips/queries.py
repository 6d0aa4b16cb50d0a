"""Queries about trips: lists, one trip with its path, and what happened on it."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

TRIP_LIMIT: Final = 500

trips: Query[...] = SQL["trips"]
trip_sums: Query[[Sequence[str] | None, int, date | None, str, bool]] = SQL["trip_sums"]
trip: Query[[str]] = SQL["trip"]

POINTS_MOST, WAY_MOST = 5_000, 1_000_000  # that are drawn; that are exported
trip_points: Query[[str, datetime, datetime, int]] = SQL["trip_points"]


speed_ratio: Query[[list[str], list[int], list[float | None]]] = SQL["speed_ratio"]
harsh_events: Query[[str, datetime, datetime]] = SQL["harsh_events"]
idle_episodes: Query[[str, datetime, datetime]] = SQL["idle_episodes"]
stops_around: Query[[str, datetime, datetime]] = SQL["stops_around"]
trip_alerts: Query[[str, datetime, datetime]] = SQL["trip_alerts"]
