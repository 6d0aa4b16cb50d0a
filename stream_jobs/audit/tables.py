"""The database as a source of an audit: what windows counted, and the lists of late, quarantined and dead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from psycopg.rows import dict_row

from infra.clients.db import Connection
from infra.contract.seq_ranges import Ranges
from stream_jobs.audit.edge import Device, ranges_by_device
from stream_jobs.audit.scope import Scope

_COUNTED = """
SELECT vehicle_id, sum(frames - frames_late)::bigint AS counted, sum(frames_late)::bigint AS repaired
FROM odograph.vehicle_window
WHERE window_start >= to_timestamp(%(since)s / 1000.0) AND window_start < to_timestamp(%(until)s / 1000.0)
GROUP BY 1
"""
_LATE = """
SELECT vehicle_id, count(*) AS late_listed, count(*) FILTER (WHERE repaired_at IS NULL) AS late_open
FROM odograph.late_frame
WHERE t0_ms >= %(since)s AND t0_ms < %(until)s AND received_at < to_timestamp(%(seen)s / 1000.0)
GROUP BY 1
"""
_QUARANTINED = """
SELECT vehicle_id, count(*) AS quarantined_listed FROM odograph.quarantined_frame
WHERE received_at >= to_timestamp(%(since)s / 1000.0)
  AND received_at < to_timestamp(least(%(until)s, %(seen)s) / 1000.0)
GROUP BY 1
"""
_DEAD = """
SELECT coalesce(vehicle_id, '') AS vehicle_id,
       count(DISTINCT digest) FILTER (WHERE seq IS NULL AND messages IS NULL) AS dead_unknown,
       coalesce(sum(messages) FILTER (WHERE reason = 'rate_limited'), 0)::bigint AS not_kept
FROM odograph.dead_letter
WHERE received_at >= to_timestamp(%(since)s / 1000.0) AND received_at < to_timestamp(%(until)s / 1000.0)
  AND (mqtt_topic IS NOT NULL OR reason <> 'refused') -- else a row of the jobs, no message
GROUP BY 1
"""
_DEAD_FRAMES: Final = "SELECT vehicle_id, boot_id, seq FROM serving.dead_frame WHERE vehicle_id = ANY(%s)"
_SESSION_LOSSES: Final = """
SELECT (extract(epoch FROM since_at) * 1000)::bigint, (extract(epoch FROM at) * 1000)::bigint, detail
FROM serving.session_loss ORDER BY at
"""
_WINDOWS: Final = """
SELECT (extract(epoch FROM window_start) * 1000)::bigint, (frames - frames_late)::bigint
FROM odograph.vehicle_window
WHERE vehicle_id = %(vehicle)s AND window_start >= to_timestamp(%(since)s / 1000.0)
  AND window_start < to_timestamp(%(until)s / 1000.0)
"""
_NEXT_OFFSETS: Final = """
SELECT partition, next_offset FROM odograph.consumer_offset WHERE consumer = %s AND topic = %s
"""
_HORIZON: Final = """
SELECT (extract(epoch FROM max(dropped_before)) * 1000)::bigint FROM odograph.retention
WHERE table_name = 'vehicle_window'
"""


class SessionLoss(NamedTuple):
    """Whatever the broker held for a session of the bridge in this time may be lost, ms since 1970."""

    since_ms: int
    at_ms: int
    detail: str


def listed(connection: Connection, scope: Scope) -> dict[str, dict[str, int]]:
    """By vehicle the ledger's figures that the database has; under the empty name dead letters of nobody.

    Frames in windows, else records. A vehicle that a table does not name has none of its figures.
    """
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with connection.cursor(row_factory=dict_row) as cursor:
        for query in (_COUNTED, _LATE, _QUARANTINED, _DEAD):
            for row in cursor.execute(query, scope.bounds()):
                found[row.pop("vehicle_id")] |= row
    return found


def dead_frames(connection: Connection, vehicles: Sequence[str]) -> dict[Device, Ranges]:
    """Frames of these vehicles that are known to lie in dead letters."""
    return ranges_by_device(connection.execute(_DEAD_FRAMES, (list(vehicles),)).fetchall())


def session_losses(connection: Connection) -> list[SessionLoss]:
    """All that were noted, oldest first."""
    return [SessionLoss(*row) for row in connection.execute(_SESSION_LOSSES).fetchall()]


def windows(connection: Connection, vehicle_id: str, scope: Scope) -> dict[int, int]:
    """Frames in time by window, ms."""
    return dict(connection.execute(_WINDOWS, scope.bounds() | {"vehicle": vehicle_id}).fetchall())


def next_offsets(connection: Connection, consumer: str, topic: str) -> dict[int, int]:
    """The next offset that a consumer of the database reads, by partition; none before its first."""
    return dict(connection.execute(_NEXT_OFFSETS, (consumer, topic)).fetchall())


def horizon_ms(connection: Connection) -> int | None:
    """Windows that begin before it have been dropped; None: none ever were."""
    ((moment,),) = connection.execute(_HORIZON).fetchall()
    return None if moment is None else int(moment)
