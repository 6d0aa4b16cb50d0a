"""The views that a user's SELECT reads: ``frames``, a row a frame, and ``samples``, a row a sample.

Both hold frames with verdict ok, each identity once; ``event_time`` carries the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME, SIGNALS
from infra.contract.verdict import OK, ClockLimits
from stream_jobs.app.quality import drop_copies
from stream_jobs.app.schema import WATERMARK_METADATA, frame_schema
from stream_jobs.frames.batch import in_range, verdicts
from stream_jobs.frames.plausibility import POSITION, by_sample, plausible_columns
from stream_jobs.frames.reading import FRAME_SCHEMA, HEAD_SCHEMA, read
from stream_jobs.rules.sql_guard import foreign_relation, query_objection
from stream_jobs.user_sql.definition import Definition

HEAD: Final = ("vehicle_id", "boot_id", "seq", "t0_ms", "dt_ms", "n")
SIGNAL_NAMES: Final = tuple(signal.name for signal in SIGNALS)


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
