"""What the database has of a frame. Each query is by key or bounded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.rows import dict_row

from infra.clients.db import connected

DEAD_LETTERS = 500
"""Newest dead letters of a vehicle that are looked into."""
RULE_VERSIONS = 1000

Row = dict[str, Any]
Connection = psycopg.Connection[Row]

_WINDOWS = """
SELECT window_start, window_s, frames, samples, batch_id, revision, restated_at
FROM odograph.vehicle_window WHERE vehicle_id = %s AND window_start = ANY(%s) ORDER BY window_start
"""
_LEDGER = "SELECT committed_at FROM odograph.batch_ledger WHERE query_id = %s AND batch_id = %s"
_PROGRESS = """
SELECT at + batch_ms * INTERVAL '1 ms' AS committed_at FROM odograph.query_progress
WHERE query = %s AND query_id = %s AND batch_id = %s LIMIT 1
"""
LATE = """
SELECT received_at, repaired_at FROM odograph.late_frame
WHERE topic = %s AND partition = %s AND log_offset = %s
"""
QUARANTINED = """
SELECT received_at, verdict FROM odograph.quarantined_frame
WHERE topic = %s AND partition = %s AND log_offset = %s
"""
_DEAD = """
SELECT partition, log_offset FROM odograph.dead_letter
WHERE vehicle_id = %s ORDER BY log_offset DESC LIMIT %s
"""
_DEAD_END = "SELECT coalesce(max(log_offset), -1) + 1 AS next FROM odograph.dead_letter WHERE partition = 0"
_ALERTS = """
SELECT alert_id, rule, severity, event_time, alerted_at, stored_at FROM odograph.alert_event
WHERE vehicle_id = %s AND event_time BETWEEN to_timestamp(%s / 1000.0) AND to_timestamp(%s / 1000.0)
ORDER BY alerted_at
"""
LATEST = "SELECT event_time, updated_at FROM odograph.vehicle_latest WHERE vehicle_id = %s"


opened = partial(connected, row_factory=dict_row)
"""A connection while the block runs; raises ServiceError."""


def one(connection: Connection, query: str, *values: Any) -> Row | None:
    """The row of a query of this module by key; None without one."""
    return connection.execute(query.encode(), values).fetchone()


def windows(connection: Connection, vehicle_id: str, starts: Sequence[Any]) -> list[Row]:
    """The vehicle's windows that begin at ``starts``."""
    return connection.execute(_WINDOWS, (vehicle_id, list(starts))).fetchall()


def committed_at(connection: Connection, query: str, query_id: str, batch_id: int) -> Any:
    """When a batch was committed: by the ledger, else by its progress; None where both have forgotten it."""
    row = one(connection, _LEDGER, query_id, batch_id) or one(
        connection, _PROGRESS, query, query_id, batch_id
    )
    return row["committed_at"] if row else None


def dead_letters(connection: Connection, vehicle_id: str) -> tuple[list[int], int]:
    """Offsets of the vehicle's newest dead letters, and the first offset that is not listed yet."""
    rows = connection.execute(_DEAD, (vehicle_id, DEAD_LETTERS)).fetchall()
    end = one(connection, _DEAD_END)
    return [int(row["log_offset"]) for row in rows], int(end["next"]) if end else 0


def alerts(
    connection: Connection, vehicle_id: str, boot_id: int, seq: int, span: tuple[int, int]
) -> list[Row]:
    """Findings raised by this very frame, in whatever version of their rule; ``span`` [ms since 1970]."""
    found = []
    for row in connection.execute(_ALERTS, (vehicle_id, *span)).fetchall():
        ids = (alert_id(vehicle_id, row["rule"], version, boot_id, seq) for version in range(RULE_VERSIONS))
        if row["alert_id"] in ids:
            found.append(row)
    return found


def alert_id(vehicle_id: str, rule: str, rule_version: int, boot_id: int, seq: int) -> str:
    """The id of a rule's finding in a frame, as the real-time query makes it."""
    same = "|".join(map(str, (vehicle_id, rule, rule_version, boot_id, seq)))
    return hashlib.sha256(same.encode()).hexdigest()[:32]
