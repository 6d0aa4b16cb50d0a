"""Queries of several pages."""

from datetime import timedelta
from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

QUIET: Final = timedelta(minutes=2)  # as serving.fleet_latest: who has not reported for so long is silent
FOUND_LIMIT: Final = 20
LISTED_MOST: Final = 500  # alerts or incidents

freshness: Query[[]] = SQL["freshness"]
promoted_runs: Query[[]] = SQL["promoted_runs"]
rules: Query[[]] = SQL["rules"]
road_networks: Query[[]] = SQL["road_networks"]
road_edges: Query[[]] = SQL["road_edges"]
vehicle: Query[[str]] = SQL["vehicle"]
find_vehicles: Query[[str]] = SQL["find_vehicles"]
alerts: Query[...] = SQL["alerts"]
incidents: Query[...] = SQL["incidents"]
