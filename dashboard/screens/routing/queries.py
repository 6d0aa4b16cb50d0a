"""Queries about traffic at any stored moment, about where trips go, and about predicted arrivals."""

from datetime import date, datetime
from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

road_span: Query[[]] = SQL["road_span"]
road_hours: Query[[date]] = SQL["road_hours"]
cells_at: Query[[datetime]] = SQL["cells_at"]
edges_at: Query[[datetime]] = SQL["edges_at"]
flows: Query[[date]] = SQL["flows"]
last_trip_day: Query[[str]] = SQL["last_trip_day"]
eta_quality: Query[[]] = SQL["eta_quality"]
etas: Query[[]] = SQL["etas"]
