"""Short reads and writes of commands and tasks; each opens its own connection and raises ServiceError."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog
from psycopg.rows import dict_row

from infra.clients.db import connected, system_user
from infra.contract.errors import ServiceError
from infra.sql.migrate import license_of

_PULSE: Final = """
SELECT l.frames_counted, l.records_late, f.lag_records,
       extract(epoch FROM now() - f.watermark)::double precision AS watermark_lag_s,
       (SELECT count(*) FROM serving.alert WHERE active) AS alerts_active,
       (SELECT count(*) FROM serving.fleet_latest WHERE state <> 'silent') AS vehicles_reporting
FROM serving.ledger l, serving.freshness f
"""
_ROADS: Final = """
INSERT INTO odograph.road_edge (network, edge_id, road_class, speed_limit_kmh, length_m, path)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_NETWORK: Final = """
INSERT INTO odograph.road_network (network) VALUES (%s) ON CONFLICT (network) DO UPDATE SET loaded_at = now()
"""
_ASK: Final = """
INSERT INTO odograph.reinjection
    (partition, log_offset, digest, kafka_topic, vehicle_id, boot_id, seq, asked_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, now())
ON CONFLICT (partition, log_offset, digest) DO UPDATE SET asked_at = excluded.asked_at
"""
_DONE: Final = """
UPDATE odograph.reinjection SET reinjected_at = now()
WHERE partition = %s AND log_offset = %s AND digest = %s
"""
_STORED: Final = "SELECT log_offset, digest FROM serving.reinjection WHERE reinjected_at IS NOT NULL"
AGGREGATES: Final = ("odograph.vehicle_minute_continuous", "odograph.vehicle_hour_continuous")
"""TimescaleDB's own, where its license has them. Hours are made of minutes: in this order."""
PIECE: Final = timedelta(days=1)
_SPAN: Final = """
SELECT greatest(date_trunc('hour', %(since)s::timestamptz), dropped_before),
       least(date_trunc('hour', %(until)s::timestamptz) + INTERVAL '1 hour', date_trunc('hour', now()))
FROM odograph.retention WHERE table_name = 'vehicle_window'
"""
"""Whole hours of windows that are still there: a refresh over dropped ones deletes their aggregates."""
_OURS: Final = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s::regclass"
REFRESH: Final = "CALL refresh_continuous_aggregate(%s::regclass, %s::timestamptz, %s::timestamptz)"

NOTE_S: Final = 5.0

log = structlog.get_logger("infra.sql")
_AUDIT_LOG: Final = """
WITH whole AS (SELECT *, count(*) FILTER (WHERE NOT holds) OVER () AS broken FROM serving.audit_log)
SELECT * FROM (SELECT * FROM whole WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
               AND (%(actor)s::text IS NULL OR actor = %(actor)s) ORDER BY entry DESC LIMIT %(limit)s) newest
ORDER BY entry
"""

RoadRow = tuple[int, str, float, float, list[tuple[float, float]]]
"""Edge id, class, limit [km/h], length [m], path [(lat, lon)] in degrees."""


class Reinjected(NamedTuple):
    """A dead letter on its way in again; ``digest`` is the SHA-256 of its bytes, hex."""

    partition: int
    log_offset: int
    digest: str
    kafka_topic: str
    vehicle_id: str
    boot_id: int
    seq: int


def ledger(url: str) -> dict[str, int]:
    """The row of serving.ledger."""
    return _one(url, "SELECT * FROM serving.ledger")


def pulse(url: str) -> dict[str, Any]:
    """One row of live figures: frames counted, late, lag, watermark lag, alerts, vehicles reporting."""
    return _one(url, _PULSE)


def _one(url: str, query: str) -> dict[str, Any]:
    with connected(url, row_factory=dict_row) as connection:
        row: dict[str, Any] | None = connection.execute(query.encode()).fetchone()
    if row is None:
        raise ServiceError("database: a view with one row has none")
    return row


def dead_frames(url: str) -> list[tuple[str, str, int, int]]:
    """Frames known to lie in dead letters: digest, vehicle id, boot id, seq."""
    with connected(url) as connection:
        query = "SELECT digest, vehicle_id, boot_id, seq FROM serving.dead_frame"
        return [(str(d), str(v), int(b), int(s)) for d, v, b, s in connection.execute(query)]


def store_roads(url: str, network: str, rows: Iterable[RoadRow]) -> int:
    """Write a road network's edges, replacing those of the same name; how many."""
    values = [
        (network, edge_id, road_class, limit, length_m, json.dumps([[lon, lat] for lat, lon in path]))
        for edge_id, road_class, limit, length_m, path in rows
    ]
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(_NETWORK, (network,))
        cursor.execute("DELETE FROM odograph.road_edge WHERE network = %s", (network,))
        cursor.executemany(_ROADS, values)
    return len(values)


def ask(url: str, letters: Sequence[Reinjected]) -> None:
    """Note which dead letters are about to be sent in; again is fine."""
    with connected(url, actor=system_user()) as connection, connection.cursor() as cursor:
        cursor.executemany(_ASK, letters)


def done(url: str, letters: Sequence[Reinjected]) -> None:
    """Note that Kafka has them."""
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.executemany(_DONE, [letter[:3] for letter in letters])


def stored(url: str) -> set[tuple[int, str]]:
    """Offset and digest of every letter that was sent in and reported stored."""
    with connected(url) as connection:
        return set(connection.execute(_STORED).fetchall())


def refresh(url: str, since: datetime, until: datetime, piece_s: float) -> int:
    """Make the continuous aggregates of a span anew, each day of it in ``piece_s`` at most; how many days.

    Their policies look back less than a day: what is restated further back needs this. Only their owner may,
    whoever else says so. Changes nothing in the Apache edition.
    """
    with connected(
        url, "database: continuous aggregates", autocommit=True, application_name="odograph-continuous",
        connect_timeout_s=5, tcp_user_timeout=10_000, statement_timeout_s=piece_s,
        session={"timezone": "UTC"},
    ) as connection:  # fmt: skip
        if license_of(connection) != "timescale":
            return 0
        if connection.execute(_OURS, AGGREGATES[:1]).fetchone() != (True,):
            log.warning(
                "continuous aggregates are not refreshed: they are another role's", to=until.isoformat()
            )
            return 0
        found = pieces(*connection.execute(_SPAN, {"since": since, "until": until}).fetchall()[0])
        for name in AGGREGATES:
            for begin, end in found:
                connection.execute(REFRESH, (name, begin, end))
        return len(found)


def pieces(since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The span in days, the last one shorter; none where it is empty."""
    found = []
    while since < until:
        found.append((since, min(since + PIECE, until)))
        since += PIECE
    return found


def note(url: str, action: str, vehicle_id: str | None, detail: str, actor: str | None = None) -> None:
    """Note in the audit log what leaves no row elsewhere; ``actor``: who signed in, else the system user."""
    with connected(url, answer_s=NOTE_S, actor=actor or system_user()) as connection:
        connection.execute("SELECT dispatch.audit(%s, %s, %s)", (action, vehicle_id, detail))


def audit_log(url: str, vehicle_id: str | None, actor: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest entries, the oldest first; ``broken``: how many of the whole log do not hold."""
    with connected(url, row_factory=dict_row) as connection:
        return connection.execute(
            _AUDIT_LOG, {"vehicle": vehicle_id, "actor": actor, "limit": limit}
        ).fetchall()


def fleets(url: str) -> list[tuple[str, int]]:
    """Each fleet and how many vehicles it has."""
    with connected(url) as connection:
        query = "SELECT fleet, count(*) FROM odograph.fleet_vehicle GROUP BY fleet ORDER BY fleet"
        return connection.execute(query).fetchall()
