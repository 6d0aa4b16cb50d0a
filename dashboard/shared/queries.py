"""Queries of several pages."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pandas as pd

from dashboard.db import Connection, Query, query

QUIET: Final = timedelta(minutes=2)
"""As serving.fleet_latest has it: who has not reported for so long is silent."""
FOUND_LIMIT: Final = 20
ALERT_LIMIT: Final = 500

# One row: how new the data is and what was late, quarantined, dead; ``now`` is the database's clock
freshness: Query[[]] = query("freshness")("SELECT *, now() AS now FROM serving.freshness")

# Promoted runs: within their spans the views give their rows; no row: everything is live
promoted_runs: Query[[]] = query("promoted_runs")(
    "SELECT * FROM serving.reading ORDER BY promoted_at DESC LIMIT 10"
)

# The rules as the jobs last started with them
rules: Query[[]] = query("rules")("SELECT * FROM serving.rule ORDER BY rule LIMIT 1000")

# One row: the road layer's extent and a ``version`` that changes when it does; nulls: no roads
road_networks: Query[[]] = query("road_networks")("""
    SELECT max(network) || '-' || count(*) || '-' || max(edge_id) AS version,
           min((path -> 0 ->> 1)::double precision) AS south,
           max((path -> 0 ->> 1)::double precision) AS north,
           min((path -> 0 ->> 0)::double precision) AS west, max((path -> 0 ->> 0)::double precision) AS east
    FROM serving.road_edge
""")

# The road layer; ``path`` is [[lon, lat], ...]
road_edges: Query[[]] = query("road_edges")("""
    SELECT network, edge_id, road_class, speed_limit_kmh, path FROM serving.road_edge
    ORDER BY network, edge_id LIMIT 50000
""")

# The newest state of one vehicle: one row or none
vehicle: Query[[str]] = query("vehicle", "vehicle_id")(
    "SELECT * FROM serving.fleet_latest WHERE vehicle_id = %(vehicle_id)s"
)

# Vehicles whose id or model has these words in it, whatever their case
find_vehicles: Query[[str]] = query("find_vehicles", "words")("""
    SELECT * FROM serving.fleet_latest
    WHERE position(lower(%(words)s) IN lower(vehicle_id)) > 0
       OR position(lower(%(words)s) IN lower(model)) > 0
    ORDER BY lower(vehicle_id) <> lower(%(words)s), alerts DESC, vehicle_id LIMIT 20
""")

_alerts: Query[...] = query("alerts", "vehicle_id severities active rule numbers most")("""
    SELECT *, CASE WHEN starts_with(rule, 'crash') THEN (
               SELECT v.verdict FROM serving.alert_verdict v WHERE v.alert_no = a.alert_no) END AS verdict
    FROM serving.alert_triage a
    WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
      AND (%(severities)s::text[] IS NULL OR severity = ANY(%(severities)s::text[]))
      AND (%(active)s::boolean IS NULL OR active = %(active)s)
      AND (%(rule)s::text IS NULL OR %(rule)s IN (rule, split_part(rule, '.', 1)))
      AND (%(numbers)s::bigint[] IS NULL OR alert_no = ANY(%(numbers)s::bigint[]))
    ORDER BY active DESC, acknowledged_at IS NULL DESC,
             array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at DESC
    LIMIT %(most)s
""")


def alerts(
    connection: Connection,
    vehicle_id: str | None = None,
    severities: Sequence[str] | None = None,
    active: bool | None = None,
    rule: str | None = None,
    numbers: Sequence[int] | None = None,
    most: int = ALERT_LIMIT,
) -> pd.DataFrame:
    """Alerts (of these ``numbers``), active and new first, then the worst; ``rule``: with or without part."""
    return _alerts(connection, vehicle_id, severities, active, rule, numbers, most)
