"""Queries about the whole fleet and the traffic of now."""

from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

fleet_figures: Query[...] = SQL["fleet_figures"]
fleet_latest: Query[[]] = SQL["fleet_latest"]
fleet_hour: Query[[]] = SQL["fleet_hour"]
fleet_today: Query[[]] = SQL["fleet_today"]
road_cells: Query[[]] = SQL["road_cells"]
road_edge_traffic: Query[[]] = SQL["road_edge_traffic"]
