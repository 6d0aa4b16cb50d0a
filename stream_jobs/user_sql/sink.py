"""foreachBatch writer of a user's query: its rows by their key, in one ledger transaction a batch."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from infra.contract.errors import ConfigError
from stream_jobs.app.database import Connection, Database, execute, fetch, stage
from stream_jobs.app.sinks import BatchClaims
from stream_jobs.user_sql import table
from stream_jobs.user_sql.definition import Definition, wrong


class UserSink:
    """Makes the table where it is not there; raises ConfigError where it has other columns."""

    def __init__(self, definition: Definition, database: Database, claims: BatchClaims) -> None:
        self._definition = definition
        self._database = database
        self._claims = claims
        self._table_stands = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch."""
        columns = table.columns_of(self._definition, batch.schema)
        rows = batch.toArrow()
        if not self._table_stands:
            self._database.run(lambda connection: ensure_table(connection, self._definition, columns))
            self._table_stands = True
        if rows.num_rows:
            refuse_doubles(self._definition, rows)
            self._database.run(lambda connection: self._write(connection, columns, rows, batch_id))

    def _write(self, connection: Connection, columns: dict[str, str], rows: pa.Table, batch_id: int) -> None:
        if self._claims.claim(connection, batch_id, rows.num_rows):
            stage(connection, table.table_of(self._definition), rows)
            execute(connection, table.upsert(self._definition, columns))


def ensure_table(connection: Connection, definition: Definition, columns: dict[str, str]) -> None:
    """The table, made from the query's columns unless it stands with these already; raises ConfigError."""
    name = table.table_of(definition)
    found = dict(map(tuple, fetch(connection, table.TABLE_COLUMNS, {"table": name})))
    if not found:
        for statement in table.create(definition, columns):
            execute(connection, statement)
    elif found != columns:
        raise ConfigError(
            f"SQL on the stream, {definition.path}: table {name} has the columns {_told(found)}, "
            f"the query gives {_told(columns)}; drop the table or give the file another name"
        )


def refuse_doubles(definition: Definition, rows: pa.Table) -> None:
    """Raises ConfigError where two rows of a batch have one key: which is to stay would be chance."""
    keys = rows.select(definition.key).group_by(list(definition.key)).aggregate([])
    if keys.num_rows < rows.num_rows:
        several = rows.num_rows - keys.num_rows
        reason = (
            f"`key` ({', '.join(definition.key)}) does not tell rows apart: {several} of a batch are others'"
        )
        raise wrong(definition.path, None, f"{reason}; add columns to it, or GROUP BY it")


def _told(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in sorted(columns.items()))
