"""The query ``vehicles``: records of a stream -> what was found out about vehicles, by its three steps.

The stage (Arrow) gives a row a frame, Spark reads the rules over it, the operator remembers.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.streaming.state import GroupStateTimeout

from infra.contract.settings import Settings
from infra.contract.verdict import clock_limits
from stream_jobs.vehicles import history, lookups
from stream_jobs.vehicles.limits import core_limits, harsh_limits
from stream_jobs.vehicles.operator import INPUT, OUTPUT, STATE, Operator
from stream_jobs.vehicles.plugged import Detection, detection
from stream_jobs.vehicles.readings import reading_columns
from stream_jobs.vehicles.stage import RECORD, VehicleStage, signal_type, words_of
from stream_jobs.windows import WATERMARK_METADATA

ANSI: Final = "spark.sql.ansi.enabled"


def vehicle_rows(records: DataFrame, settings: Settings) -> DataFrame:
    """Records of a stream -> rows of operator.OUTPUT.

    Only timers hang on the watermark. A record that lies behind it (partitions are not read in step) is no
    less to be looked at, but Spark would drop it before the operator by its time: so the operator sees
    a column of event time, as Spark asks for, that says nothing.
    """
    plugged = detection(settings)
    received = F.timestamp_millis("received_ms")
    timed = records.select(*RECORD, received.alias("received"))
    timed = timed.withWatermark("received", f"{settings.jobs.receipt_skew_s} seconds")
    rows = read_rules(staged(timed, settings, plugged), plugged)
    bucket = F.pmod(F.xxhash64("vehicle_id"), F.lit(settings.jobs.vehicle_buckets)).cast("int")
    event_time = {WATERMARK_METADATA: settings.jobs.receipt_skew_s * 1000}
    timer = F.lit(None).cast("timestamp").alias("timer", metadata=event_time)
    keyed = rows.select(bucket.alias("bucket"), timer, *INPUT).groupBy("bucket")
    operator = Operator(core_limits(settings), plugged)
    return keyed.applyInPandasWithState(
        operator.__call__, OUTPUT, STATE, "append", GroupStateTimeout.EventTimeTimeout
    )


def staged(records: DataFrame, settings: Settings, plugged: Detection) -> DataFrame:
    """A row a frame, with the columns that rules see."""
    named = {word for rule in plugged.rules for word in rule.words()}
    words, told = words_of(named), history.words_of(named)
    lookup = lookups.vehicle_file(settings.paths.home)
    stage = VehicleStage(clock_limits(settings), harsh_limits(settings), lookup, words, told)
    return records.select(*RECORD).mapInArrow(stage.__call__, stage_type(words, told))


def read_rules(rows: DataFrame, plugged: Detection) -> DataFrame:
    """Rows of INPUT: what the rules say of each frame. Their arithmetic gives null instead of an error."""
    spark = rows.sparkSession
    ansi = spark.conf.get(ANSI)
    spark.conf.set(ANSI, "false")
    try:
        numbers, names = reading_columns(plugged)
        return rows.select(*INPUT[:-2], numbers.alias("numbers"), names.alias("names"))
    finally:
        spark.conf.set(ANSI, ansi or "true")


def stage_type(words: tuple[str, ...], told: tuple[str, ...] = ()) -> T.StructType:
    """What the stage gives."""
    fields: dict[str, T.DataType] = {
        "partition": T.IntegerType(),
        "log_offset": T.LongType(),
        "received_ms": T.LongType(),
        "vehicle_id": T.StringType(),
        "facts": T.ArrayType(T.DoubleType()),
        "runs": T.ArrayType(T.DoubleType()),
        **dict.fromkeys(lookups.COLUMNS, T.StringType()),
        **{name: from_arrow_type(signal_type(name)) for name in words},
        **dict.fromkeys(told, T.DoubleType()),
    }
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
