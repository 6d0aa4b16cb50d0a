"""SQL of the sinks, built from table and column names of this package only (never from data)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_jobs.app.schema import WRITER_COLUMNS

VEHICLE_TABLE: Final = "odograph.vehicle_window"
ROAD_TABLE: Final = "odograph.road_cell_window"
EDGE_TABLE: Final = "odograph.road_edge_window"
LATEST_TABLE: Final = "odograph.vehicle_latest"
SHARE_TABLE: Final = "odograph.road_share"
_SHARE_KEYS: Final = "start_ms, place, heading_sector"
_SHARE_SUMS: Final = ("samples", "time_ms_sum", "speed_over_time_sum", "vehicles")

FORGET_SHARES: Final = """
WITH others AS (DELETE FROM odograph.road_share_bucket WHERE query_id <> %(query_id)s RETURNING bucket)
DELETE FROM odograph.road_share WHERE EXISTS (SELECT 1 FROM others)
"""
"""Shares of another checkpoint: this one reads everything anew."""
NOTE_BUCKETS: Final = """
INSERT INTO odograph.road_share_bucket AS b (query_id, bucket, open_from_ms)
SELECT %(query_id)s, bucket, open_from_ms FROM unnest(%(buckets)s::int[], %(open_from_ms)s::bigint[])
    AS n (bucket, open_from_ms)
ON CONFLICT (query_id, bucket) DO UPDATE SET open_from_ms = excluded.open_from_ms
WHERE b.open_from_ms <> excluded.open_from_ms
"""
CLOSE_SHARES: Final = """
DELETE FROM odograph.road_share
WHERE start_ms < (SELECT min(open_from_ms) FROM odograph.road_share_bucket) - %(margin_ms)s
"""
"""Not at once: a bucket that has no vehicle yet takes nothing that is older than the margin."""
ADD_SHARES: Final = f"""
INSERT INTO {SHARE_TABLE} SELECT * FROM staged_road_share ORDER BY {_SHARE_KEYS}, bucket
ON CONFLICT ({_SHARE_KEYS}, bucket) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in (*_SHARE_SUMS, "vehicle_bits"))}
"""  # noqa: S608  own names
SUM_SHARES: Final = f"""
SELECT t.*, s.*
FROM (SELECT DISTINCT {_SHARE_KEYS} FROM staged_road_share) t, LATERAL (
    SELECT {", ".join(f"sum({name})::bigint" for name in _SHARE_SUMS)}, bit_or(vehicle_bits)
    FROM {SHARE_TABLE} s
    WHERE (s.start_ms, s.place, s.heading_sector) = (t.start_ms, t.place, t.heading_sector)
) s
"""  # noqa: S608  own names
"""By the key, place by place: the planner knows nothing of staged rows and would read the whole table."""

CLAIM_BATCH: Final = """
INSERT INTO odograph.batch_ledger (query_id, batch_id, query, rows)
SELECT %(query_id)s, %(batch_id)s, %(query)s, %(rows)s
WHERE NOT EXISTS (SELECT 1 FROM odograph.batch_ledger
                  WHERE query_id = %(query_id)s AND batch_id >= %(batch_id)s)
ON CONFLICT DO NOTHING
RETURNING batch_id
"""
"""No row: this batch, or a later one of the same checkpoint, is in already."""

FORGET_BATCHES: Final = """
DELETE FROM odograph.batch_ledger l USING
    (SELECT query_id, max(batch_id) AS newest FROM odograph.batch_ledger GROUP BY query_id) n
WHERE l.query_id = n.query_id AND l.batch_id < n.newest - 1000
"""

REOPEN_JOURNEYS: Final = """
UPDATE odograph.late_vehicle_frames SET repaired_at = NULL
WHERE vehicle_id = ANY(%(vehicles)s) AND repaired_at > now() - INTERVAL '1 day'
"""

_PROGRESS: Final = (
    "query", "at", "query_id", "batch_id", "input_rows", "rows_per_s", "batch_ms", "watermark",
    "event_time_max", "state_rows", "state_bytes", "dropped_late", "dropped_duplicates", "lag_records",
)  # fmt: skip
INSERT_PROGRESS: Final = (
    f"INSERT INTO odograph.query_progress ({', '.join(_PROGRESS)}) "  # noqa: S608  own names
    f"VALUES ({', '.join(f'%({name})s' for name in _PROGRESS)}) ON CONFLICT DO NOTHING"
)


def staged(table: str) -> str:
    """Name of the temporary table that stands before ``table``."""
    return "staged_" + table.rpartition(".")[2]


TYPES: Final = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped
"""


def copy_into(table: str, columns: Sequence[str], form: str) -> str:
    """COPY into ``table``, ``form`` csv or binary."""
    return f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT {form})"


def upsert(table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Speed layer: staged rows into ``table``; a window that the batch layer restated stays as it is."""
    return f"{_insert(table, columns, keys)} WHERE excluded.revision >= {table}.revision"


def restate(table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Batch layer: staged rows into ``table`` as the next revision."""
    sql = _insert(table, (*columns, "revision", "restated_at"), keys, ("1", "now()"))
    return sql.replace("revision = excluded.revision", f"revision = {table}.revision + 1")


def leave_equal(table: str, columns: Sequence[str], keys: Sequence[str], time: str) -> str:
    """Staged rows that ``table`` holds just so go: what stays is to be restated.

    ``time`` is the key that bounds the chunks looked at, by parameters ``since`` and ``until``.
    """
    values = [c for c in columns if c not in keys and c not in WRITER_COLUMNS]
    matched = " AND ".join(f"s.{key} = w.{key}" for key in keys)
    staged_values, stored = (", ".join(f"{of}.{c}" for c in values) for of in ("s", "w"))
    return (
        f"DELETE FROM {staged(table)} s USING {table} w WHERE {matched} "  # noqa: S608  own names
        f"AND w.{time} >= %(since)s AND w.{time} <= %(until)s "
        f"AND ROW({staged_values}) IS NOT DISTINCT FROM ROW({stored})"
    )


def _insert(table: str, columns: Sequence[str], keys: Sequence[str], constants: Sequence[str] = ()) -> str:
    sources = [*columns[: len(columns) - len(constants)], *constants]
    changes = ", ".join(f"{c} = excluded.{c}" for c in columns if c not in keys)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(sources)} "  # noqa: S608
        f"FROM {staged(table)} ORDER BY {', '.join(keys)} "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    )


def upsert_latest(columns: Sequence[str]) -> str:
    """Staged rows into vehicle_latest, unless a newer one of the vehicle is there."""
    changes = ", ".join(f"{c} = excluded.{c}" for c in (*columns, "updated_at") if c != "vehicle_id")
    names = ", ".join(columns)
    return (
        f"INSERT INTO {LATEST_TABLE} ({names}, updated_at) SELECT {names}, now() "  # noqa: S608
        f"FROM {staged(LATEST_TABLE)} ORDER BY vehicle_id ON CONFLICT (vehicle_id) DO UPDATE SET {changes} "
        "WHERE excluded.event_time >= vehicle_latest.event_time"
    )


def reopen(table: str, keys: Sequence[str]) -> str:
    """A restated window that the stream touches again has to be restated again: its late frames reopen.

    Those of any vehicle where the windows are of roads.
    """
    own = "AND l.vehicle_id = s.vehicle_id " if "vehicle_id" in keys else ""
    return (
        "UPDATE odograph.late_frame l SET repaired_at = NULL "  # noqa: S608
        f"FROM {staged(table)} s JOIN {table} w USING ({', '.join(keys)}) "
        f"WHERE w.revision > 0 AND l.repaired_at IS NOT NULL {own}"
        "AND l.t0_ms < (extract(epoch FROM s.window_start) + s.window_s) * 1000 "
        "AND l.t0_ms + l.span_ms >= extract(epoch FROM s.window_start) * 1000"
    )


def insert_new(table: str, columns: Sequence[str]) -> str:
    """Staged rows into ``table``; those that are there already stay as they are."""
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged(table)} ON CONFLICT DO NOTHING"  # noqa: S608
