"""What the database says of a frame: the door of this package to it. Each query is by key or bounded."""

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
_LATE = """
SELECT received_at, repaired_at FROM odograph.late_frame
WHERE topic = %s AND partition = %s AND log_offset = %s
"""
_QUARANTINED = """
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
_LATEST = "SELECT event_time, updated_at FROM odograph.vehicle_latest WHERE vehicle_id = %s"


opened = partial(connected, row_factory=dict_row)
"""A connection while the block runs; raises ServiceError."""


def windows(connection: Connection, vehicle_id: str, starts: Sequence[Any]) -> list[Row]:
    """The vehicle's windows that begin at ``starts``."""
    return connection.execute(_WINDOWS, (vehicle_id, list(starts))).fetchall()


def committed_at(connection: Connection, query: str, query_id: str, batch_id: int) -> Any:
    """When a batch was committed: by the ledger, else by its progress; None where both have forgotten it."""
    row = connection.execute(_LEDGER, (query_id, batch_id)).fetchone()
    row = row or connection.execute(_PROGRESS, (query, query_id, batch_id)).fetchone()
    return row["committed_at"] if row else None


def late(connection: Connection, topic: str, partition: int, offset: int) -> Row | None:
    """The list's line of a late record."""
    return connection.execute(_LATE, (topic, partition, offset)).fetchone()


def quarantined(connection: Connection, topic: str, partition: int, offset: int) -> Row | None:
    """The list's line of a record kept from the windows."""
    return connection.execute(_QUARANTINED, (topic, partition, offset)).fetchone()


def dead_letters(connection: Connection, vehicle_id: str) -> tuple[list[int], int]:
    """Offsets of the vehicle's newest dead letters, and the first offset that is not listed yet."""
    rows = connection.execute(_DEAD, (vehicle_id, DEAD_LETTERS)).fetchall()
    end = connection.execute(_DEAD_END).fetchone()
    return [int(row["log_offset"]) for row in rows], int(end["next"]) if end else 0


def alerts(
    connection: Connection, vehicle_id: str, boot_id: int, seq: int, span: tuple[int, int]
) -> list[Row]:
    """Findings raised by this very frame; ``span`` holds its samples' times, ms since 1970."""
    rows = connection.execute(_ALERTS, (vehicle_id, *span)).fetchall()
    return [row for row in rows if _of_frame(row, vehicle_id, boot_id, seq)]


def _of_frame(row: Row, vehicle_id: str, boot_id: int, seq: int) -> bool:
    """Whether a finding's id is the one that a rule gives to this frame, in whatever version."""
    ids = (alert_id(vehicle_id, row["rule"], version, boot_id, seq) for version in range(RULE_VERSIONS))
    return row["alert_id"] in ids


def alert_id(vehicle_id: str, rule: str, rule_version: int, boot_id: int, seq: int) -> str:
    """The id of a rule's finding in a frame, as the real-time query makes it."""
    same = "|".join(map(str, (vehicle_id, rule, rule_version, boot_id, seq)))
    return hashlib.sha256(same.encode()).hexdigest()[:32]


def latest(connection: Connection, vehicle_id: str) -> Row | None:
    """The newest state of the vehicle."""
    return connection.execute(_LATEST, (vehicle_id,)).fetchone()
