"""From records to frames with their partial rows: the only step where stream and batch differ."""

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
from stream_jobs.quality import drop_copies
from stream_jobs.schema import IDENTITY
from stream_jobs.windows import PARTS, Lengths

_ARCHIVED: Final = {"verdict": T.StringType(), "partition": T.IntegerType(), "log_offset": T.LongType()}


def stream_frames(records: DataFrame, limits: ClockLimits, lengths: Lengths) -> DataFrame:
    """Frames of a stream that go into windows: verdict ok, each identity once."""
    stage = Stage(lengths.window_s * 1000, lengths.road_window_s * 1000, limits, roads=lengths.roads)
    frames = records.select("received_ms", "value").mapInArrow(stage.__call__, frame_type())
    return drop_copies(frames, lengths.watermark_s)


def batch_frames(records: DataFrame, lengths: Lengths) -> DataFrame:
    """Frames of archived ``records``, ok or late: each identity once, its first ok copy if there is one.

    The verdict is the archived one, that is the one that the stream acted on.
    """
    windows_ms = lengths.window_s * 1000, lengths.road_window_s * 1000
    stage = Stage(*windows_ms, kept=tuple(_ARCHIVED), roads=lengths.roads)
    frames = records.select(*_ARCHIVED, "value").mapInArrow(stage.__call__, frame_type(_ARCHIVED))
    order = [(F.col("verdict") != OK), F.col("partition"), F.col("log_offset")]
    copy = F.row_number().over(Window.partitionBy(*IDENTITY).orderBy(*order))
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
        "partials": T.ArrayType(partial),
    }
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
