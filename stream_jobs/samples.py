"""From frames to samples: one row a sample, in event time.

Sample ``i`` of a frame was taken at ``t0_ms + i * dt_ms`` and stands for the ``dt_ms`` that follow it. It has
its own fast values and carries its frame's slow values.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import FAST, Signal
from stream_jobs.quality import in_steps, out_of_range
from stream_jobs.schema import present

POSITION: Final = ("lat_deg", "lon_deg")
WATERMARK_METADATA: Final = "spark.watermarkDelayMs"


def explode(frames: DataFrame, watermark_s: int) -> DataFrame:
    """One row a sample of ``frames`` (slow values cleaned): ``i``, ``event_ms``, ``event_time``, fast steps.

    Spark forgets that a column derived from the watermarked one still is event time, and would keep every
    window for ever; the column's metadata says it (as ``withWatermark`` would, which may stand only once).
    """
    fast = present(frames, FAST)
    indexed = frames.withColumn("i", F.explode(F.sequence(F.lit(0), (F.col("n") - 1).cast("int"))))
    values = {s.name: F.get(F.col(s.name), F.col("i")) for s in fast}
    timed = indexed.withColumns(values | {"event_ms": F.col("t0_ms") + F.col("i") * F.col("dt_ms")})
    kept = [F.col(c) for c in timed.columns if c not in values]
    event_time = F.timestamp_millis("event_ms").alias(
        "event_time", metadata={WATERMARK_METADATA: watermark_s * 1000}
    )
    wrong = reduce(add, [out_of_range(F.col(s.name), s) for s in fast], _at_nowhere())
    return timed.select(*kept, event_time, *map(_clean, fast), wrong.alias("fast_out_of_range"))


def _clean(signal: Signal) -> Column:
    steps = in_steps(F.col(signal.name), signal)
    if signal.name in POSITION:
        steps = F.when(_at_nowhere() == 0, steps)
    return steps.alias(signal.name)


def _at_nowhere() -> Column:
    """2 where both coordinates are exactly 0 (a receiver without a fix): two values that are not there."""
    nowhere = (F.col("lat_deg") == 0) & (F.col("lon_deg") == 0)
    return F.when(nowhere, 2).otherwise(0)
