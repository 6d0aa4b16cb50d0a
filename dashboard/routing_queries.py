"""Questions about traffic at any stored moment, about where trips go, and about predicted arrivals."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

CELL_LIMIT: Final = 20_000
EDGE_LIMIT: Final = 20_000
FLOW_LIMIT: Final = 2_000
ETA_LIMIT: Final = 200


def road_span(connection: Connection) -> pd.DataFrame:
    """One row: the oldest and the newest five minutes of traffic that are stored."""
    return frame(connection, "SELECT first_at, last_at FROM serving.road_span")


def road_hours(connection: Connection, day: date) -> pd.DataFrame:
    """A local day by hour, over all cells: speed, and time taken over that at free flow."""
    return frame(connection, "SELECT * FROM serving.road_hour_on(%(day)s) ORDER BY hour", day=day)


def cells_at(connection: Connection, at: datetime) -> pd.DataFrame:
    """Traffic by cell and direction in the five minutes up to a moment; at most CELL_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT cell, heading_sector, vehicles, speed_kmh, source, free_flow_kmh, speed_ratio, congestion
        FROM serving.road_cell_at(%(at)s) ORDER BY vehicles DESC, cell, heading_sector LIMIT %(limit)s
        """,
        at=at,
        limit=CELL_LIMIT,
    )


def edges_at(connection: Connection, at: datetime) -> pd.DataFrame:
    """The same by edge of the network in use with its path; edges without any speed are left out."""
    return frame(
        connection,
        """
        SELECT t.edge_id, t.vehicles, t.speed_kmh, t.source, t.free_flow_kmh, t.speed_ratio, t.congestion,
               e.path
        FROM serving.road_edge_at(%(at)s) t
        JOIN serving.road_edge e ON e.network = t.network AND e.edge_id = t.edge_id
        WHERE t.speed_kmh IS NOT NULL
        ORDER BY t.vehicles DESC, t.edge_id LIMIT %(limit)s
        """,
        at=at,
        limit=EDGE_LIMIT,
    )


def flows(connection: Connection, day: date) -> pd.DataFrame:
    """Trips of a local day between hexagons; small counts are suppressed there. At most FLOW_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT origin_h3_r7, destination_h3_r7, suppressed, trips, duration_min, distance_km
        FROM serving.od_flow_on(%(day)s)
        ORDER BY trips DESC NULLS LAST, origin_h3_r7, destination_h3_r7 LIMIT %(limit)s
        """,
        day=day,
        limit=FLOW_LIMIT,
    )


def last_trip_day(connection: Connection, tz: str) -> pd.DataFrame:
    """One row: the local day of the newest trip that is over; null where there is none."""
    return frame(
        connection,
        """
        SELECT (started_at AT TIME ZONE %(tz)s)::date AS day FROM serving.trip WHERE phase <> 'open'
        ORDER BY started_at DESC LIMIT 1
        """,
        tz=tz,
    )


def eta_quality(connection: Connection) -> pd.DataFrame:
    """How good predicted arrivals were, by how long before; at most six rows."""
    return frame(connection, "SELECT * FROM serving.eta_quality ORDER BY from_min")


def etas(connection: Connection) -> pd.DataFrame:
    """Vehicles under way to a destination with their newest prediction; at most ETA_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT request_no, vehicle_id, asked_at, made_at, arrival_at, distance_m FROM serving.eta
        WHERE outcome IS NULL ORDER BY arrival_at NULLS LAST, request_no LIMIT %(limit)s
        """,
        limit=ETA_LIMIT,
    )
