"""Questions about the whole fleet and its roads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

FLEET_LIMIT: Final = 20_000
FOUND_LIMIT: Final = 20
CELL_LIMIT: Final = 20_000
EDGE_LIMIT: Final = 50_000


def freshness(connection: Connection) -> pd.DataFrame:
    """One row: how new the data is and what was late, quarantined, dead; ``now`` is the database's clock."""
    return frame(connection, "SELECT *, now() AS now FROM serving.freshness")


def reading(connection: Connection) -> pd.DataFrame:
    """Promoted runs: within their spans the views give their rows; no row: everything is live."""
    return frame(connection, "SELECT * FROM serving.reading ORDER BY promoted_at DESC LIMIT 10")


def fleet_figures(connection: Connection) -> pd.DataFrame:
    """One row: the fleet now, alerts by severity, frames/s of the last minute."""
    return frame(
        connection,
        """
        SELECT f.*, p.frames_per_s, s.minor, s.major, s.warning
        FROM serving.fleet_figures f,
             (SELECT sum(input_rows) / 60.0::double precision AS frames_per_s FROM serving.query_progress
              WHERE query = 'telemetry' AND at > now() - INTERVAL '1 minute') p,
             (SELECT count(*) FILTER (WHERE severity = 'MINOR') AS minor,
                     count(*) FILTER (WHERE severity = 'MAJOR') AS major,
                     count(*) FILTER (WHERE severity = 'WARNING') AS warning
              FROM serving.alert WHERE active) s
        """,
    )


def fleet_latest(connection: Connection, states: Sequence[str] | None = None) -> pd.DataFrame:
    """The newest state of the vehicles (of these states), alerted ones first; at most FLEET_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT * FROM serving.fleet_latest
        WHERE %(states)s::text[] IS NULL OR state = ANY(%(states)s::text[])
        ORDER BY alerts DESC, vehicle_id LIMIT %(limit)s
        """,
        states=None if states is None else list(states),
        limit=FLEET_LIMIT,
    )


def fleet_alerted(connection: Connection) -> pd.DataFrame:
    """The vehicles with active alerts; at most FLEET_LIMIT rows."""
    return frame(
        connection,
        "SELECT * FROM serving.fleet_latest WHERE alerts > 0 ORDER BY vehicle_id LIMIT %(limit)s",
        limit=FLEET_LIMIT,
    )


def vehicle_ids(connection: Connection) -> pd.DataFrame:
    """Every vehicle with its model, by id; at most FLEET_LIMIT rows."""
    return frame(
        connection,
        "SELECT vehicle_id, model FROM serving.fleet_latest ORDER BY vehicle_id LIMIT %(limit)s",
        limit=FLEET_LIMIT,
    )


def find_vehicles(connection: Connection, words: str) -> pd.DataFrame:
    """Vehicles whose id or model has these words in it, whatever their case; at most FOUND_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT * FROM serving.fleet_latest
        WHERE position(lower(%(words)s) IN lower(vehicle_id)) > 0
           OR position(lower(%(words)s) IN lower(model)) > 0
        ORDER BY lower(vehicle_id) <> lower(%(words)s), alerts DESC, vehicle_id LIMIT %(limit)s
        """,
        words=words,
        limit=FOUND_LIMIT,
    )


def fleet_hour(connection: Connection) -> pd.DataFrame:
    """The fleet by minute over the last hour; the minute still running is left out."""
    return frame(
        connection,
        """
        SELECT * FROM serving.fleet_trend
        WHERE minute >= date_trunc('minute', now()) - INTERVAL '1 hour'
          AND minute < date_trunc('minute', (SELECT data_as_of FROM serving.freshness))
        ORDER BY minute
        """,
    )


def fleet_today(connection: Connection) -> pd.DataFrame:
    """One row: kilometres, idle share and consumption since midnight of the service's time zone."""
    return frame(connection, "SELECT * FROM serving.fleet_today")


def road_networks(connection: Connection) -> pd.DataFrame:
    """One row: the road layer's extent and a ``version`` that changes when it does; nulls: no roads."""
    return frame(
        connection,
        """
        SELECT max(network) || '-' || count(*) || '-' || max(edge_id) AS version,
               min((path -> 0 ->> 1)::double precision) AS south,
               max((path -> 0 ->> 1)::double precision) AS north,
               min((path -> 0 ->> 0)::double precision) AS west,
               max((path -> 0 ->> 0)::double precision) AS east
        FROM serving.road_edge
        """,
    )


def road_edges(connection: Connection) -> pd.DataFrame:
    """The road layer; ``path`` is [[lon, lat], ...]; at most EDGE_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT network, edge_id, road_class, path FROM serving.road_edge
        ORDER BY network, edge_id LIMIT %(limit)s
        """,
        limit=EDGE_LIMIT,
    )


def road_cells(connection: Connection) -> pd.DataFrame:
    """Traffic of the last five minutes by cell and direction; at most CELL_LIMIT rows."""
    return frame(
        connection, "SELECT * FROM serving.road_cell ORDER BY vehicles DESC LIMIT %(limit)s", limit=CELL_LIMIT
    )


def road_edge_traffic(connection: Connection) -> pd.DataFrame:
    """Traffic of the last five minutes by directed edge, only judged ones, with their ``path``; at most
    EDGE_LIMIT rows.
    """
    return frame(
        connection,
        """
        SELECT t.edge_id, t.vehicles, t.speed_kmh, t.source, t.speed_ratio, t.congestion, e.path
        FROM serving.road_edge_traffic t JOIN serving.road_edge e USING (network, edge_id)
        WHERE t.congestion <> 'unknown' ORDER BY t.vehicles DESC LIMIT %(limit)s
        """,
        limit=EDGE_LIMIT,
    )
