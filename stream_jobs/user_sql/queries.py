"""Users' queries: judged by Spark, run as streaming queries of the application, written to their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits, clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch, stage
from stream_jobs.app.queries import Query
from stream_jobs.app.session import build_session
from stream_jobs.app.sinks import BatchClaims
from stream_jobs.user_sql.definition import (
    TABLE_COLUMNS,
    Definition,
    columns_of,
    create,
    least_watermark_s,
    read_file,
    read_folder,
    upsert,
    wrong,
)
from stream_jobs.user_sql.views import rows_of

MEMORY_MB: Final = 1024
_AT: Final = re.compile(r"\(line (\d+), pos \d+\)|line (\d+) pos \d+")
_MESSAGE_CHARS: Final = 500


def user_queries(settings: Settings, spark: SparkSession) -> tuple[Query, ...]:
    """Those of the folder in the settings, none without one; raises ConfigError where one is not sound."""
    folder = settings.jobs.sql_dir
    if folder is None:
        return ()
    found = read_folder(folder, least_watermark_s(settings))
    for definition in found:
        check(spark, definition, clock_limits(settings))
    return tuple(_query(definition) for definition in found)


def _query(definition: Definition) -> Query:
    return Query(
        name=definition.query,
        operators=definition.version,
        replaces=(),
        trigger_s=lambda s: s.jobs.trigger_s,
        max_offsets=lambda s: s.jobs.max_offsets,
        transform=lambda records, settings: _analysed(definition, records, clock_limits(settings)),
        sink=lambda parts: UserSink(definition, parts.database, parts.claims),
        may_fail=True,
    )


def check(spark: SparkSession, definition: Definition, limits: ClockLimits) -> StructType:
    """The columns that the query gives; raises ConfigError naming file, line and what is wrong.

    Spark says only at a query's start what cannot stream; here it is asked without starting one.
    """
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    records = rate.selectExpr("value AS received_ms", "cast('' AS binary) AS value")
    rows = _analysed(definition, records, limits)
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    try:
        sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            rows._jdf.queryExecution().analyzed(), sql.streaming.OutputMode.Update()
        )
    except PySparkException as error:
        raise _of_file(definition, error) from error
    return rows.schema


def _analysed(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """What the definition makes of ``records``; raises ConfigError where Spark does not accept it."""
    try:
        rows = rows_of(definition, records, limits)
    except PySparkException as error:
        raise _of_file(definition, error) from error
    if not rows.isStreaming:
        raise wrong(definition.path, None, f"it does not read the view {definition.view}")
    columns_of(definition, rows.schema)
    return rows


def _of_file(definition: Definition, error: Exception) -> ConfigError:
    """Spark's error as one of the file."""
    text = " ".join(str(error).partition("\n\n")[0].partition(";\n")[0].split())[:_MESSAGE_CHARS]
    at = _AT.search(str(error))
    return wrong(definition.path, int(at[1] or at[2]) if at else None, text)


@dataclass(frozen=True, slots=True)
class Checked:
    """A sound query and its columns."""

    definition: Definition
    columns: dict[str, str]

    def text(self) -> str:
        """For people."""
        key = ", ".join(self.definition.key)
        lines = [f"{self.definition.path}: sound; table {self.definition.table}, key ({key})"]
        return "\n".join([*lines, *(f"  {name:<24} {kind}" for name, kind in self.columns.items())])

    def json(self) -> str:
        """For machines."""
        d = self.definition
        found = {"file": str(d.path), "query": d.query, "view": d.view, "table": d.table, "key": d.key}
        return json.dumps({**found, "columns": self.columns})


def check_files(settings: Settings, files: Sequence[Path], conf: Mapping[str, str]) -> Iterator[Checked]:
    """Judge files in a Spark with ``conf``, without services; all are read before it starts.

    Raises ConfigError at the first that is not sound.
    """
    definitions = [read_file(path, least_watermark_s(settings)) for path in files]
    spark = build_session(settings, "odograph-sql-check", MEMORY_MB, "local[1]", conf)
    try:
        for definition in definitions:
            schema = check(spark, definition, clock_limits(settings))
            yield Checked(definition, columns_of(definition, schema))
    finally:
        spark.stop()


class UserSink:
    """foreachBatch writer: a query's rows by their key, in one ledger transaction a batch.

    Makes the table where it is not there; raises ConfigError where it has other columns.
    """

    def __init__(self, definition: Definition, database: Database, claims: BatchClaims) -> None:
        self._definition = definition
        self._database = database
        self._claims = claims
        self._table_stands = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch."""
        columns = columns_of(self._definition, batch.schema)
        rows = batch.toArrow()
        if not self._table_stands:
            self._database.run(lambda connection: ensure_table(connection, self._definition, columns))
            self._table_stands = True
        if rows.num_rows:
            refuse_doubles(self._definition, rows)
            self._database.run(lambda connection: self._write(connection, columns, rows, batch_id))

    def _write(self, connection: Connection, columns: dict[str, str], rows: pa.Table, batch_id: int) -> None:
        if self._claims.claim(connection, batch_id, rows.num_rows):
            stage(connection, self._definition.table, rows)
            execute(connection, upsert(self._definition, columns))


def ensure_table(connection: Connection, definition: Definition, columns: dict[str, str]) -> None:
    """Make the table from the query's columns unless it stands with these already; raises ConfigError."""
    found = dict(map(tuple, fetch(connection, TABLE_COLUMNS, {"table": definition.table})))
    if not found:
        for statement in create(definition, columns):
            execute(connection, statement)
    elif found != columns:
        stands, given = (", ".join(f"{n} {kind}" for n, kind in sorted(c.items())) for c in (found, columns))
        raise ConfigError(
            f"SQL on the stream, {definition.path}: table {definition.table} has the columns {stands}, "
            f"the query gives {given}; drop the table or give the file another name"
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
