"""Where the rows of the query go: findings to the topic ``alerts``, all the rest into tables."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stream_jobs.sinks import BatchClaims, Connection, Database
from stream_jobs.vehicles.alert_log import AlertLog

ALERT: Final = "alert"


class VehicleSink:
    """foreachBatch writer: alerts first, because they are waited for, then one transaction."""

    def __init__(self, database: Database, claims: BatchClaims, alerts: AlertLog) -> None:
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
        self._claims.claim(connection, batch_id, rows.num_rows)
