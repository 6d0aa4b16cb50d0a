"""The database's side of a repair: which frames are due, where their records lie, what was restated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from infra.archive.layout import HOUR_MS
from stream_jobs.database import Connection, execute, fetch
from stream_jobs.repair_plan import LateFrame
from stream_jobs.sinks import WindowTable, restate_windows, tagged

REPAIR_BATCH_ID: Final = -1
"""Stands where the speed layer writes its batch: a restated row belongs to no batch of a query."""

_OPEN: Final = """
SELECT topic, partition, log_offset, vehicle_id, t0_ms, span_ms FROM odograph.late_frame
WHERE repaired_at IS NULL
  AND ((t0_ms + span_ms) / %(road_window_ms)s + 1) * %(road_window_ms)s <= %(closed_ms)s
ORDER BY received_at LIMIT %(limit)s
"""
_LATE_HOURS: Final = """
SELECT DISTINCT extract(epoch FROM l.received_at)::bigint * 1000 / %(hour_ms)s * %(hour_ms)s
FROM odograph.late_frame l
JOIN unnest(%(starts_ms)s::bigint[]) AS w (start_ms)
  ON l.t0_ms < w.start_ms + %(road_window_ms)s AND l.t0_ms + l.span_ms >= w.start_ms
"""
_REPAIRED: Final = """
UPDATE odograph.late_frame l SET repaired_at = now()
FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(offsets)s::bigint[])
     AS f (topic, partition, log_offset)
WHERE l.topic = f.topic AND l.partition = f.partition AND l.log_offset = f.log_offset
"""


def open_frames(connection: Connection, road_window_ms: int, closed_ms: int, limit: int) -> list[LateFrame]:
    """Late frames not repaired yet whose road windows all end by ``closed_ms``, oldest receipt first."""
    values = {"road_window_ms": road_window_ms, "closed_ms": closed_ms, "limit": limit}
    return [LateFrame(*row) for row in fetch(connection, _OPEN, values)]


def late_hours(connection: Connection, starts_ms: Sequence[int], road_window_ms: int) -> list[int]:
    """Hours of receipt, ms, of all late frames, repaired or not, that touch these road windows."""
    values = {"hour_ms": HOUR_MS, "starts_ms": list(starts_ms), "road_window_ms": road_window_ms}
    return [row[0] for row in fetch(connection, _LATE_HOURS, values)]


def write(connection: Connection, rows: Mapping[WindowTable, pa.Table], frames: Sequence[LateFrame]) -> None:
    """Restated rows of each table and the mark on their late frames, in the transaction at hand."""
    for table, restated in rows.items():
        _restate(connection, table, restated)
    mark_repaired(connection, frames)


def mark_repaired(connection: Connection, frames: Sequence[LateFrame]) -> None:
    """These late frames are in all windows that they touch."""
    values = {
        "topics": [f.topic for f in frames], "partitions": [f.partition for f in frames],
        "offsets": [f.log_offset for f in frames],
    }  # fmt: skip
    execute(connection, _REPAIRED, values)


def _restate(connection: Connection, table: WindowTable, rows: pa.Table) -> None:
    if rows.num_rows:
        restate_windows(connection, table, tagged(rows, REPAIR_BATCH_ID))
