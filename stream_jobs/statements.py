"""SQL of the sinks, built from table and column names of this package only (never from data)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

VEHICLE_TABLE: Final = "odograph.vehicle_window"
ROAD_TABLE: Final = "odograph.road_cell_window"
EDGE_TABLE: Final = "odograph.road_edge_window"

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

_LATEST_COLUMNS: Final = {
    "event_time": "last_event",
    "lat_deg": "lat_deg",
    "lon_deg": "lon_deg",
    "heading_deg": "heading_deg",
    "speed_kmh": "speed_last_kmh",
    "speed_limit_kmh": "speed_limit_kmh",
    "odometer_m": "odometer_m",
    "ignition_on": "ignition_on",
    "coolant_c": "coolant_mean_c",
    "battery_v": "battery_mean_v",
    "tyre_min_kpa20": "least(tyre_fl_kpa20, tyre_fr_kpa20, tyre_rl_kpa20, tyre_rr_kpa20)",
    "fuel_level_pct": "fuel_level_pct",
    "soc_pct": "soc_pct",
    "updated_at": "now()",
}

REOPEN_VEHICLE: Final = """
UPDATE odograph.late_frame l SET repaired_at = NULL
FROM staged_vehicle_window s JOIN odograph.vehicle_window w USING (vehicle_id, window_start)
WHERE w.revision > 0 AND l.repaired_at IS NOT NULL AND l.vehicle_id = s.vehicle_id
  AND l.t0_ms < (extract(epoch FROM s.window_start) + s.window_s) * 1000
  AND l.t0_ms + l.span_ms >= extract(epoch FROM s.window_start) * 1000
"""
"""A restated window that the stream touches again has to be restated again: its late frames reopen."""

PROGRESS_COLUMNS: Final = (
    "query", "at", "query_id", "batch_id", "input_rows", "rows_per_s", "batch_ms", "watermark",
    "event_time_max", "state_rows", "state_bytes", "dropped_late", "dropped_duplicates", "lag_records",
)  # fmt: skip


def staged(table: str) -> str:
    """Name of the temporary table that stands before ``table``."""
    return "staged_" + table.rpartition(".")[2]


def create_staged(table: str) -> str:
    """The temporary table itself; it is empty again at the end of each transaction."""
    return (
        f"CREATE TEMP TABLE IF NOT EXISTS {staged(table)} "
        f"(LIKE {table} INCLUDING DEFAULTS) ON COMMIT DELETE ROWS"
    )


def copy_into(table: str, columns: Sequence[str]) -> str:
    """COPY of CSV into ``table``."""
    return f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT csv)"


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
    values = [c for c in columns if c not in keys and c not in WRITTEN_BY]
    matched = " AND ".join(f"s.{key} = w.{key}" for key in keys)
    staged_values, stored = (", ".join(f"{of}.{c}" for c in values) for of in ("s", "w"))
    return (
        f"DELETE FROM {staged(table)} s USING {table} w WHERE {matched} "  # noqa: S608  own names
        f"AND w.{time} >= %(since)s AND w.{time} <= %(until)s "
        f"AND ROW({staged_values}) IS NOT DISTINCT FROM ROW({stored})"
    )


WRITTEN_BY: Final = ("batch_id", "revision", "restated_at")
"""Columns that say who wrote a row, not what it says."""


def _insert(table: str, columns: Sequence[str], keys: Sequence[str], constants: Sequence[str] = ()) -> str:
    sources = [*columns[: len(columns) - len(constants)], *constants]
    changes = ", ".join(f"{c} = excluded.{c}" for c in columns if c not in keys)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(sources)} "  # noqa: S608
        f"FROM {staged(table)} ORDER BY {', '.join(keys)} "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    )


def upsert_latest() -> str:
    """The newest staged window of each vehicle into vehicle_latest, unless a newer one is there."""
    targets, sources = ", ".join(_LATEST_COLUMNS), ", ".join(_LATEST_COLUMNS.values())
    changes = ", ".join(f"{c} = excluded.{c}" for c in _LATEST_COLUMNS)
    return (
        f"INSERT INTO odograph.vehicle_latest (vehicle_id, {targets}) "  # noqa: S608
        f"SELECT DISTINCT ON (vehicle_id) vehicle_id, {sources} FROM {staged(VEHICLE_TABLE)} "
        f"ORDER BY vehicle_id, window_start DESC ON CONFLICT (vehicle_id) DO UPDATE SET {changes} "
        "WHERE excluded.event_time >= vehicle_latest.event_time"
    )


def reopen_road(table: str, keys: Sequence[str]) -> str:
    """Reopen the late frames of restated windows of roads: any vehicle may be in them."""
    return (
        "UPDATE odograph.late_frame l SET repaired_at = NULL "  # noqa: S608
        f"FROM {staged(table)} s JOIN {table} w USING ({', '.join(keys)}) "
        "WHERE w.revision > 0 AND l.repaired_at IS NOT NULL "
        "AND l.t0_ms < (extract(epoch FROM s.window_start) + s.window_s) * 1000 "
        "AND l.t0_ms + l.span_ms >= extract(epoch FROM s.window_start) * 1000"
    )


def insert_new(table: str, columns: Sequence[str]) -> str:
    """Staged rows into ``table``; those that are there already stay as they are."""
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged(table)} ON CONFLICT DO NOTHING"  # noqa: S608
