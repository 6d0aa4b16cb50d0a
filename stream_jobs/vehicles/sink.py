"""Where the rows of the query go: findings to the topic ``alerts``, all the rest into tables."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stream_jobs import statements as sql
from stream_jobs.database import Connection, Database, execute, insert_rows, stage
from stream_jobs.sinks import BatchClaims
from stream_jobs.topic_writer import TopicWriter
from stream_jobs.vehicles.rows import unpack
from stream_jobs.vehicles.tables import RowTable, tables_of

ALERT: Final = "alert"


class VehicleSink:
    """foreachBatch writer: alerts first, because they are waited for, then one transaction."""

    def __init__(self, database: Database, claims: BatchClaims, alerts: TopicWriter) -> None:
        self._database = database
        self._claims = claims
        self._alerts = alerts

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, whatever it takes."""
        rows = batch.toArrow()
        if not rows.num_rows:
            return
        of_alerts = pc.equal(rows["kind"], ALERT)
        found = rows.filter(of_alerts)
        keys, bodies = (found[name].to_pylist() for name in ("vehicle_id", "body"))
        self._alerts.write(list(zip(keys, bodies, strict=True)))
        others = rows.filter(pc.invert(of_alerts))
        if others.num_rows:
            self._database.run(lambda connection: self.write(connection, others, batch_id))

    def write(self, connection: Connection, rows: pa.Table, batch_id: int) -> None:
        """The batch in the transaction at hand; nothing where the ledger has it."""
        if self._claims.claim(connection, batch_id, rows.num_rows):
            found = tables_of(unpack(body) for body in rows["body"].to_pylist())
            for table, columns in found.items():
                write_rows(connection, table, columns, batch_id)


def write_rows(connection: Connection, table: RowTable, rows: pa.Table, batch_id: int) -> None:
    """Rows of the stream: absolute values by natural keys; what the batch layer restated stays, and is looked
    at again, because the stream has something new to say of it.
    """
    if not table.restated:
        insert_rows(connection, table.name, rows)
        return
    tagged = rows.append_column("batch_id", pa.array([batch_id] * rows.num_rows, pa.int64()))
    stage(connection, table.name, tagged)
    written = execute(connection, sql.upsert(table.name, tagged.column_names, table.keys))
    if written < rows.num_rows:
        execute(connection, REOPEN, {"vehicles": rows["vehicle_id"].unique().to_pylist()})


REOPEN: Final = """
UPDATE odograph.journey_behind SET repaired_at = NULL
WHERE vehicle_id = ANY(%(vehicles)s) AND repaired_at > now() - INTERVAL '1 day'
"""
