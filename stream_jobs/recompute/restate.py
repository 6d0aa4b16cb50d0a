"""Staged rows of the batch layer into the tables of windows, where they are not stored just so."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs import statements as sql
from stream_jobs.database import Connection, execute, stage
from stream_jobs.sinks import WindowTable, follow_up


def stage_to_compare(connection: Connection, table: str, rows: pa.Table) -> None:
    """``rows`` staged, and known to the planner, for statements that join them with what is stored."""
    stage(connection, table, rows)
    execute(connection, f"ANALYZE {sql.staged(table)}")


def restate_staged(connection: Connection, table: WindowTable, rows: pa.Table) -> int:
    """Staged ``rows`` of the batch layer where they are not stored just so; how many were restated."""
    if not rows.num_rows:
        return 0
    times = pc.min_max(rows["window_start"]).as_py()
    bounds = {"since": times["min"], "until": times["max"]}
    execute(connection, sql.leave_equal(table.name, rows.column_names, table.keys, "window_start"), bounds)
    restated = execute(connection, sql.restate(table.name, rows.column_names, table.keys))
    if restated:
        follow_up(connection, table, rows)
    return restated
