"""Windows by vehicle: the columns of odograph.vehicle_window but those that the sink fills."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import FAST, SLOW
from infra.contract.verdict import LATE
from stream_jobs import driving, health
from stream_jobs.quality import clean_slow
from stream_jobs.samples import explode

SIGNALS: Final = (*FAST, *SLOW)
"""All of them: every value is checked against its range."""


def samples_of(frames: DataFrame, watermark_s: int) -> DataFrame:
    """Samples of judged frames with all that a vehicle window needs."""
    marked = frames.withColumn("frame_late", (F.col("verdict") == LATE).cast("int"))
    return explode(health.with_derived(clean_slow(marked)), watermark_s)


def vehicle_windows(samples: DataFrame, window_s: int) -> DataFrame:
    """One row a vehicle and window of event time."""
    window_ms = window_s * 1000
    grouped = samples.groupBy("vehicle_id", F.window("event_time", f"{window_s} seconds"))
    measured = grouped.agg(
        *_counts(), *driving.measures(), *health.measures(), *driving.last_known(window_ms)
    )
    rest = [c for c in measured.columns if c not in ("vehicle_id", "window")]
    start = F.col("window.start").alias("window_start")
    return measured.select("vehicle_id", start, F.lit(window_s).alias("window_s"), *rest)


def _counts() -> list[Column]:
    first = F.col("i") == 0
    slow_wrong = F.when(first, F.col("slow_out_of_range")).otherwise(0)
    return [
        F.sum(first.cast("int")).cast("int").alias("frames"),
        F.sum(F.when(first, F.col("frame_late")).otherwise(0)).cast("int").alias("frames_late"),
        F.count(F.lit(1)).cast("int").alias("samples"),
        F.sum(F.col("fast_out_of_range") + slow_wrong).cast("int").alias("out_of_range"),
        F.timestamp_millis(F.min("event_ms")).alias("first_event"),
        F.timestamp_millis(F.max("event_ms")).alias("last_event"),
    ]
