"""Users' queries: judged by Spark, run as streaming queries of the application, written to their tables.

The views that they read are ``frames``, a row a frame, and ``samples``, a row a sample. Both hold frames with
verdict ok, each identity once; ``event_time`` carries the watermark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME, SIGNALS
from infra.contract.verdict import OK, ClockLimits, clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, stage
from stream_jobs.app.quality import drop_copies
from stream_jobs.app.queries import Query
from stream_jobs.app.schema import WATERMARK_METADATA, frame_schema
from stream_jobs.app.session import build_session
from stream_jobs.app.sinks import BatchClaims
from stream_jobs.frames.batch import in_range, verdicts
from stream_jobs.frames.plausibility import POSITION, by_sample, plausible_columns
from stream_jobs.frames.reading import FRAME_SCHEMA, HEAD_SCHEMA, read
from stream_jobs.rules.sql_guard import foreign_relation, query_objection
from stream_jobs.user_sql import definition as sql
from stream_jobs.user_sql.definition import Definition, columns_of, least_watermark_s

MEMORY_MB: Final = 1024
_AT: Final = re.compile(r"\(line (\d+), pos \d+\)|line (\d+) pos \d+")
_MESSAGE_CHARS: Final = 500
HEAD: Final = ("vehicle_id", "boot_id", "seq", "t0_ms", "dt_ms", "n")
SIGNAL_NAMES: Final = tuple(signal.name for signal in SIGNALS)


def user_queries(settings: Settings, spark: SparkSession) -> tuple[Query, ...]:
    """Those of the folder in the settings, none without one; raises ConfigError where one is not sound."""
    folder = settings.jobs.sql_dir
    found = () if folder is None else sql.read_folder(folder, least_watermark_s(settings))
    for definition in found:
        check(spark, definition, clock_limits(settings))
    return tuple(_query(definition) for definition in found)


def _query(definition: Definition) -> Query:
    def transform(records: DataFrame, settings: Settings) -> DataFrame:
        return _analysed(definition, records, clock_limits(settings))

    return Query(
        name=definition.query, operators=definition.version, replaces=(), may_fail=True, transform=transform,
        trigger_s=lambda s: s.jobs.trigger_s, max_offsets=lambda s: s.jobs.max_offsets,
        sink=lambda parts: UserSink(definition, parts.database, parts.claims),
    )  # fmt: skip


def check(spark: SparkSession, definition: Definition, limits: ClockLimits) -> T.StructType:
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


def rows_of(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """What the definition makes of ``records`` (received_ms, value).

    Raises Spark's errors, and ConfigError for a statement that is more than one SELECT over the view; nothing
    of it has run then.
    """
    spark = records.sparkSession
    objection = query_objection(spark, definition.statement, definition.view)
    if objection is not None:
        raise definition.wrong(objection.reason, objection.line)
    view(definition, records, limits).createOrReplaceTempView(definition.view)
    rows = spark.sql(definition.statement)
    foreign = foreign_relation(rows, definition.view)
    if foreign is not None:
        raise definition.wrong(f"it reads {foreign} besides the view {definition.view}")
    return rows


def view(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """The definition's view with the signals that it reads: of samples fast ones by sample, slow ones
    repeated.

    Spark forgets that a time computed from the watermarked one is event time: its metadata says so.
    """
    signals = definition.reads(SIGNAL_NAMES)
    schema = frame_schema([BY_NAME[name] for name in signals])
    received_ms = T.StructField("received_ms", T.LongType())
    fields = [*(schema[name] for name in HEAD), received_ms, *(schema[name] for name in signals)]
    stage = FrameStage(signals, limits)
    frames = records.select("received_ms", "value").mapInArrow(stage.__call__, T.StructType(fields))
    once = drop_copies(frames, definition.watermark_s)
    received_at = F.timestamp_millis("received_ms").alias("received_at")
    if definition.view == "frames":
        return once.select(F.col("t0_time").alias("event_time"), received_at, *HEAD, *signals)
    fast, slow = ([name for name in signals if BY_NAME[name].rate == rate] for rate in ("fast", "slow"))
    index = F.sequence(F.lit(0), F.col("n").cast("int") - 1).alias("sample")
    rows = once.select("received_ms", *HEAD, *slow, F.inline(F.arrays_zip(index, *fast)))
    event_time = F.timestamp_millis(F.col("t0_ms") + F.col("sample") * F.col("dt_ms"))
    return rows.select(
        event_time.alias("event_time", metadata={WATERMARK_METADATA: definition.watermark_s * 1000}),
        received_at, "vehicle_id", "boot_id", "seq", "sample", "dt_ms", *signals,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FrameStage:
    """In Python workers: records to frames with verdict ok. Out of range is null, and so is position 0, 0.

    A fast signal is an array of as many values as the frame has samples.
    """

    signals: tuple[str, ...]
    limits: ClockLimits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row a frame."""
        return (self.frames(batch) for batch in batches)

    def frames(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of one batch of records."""
        asked = {*self.signals, *(POSITION if set(POSITION) & set(self.signals) else ())}
        schema = pa.schema([*HEAD_SCHEMA, *(FRAME_SCHEMA.field(name) for name in sorted(asked))])
        table = in_range(read(batch.column("value"), schema))
        verdict = verdicts(table, batch.column("received_ms").to_numpy(), self.limits)
        chosen = pa.array(verdict == OK)
        table = table.filter(chosen).combine_chunks()
        columns = {name: table[name].combine_chunks() for name in HEAD}
        columns["received_ms"] = batch.column("received_ms").filter(chosen)
        n = table["n"].to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(n)]), pa.int32())
        for name in self.signals:
            column = plausible_columns(table, (name,))[name]
            if BY_NAME[name].rate == "fast":
                values = by_sample(column, n)
                of_samples = pa.array(values, pa.float64(), mask=np.isnan(values))
                column = pa.ListArray.from_arrays(offsets, of_samples)
            columns[name] = column
        return pa.RecordBatch.from_pydict(columns)


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
