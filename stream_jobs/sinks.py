"""What the queries write: batches of windows, each in one transaction with its line in the ledger.

Every write may be run again: a batch claims its line first, values are absolute, keys are natural.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from stream_jobs import statements as sql
from stream_jobs import windows
from stream_jobs.database import Connection, Database, execute, fetch, stage
from stream_jobs.roads.history_sql import mark
from stream_jobs.rollups.statements import NOTE_CHANGES
from stream_jobs.schema import EDGE_KEYS, ROAD_KEYS, WINDOW_KEYS


@dataclass(frozen=True, slots=True)
class WindowTable:
    """A table of windows, its keys and what to do where the stream meets a restated window.

    ``also`` are statements on the staged rows that belong to the same transaction.
    """

    name: str
    keys: tuple[str, ...]
    reopen: str
    also: tuple[str, ...]


VEHICLE = WindowTable(sql.VEHICLE_TABLE, WINDOW_KEYS, sql.REOPEN_VEHICLE, (sql.upsert_latest(), NOTE_CHANGES))
ROAD, EDGE = (
    WindowTable(name, keys, sql.reopen_road(name, keys), (mark(sql.staged(name)),))
    for name, keys in ((sql.ROAD_TABLE, ROAD_KEYS), (sql.EDGE_TABLE, EDGE_KEYS))
)
TABLES = (VEHICLE, ROAD, EDGE)
"""Tables of windows, in the order in which windows.split gives their rows."""


class BatchClaims:
    """The ledger lines of one query: its id is the checkpoint's, so a new checkpoint starts a new account."""

    def __init__(self, query: str, checkpoint: Path) -> None:
        self._query = query
        self._checkpoint = checkpoint

    @property
    def query_id(self) -> str:
        """The id that Spark wrote into the checkpoint at its creation."""
        return str(json.loads((self._checkpoint / "metadata").read_text())["id"])

    def claim(self, connection: Connection, batch_id: int, rows: int) -> bool:
        """Enter the batch; False where it, or a later one, is in already."""
        line = {"query_id": self.query_id, "batch_id": batch_id, "query": self._query, "rows": rows}
        return bool(fetch(connection, sql.CLAIM_BATCH, line))


class WindowSink:
    """foreachBatch writer of all tables of windows, in one transaction."""

    def __init__(self, database: Database, claims: BatchClaims) -> None:
        self._database = database
        self._claims = claims

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, whatever it takes."""
        rows = batch.toArrow()
        if rows.num_rows:
            tagged = rows.append_column("batch_id", pa.array([batch_id] * rows.num_rows, pa.int64()))
            tables = dict(zip(TABLES, windows.split(tagged, ["batch_id"]), strict=True))
            self._database.run(lambda connection: self.write(connection, tables, batch_id))

    def write(self, connection: Connection, tables: Mapping[WindowTable, pa.Table], batch_id: int) -> None:
        """The batch in the transaction at hand; nothing where the ledger has it."""
        if self._claims.claim(connection, batch_id, sum(rows.num_rows for rows in tables.values())):
            for table, rows in tables.items():
                if rows.num_rows:
                    write_windows(connection, table, rows)


def write_windows(connection: Connection, table: WindowTable, rows: pa.Table) -> None:
    """Rows of the speed layer; restated windows among them are left alone and marked for restating."""
    stage(connection, table.name, rows)
    written = execute(connection, sql.upsert(table.name, rows.column_names, table.keys))
    if written < rows.num_rows:
        execute(connection, table.reopen)
    for statement in table.also:
        execute(connection, statement)


def restate_windows(connection: Connection, table: WindowTable, rows: pa.Table) -> None:
    """Rows of the batch layer, each as the next revision of its window."""
    stage(connection, table.name, rows)
    execute(connection, sql.restate(table.name, rows.column_names, table.keys))
    for statement in table.also:
        execute(connection, statement)


def insert_progress(connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Lines of query_progress."""
    marks = ", ".join(["%s"] * len(sql.PROGRESS_COLUMNS))
    names = ", ".join(sql.PROGRESS_COLUMNS)
    statement = f"INSERT INTO odograph.query_progress ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)
