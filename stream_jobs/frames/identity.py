"""From records to frames and visits with their partial rows: the only step where stream and batch differ."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.verdict import OK, ClockLimits
from stream_jobs.partials.rows import KEYS
from stream_jobs.partials.stage import Stage
from stream_jobs.schema import COORDINATES, IDENTITY, KEPT, SEEN
from stream_jobs.windows import PARTS, Lengths, event_time

UNIQUE: Final = (*IDENTITY, "visit_ms")
"""What tells frames and visits apart; a frame's ``visit_ms`` is null, in a stream's rows 0."""
_ARCHIVED: Final[dict[str, T.DataType]] = {
    "verdict": T.StringType(),
    "topic": T.StringType(),
    "partition": T.IntegerType(),
    "log_offset": T.LongType(),
}


def stream_frames(records: DataFrame, limits: ClockLimits, lengths: Lengths) -> DataFrame:
    """Frames and visits of a stream that go into windows: verdict ok, each identity once.

    A frame is remembered for the watermark's delay, a visit so long after its window's end.
    """
    stage = Stage(lengths.window_s * 1000, lengths.road_window_s * 1000, limits, roads=lengths.roads)
    frames = records.select("received_ms", "value").mapInArrow(stage.__call__, frame_type())
    timed = frames.withColumn("t0_time", F.timestamp_millis("t0_ms"))
    seen = timed.withWatermark("t0_time", f"{lengths.watermark_s} seconds").observe(
        SEEN, F.count(F.when(F.col("visit_ms").isNull(), 1)).alias("frames")
    )
    visited_until = F.timestamp_millis(F.col("visit_ms") + lengths.road_window_s * 1000)
    rows = seen.select(
        *UNIQUE[:-1],
        F.coalesce("visit_ms", F.lit(0)).alias("visit_ms"),
        F.coalesce(visited_until, "t0_time").alias("until", metadata=event_time(lengths.watermark_s)),
        "partials",
    )
    once = rows.dropDuplicatesWithinWatermark(list(UNIQUE))
    return once.observe(KEPT, F.count(F.when(F.col("visit_ms") == 0, 1)).alias("frames"))


def batch_frames(records: DataFrame, lengths: Lengths) -> DataFrame:
    """Frames and visits of archived ``records``, ok or late: each identity once.

    Of copies of a frame it is the first ok one, if there is one.

    The verdict is the archived one, that is the one that the stream acted on.
    """
    windows_ms = lengths.window_s * 1000, lengths.road_window_s * 1000
    stage = Stage(*windows_ms, kept=tuple(_ARCHIVED), roads=lengths.roads)
    frames = records.select(*_ARCHIVED, "value").mapInArrow(stage.__call__, frame_type(_ARCHIVED))
    order = [(F.col("verdict") != OK), *map(F.col, COORDINATES)]
    copy = F.row_number().over(Window.partitionBy(*UNIQUE).orderBy(*order))
    return frames.withColumn("copy", copy).where("copy = 1").drop("copy")


def frame_type(kept: Mapping[str, T.DataType] = MappingProxyType({})) -> T.StructType:
    """What a Stage gives: the columns it keeps, the identity and the partial rows."""
    partial = T.StructType([T.StructField(name, T.LongType()) for name in (*KEYS, *(p.name for p in PARTS))])
    fields: dict[str, T.DataType] = {
        **kept,
        "vehicle_id": T.StringType(),
        "boot_id": T.LongType(),
        "seq": T.LongType(),
        "t0_ms": T.LongType(),
        "visit_ms": T.LongType(),
        "partials": T.ArrayType(partial),
    }
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
