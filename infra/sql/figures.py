"""The few figures that the command line asks of the database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from psycopg.rows import dict_row

from infra.clients.db import connected
from infra.contract.errors import ServiceError

_PULSE = """
SELECT l.frames_counted, l.records_late, f.lag_records,
       extract(epoch FROM now() - f.watermark)::double precision AS watermark_lag_s,
       (SELECT count(*) FROM serving.alert WHERE active) AS alerts_active,
       (SELECT count(*) FROM serving.fleet_latest WHERE state <> 'silent') AS vehicles_reporting
FROM serving.ledger l, serving.freshness f
"""
_ROADS = """
INSERT INTO odograph.road_edge (network, edge_id, road_class, speed_limit_kmh, length_m, path)
VALUES (%s, %s, %s, %s, %s, %s)
"""

_NETWORK = """
INSERT INTO odograph.road_network (network) VALUES (%s) ON CONFLICT (network) DO UPDATE SET loaded_at = now()
"""

RoadRow = tuple[int, str, float, float, list[tuple[float, float]]]
"""Edge id, class, limit [km/h], length [m], path [(lat, lon)] in degrees."""


def ledger(url: str) -> dict[str, int]:
    """The row of serving.ledger; raises ServiceError."""
    return _one(url, "SELECT * FROM serving.ledger")


def dead_frames(url: str) -> list[tuple[str, str, int, int]]:
    """Frames known to lie in dead letters: digest, vehicle id, boot id, seq. Raises ServiceError."""
    with connected(url) as connection:
        query = "SELECT digest, vehicle_id, boot_id, seq FROM serving.dead_frame"
        return [(str(d), str(v), int(b), int(s)) for d, v, b, s in connection.execute(query)]


def pulse(url: str) -> dict[str, Any]:
    """One row of live figures: frames counted, late, lag, watermark lag, alerts, vehicles reporting.

    Raises ServiceError.
    """
    return _one(url, _PULSE)


def store_roads(url: str, network: str, rows: Iterable[RoadRow]) -> int:
    """Write a road network's edges, replacing those of the same name; how many. Raises ServiceError."""
    values = [
        (network, edge_id, road_class, limit, length_m, json.dumps([[lon, lat] for lat, lon in path]))
        for edge_id, road_class, limit, length_m, path in rows
    ]
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(_NETWORK, (network,))
        cursor.execute("DELETE FROM odograph.road_edge WHERE network = %s", (network,))
        cursor.executemany(_ROADS, values)
    return len(values)


def _one(url: str, query: str) -> dict[str, Any]:
    with connected(url, row_factory=dict_row) as connection:
        row: dict[str, Any] | None = connection.execute(query).fetchone()
    if row is None:
        raise ServiceError("database: a view with one row has none")
    return row
