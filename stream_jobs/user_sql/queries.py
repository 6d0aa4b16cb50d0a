"""Users' queries: judged by Spark, run as streaming queries of the application, written to their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits, clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, stage
from stream_jobs.app.queries import Query
from stream_jobs.app.session import build_session
from stream_jobs.app.sinks import BatchClaims
from stream_jobs.user_sql import definition as sql
from stream_jobs.user_sql.definition import Definition, columns_of, least_watermark_s
from stream_jobs.user_sql.views import rows_of

MEMORY_MB: Final = 1024
_AT: Final = re.compile(r"\(line (\d+), pos \d+\)|line (\d+) pos \d+")
_MESSAGE_CHARS: Final = 500


def user_queries(settings: Settings, spark: SparkSession) -> tuple[Query, ...]:
    """Those of the folder in the settings, none without one; raises ConfigError where one is not sound."""
    if settings.jobs.sql_dir is None:
        return ()
    found = sql.read_folder(settings.jobs.sql_dir, least_watermark_s(settings))
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
    spark_sql = jvm.org.apache.spark.sql
    try:
        spark_sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            rows._jdf.queryExecution().analyzed(), spark_sql.streaming.OutputMode.Update()
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
        raise definition.wrong(f"it does not read the view {definition.view}")
    columns_of(definition, rows.schema)
    return rows


def _of_file(definition: Definition, error: Exception) -> ConfigError:
    """Spark's error as one of the file."""
    text = " ".join(str(error).partition("\n\n")[0].partition(";\n")[0].split())[:_MESSAGE_CHARS]
    at = _AT.search(str(error))
    return definition.wrong(text, int(at[1] or at[2]) if at else None)


def check_files(
    settings: Settings, files: Sequence[Path], conf: Mapping[str, str], *, as_json: bool
) -> Iterator[str]:
    """Judge files in a Spark with ``conf``, without services; all are read before it starts.

    What the sound ones are and their columns. Raises ConfigError at the first that is not sound.
    """
    definitions = [sql.read_file(path, least_watermark_s(settings)) for path in files]
    spark = build_session(settings, "odograph-sql-check", MEMORY_MB, "local[1]", conf)
    try:
        for d in definitions:
            columns = columns_of(d, check(spark, d, clock_limits(settings)))
            known = {"file": str(d.path), "query": d.query, "view": d.view, "table": d.table, "key": d.key}
            head = f"{d.path}: sound; table {d.table}, key ({', '.join(d.key)})"
            lines = [head, *(f"  {name:<24} {kind}" for name, kind in columns.items())]
            yield json.dumps({**known, "columns": columns}) if as_json else "\n".join(lines)
    finally:
        spark.stop()


class UserSink:
    """foreachBatch writer: a query's rows by their key, in one ledger transaction a batch.

    Makes the table where it is not there; raises ConfigError where it has other columns.
    """

    def __init__(self, definition: Definition, database: Database, claims: BatchClaims) -> None:
        self._definition, self._database, self._claims = definition, database, claims
        self._table_stands = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch."""
        definition, rows = self._definition, batch.toArrow()
        columns = columns_of(definition, batch.schema)

        def write(connection: Connection) -> None:
            if self._claims.claim(connection, batch_id, rows.num_rows):
                stage(connection, definition.table, rows)
                execute(connection, sql.upsert(definition, columns))

        if not self._table_stands:
            self._database.run(lambda connection: sql.ensure_table(connection, definition, columns))
            self._table_stands = True
        if rows.num_rows:
            refuse_doubles(definition, rows)
            self._database.run(write)


def refuse_doubles(definition: Definition, rows: pa.Table) -> None:
    """Raises ConfigError where two rows of a batch have one key: which is to stay would be chance."""
    keys = rows.select(definition.key).group_by(list(definition.key)).aggregate([])
    if keys.num_rows < rows.num_rows:
        several, key = rows.num_rows - keys.num_rows, ", ".join(definition.key)
        raise definition.wrong(
            f"`key` ({key}) does not tell rows apart: {several} of a batch are others'; "
            "add columns to it, or GROUP BY it"
        )
