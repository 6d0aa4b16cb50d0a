"""What the query ``telemetry`` writes: findings to the topic ``alerts``, then each batch in one transaction.

Every write may be run again: a batch claims its line in the ledger, values are absolute, keys natural.
"""

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from infra.clients.db import sql_of
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_rows, stage
from stream_jobs.app.schema import LOG, ROAD_KEYS
from stream_jobs.app.statements import Table, staged
from stream_jobs.app.telemetry import BUCKET, TABLES, table_of
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.maintenance.rollups import NOTE_CHANGES
from stream_jobs.recovery.ledger import BatchClaims
from stream_jobs.vehicles.rows import tables_of, unpack
from stream_jobs.windows.open_windows import SILENT_MS
from stream_jobs.windows.places import SHARE, place_rows

SQL: Final = sql_of(__file__)
ALERT: Final = "alert"
LATE_TABLE: Final = "odograph.late_frame"

VEHICLE = Table(
    "odograph.vehicle_window", ("vehicle_id", "window_start"), "window_start", "reopen", NOTE_CHANGES
)
ROAD, EDGE = (
    Table(f"odograph.{name}", keys, "window_start", "reopen", SQL["mark"].format(staged=staged(name)))
    for name, keys in (
        ("road_cell_window", ROAD_KEYS),
        ("road_edge_window", ("network_no", "edge_id", "window_start")),
    )
)
LATEST = Table("odograph.vehicle_latest", ("vehicle_id",), "event_time")
SHARES = Table("odograph.road_share", ("start_ms", "place", "heading_sector", "bucket"), "start_ms")


@dataclass(slots=True)
class TelemetrySink:
    """foreachBatch writer: alerts first, because they are waited for, then one transaction.

    ``topic`` is the Kafka topic that the records come from.
    """

    database: Database
    claims: BatchClaims
    alerts: TopicWriter
    topic: str
    road_window_s: int
    _mine: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.alerts.open()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.toArrow()
        found = rows.filter(pc.equal(rows["kind"], ALERT))
        self.alerts.write([(row["vehicle_id"], row["body"]) for row in found.to_pylist()])
        if rows.num_rows or not batch_id:  # the first says where the account begins, though nothing came
            self.database.run(lambda connection: self.write(connection, rows, batch_id))
            self._mine = True  # not before the commit, which may be lost and tried again

    def write(self, connection: Connection, rows: pa.Table, batch_id: int) -> None:
        """Rows of telemetry.OUTPUT in the transaction at hand; nothing where the ledger has the batch."""
        if not self.claims.claim(connection, batch_id, rows.num_rows):
            return
        kinds = rows["kind"]
        tables = {name: rows.filter(pc.equal(kinds, name)) for name in (*TABLES, BUCKET)}
        others = rows.filter(pc.invert(pc.is_in(kinds, pa.array([*tables, ALERT]))))
        found = tables_of(unpack(body) for body in others["body"].to_pylist())
        for table, columns in found.items():
            write_rows(connection, table, columns, batch_id)
        vehicle, latest, missed = (_joined(tables[name]) for name in ("vehicle", "latest", "missed"))
        if vehicle is not None:
            write_rows(connection, VEHICLE, vehicle, batch_id)
        if latest is not None:
            write_latest(connection, latest)
        if missed is not None:
            log = {LOG: self.claims.logs.get(self.topic, "")}
            told = tagged(missed, topic=self.topic, **log, deferred=True)  # to a window that was closed
            insert_rows(connection, LATE_TABLE, told)
        self._write_places(connection, tables["shares"], tables[BUCKET], batch_id)

    def _write_places(
        self, connection: Connection, shares: pa.Table, buckets: pa.Table, batch_id: int
    ) -> None:
        query = {"query_id": self.claims.query_id}
        if not self._mine:
            execute(connection, SQL["forget_shares"], query)
        moved = execute(connection, SQL["note_buckets"], query | buckets.to_pydict())
        if shares.num_rows:
            of_buckets = (tagged(table_of(row["body"]), bucket=row["bucket"]) for row in shares.to_pylist())
            told = pa.concat_tables(of_buckets)
            stage(connection, SHARES.name, told)
            execute(connection, SHARES.put(told.column_names))
            columns = zip(*fetch(connection, SQL["sum_shares"]), strict=True)
            sums = pa.table([pa.array(column, pa.int64()) for column in columns], schema=SHARE)
            for table, of in zip((ROAD, EDGE), place_rows(sums, self.road_window_s), strict=True):
                if of.num_rows:
                    write_rows(connection, table, of, batch_id)
        if moved:
            execute(connection, SQL["close_shares"], {"margin_ms": SILENT_MS})


def _joined(rows: pa.Table) -> pa.Table | None:
    return pa.concat_tables(map(table_of, rows["body"].to_pylist())) if rows.num_rows else None


def write_rows(connection: Connection, table: Table, rows: pa.Table, batch_id: int) -> None:
    """Absolute values by natural keys; what the batch layer restated stays, and is looked at again."""
    if not table.reopen:
        insert_rows(connection, table.name, rows)
        return
    rows = tagged(rows, batch_id=batch_id)
    stage(connection, table.name, rows)
    if execute(connection, table.upsert(rows.column_names)) < rows.num_rows:
        execute(connection, table.reopen_late())
    if table.also:
        execute(connection, table.also)


def write_latest(connection: Connection, rows: pa.Table) -> None:
    """Rows of odograph.vehicle_latest; a newer one that is there stays."""
    stage(connection, LATEST.name, rows)
    statement = LATEST.put((*rows.column_names, "updated_at"), ("now()",))
    execute(connection, f"{statement} WHERE excluded.event_time >= vehicle_latest.event_time")


def tagged(rows: pa.Table, **values: str | int) -> pa.Table:
    """``rows`` with more columns, of one value each."""
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows
