"""From records to judged frames, for the stream and for a batch: the only step where they differ."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import Signal
from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.quality import drop_copies, parse, with_verdict
from stream_jobs.schema import IDENTITY, frame_schema


def stream_frames(
    records: DataFrame, limits: ClockLimits, watermark_s: int, signals: Collection[Signal]
) -> DataFrame:
    """Frames of a stream that go into windows: verdict ok, each identity once."""
    judged = with_verdict(parse(records.select("received_ms", "value"), frame_schema(signals)), limits)
    return drop_copies(judged.where(F.col("verdict") == OK).drop("received_ms"), watermark_s)


def batch_frames(records: DataFrame, signals: Collection[Signal]) -> DataFrame:
    """Frames of archived ``records``: each identity once, its first ok copy if there is one.

    The verdict is the archived one, that is the one that the stream acted on.
    """
    coordinates = ("partition", "log_offset", "verdict", "value")
    usable = records.where(F.col("verdict").isin(OK, LATE)).select(*coordinates)
    parsed = parse(usable, frame_schema(signals))
    order = [(F.col("verdict") != OK), F.col("partition"), F.col("log_offset")]
    copy = F.row_number().over(Window.partitionBy(*IDENTITY).orderBy(*order))
    return parsed.withColumn("copy", copy).where("copy = 1").drop("copy")
