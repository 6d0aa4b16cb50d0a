"""From records to frames fit for aggregation: parse, judge the clock, drop copies, take out what cannot be.

A verdict compares the payload with the receive time of its own record and nothing else, so it is the same in
the stream, in a batch and in a replay years later.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.types import StructType

from infra.contract.frame import MAX_DT_MS, MAX_INT, MAX_SAMPLES
from infra.contract.signals import SLOW, Signal
from infra.contract.verdict import CLOCK_AHEAD, CLOCK_UNSET, LATE, OK, UNREADABLE, ClockLimits
from stream_jobs.schema import HEAD, IDENTITY, present

_HEAD_RANGES: Final = {
    "boot_id": (0, MAX_INT),
    "seq": (0, MAX_INT),
    "t0_ms": (0, MAX_INT),
    "dt_ms": (1, MAX_DT_MS),
    "n": (1, MAX_SAMPLES),
}
_STRICT_JSON: Final = {"mode": "PERMISSIVE", "allowNonNumericNumbers": "false"}


def parse(records: DataFrame, schema: StructType) -> DataFrame:
    """Records with the fields of ``schema`` out of ``value``; all null where that is no JSON object.

    A head field outside the contract's range is null too: no arithmetic on it can overflow later.
    """
    parsed = F.from_json(F.col("value").cast("string"), schema, _STRICT_JSON)
    others = [c for c in records.columns if c != "value"]
    # The array of one is a fence: without it the optimizer copies the parsing into every later filter.
    fenced = records.select(*others, F.explode(F.array(parsed)).alias("frame"))
    return fenced.select(*others, *(_field(name) for name in schema.fieldNames()))


def _field(name: str) -> Column:
    value = F.col("frame").getField(name)
    if name not in _HEAD_RANGES:
        return value.alias(name)
    low, high = _HEAD_RANGES[name]
    return F.when(value.between(low, high), value).alias(name)


def with_verdict(frames: DataFrame, limits: ClockLimits) -> DataFrame:
    """Frames with ``span_ms``, from first to last sample, and ``verdict``, the first that fits."""
    readable = reduce(lambda a, b: a & b, (F.col(name).isNotNull() for name in HEAD))
    span_ms = (F.col("n") - 1) * F.col("dt_ms")
    behind_ms = F.col("received_ms") - F.col("t0_ms")
    verdict = (
        F.when(~readable, UNREADABLE)
        .when(F.col("t0_ms") < limits.floor_ms, CLOCK_UNSET)
        .when(-behind_ms + span_ms > limits.ahead_ms, CLOCK_AHEAD)
        .when(behind_ms > limits.lateness_ms, LATE)
        .otherwise(OK)
    )
    return frames.withColumns({"span_ms": span_ms, "verdict": verdict})


def drop_copies(frames: DataFrame, watermark_s: int) -> DataFrame:
    """Frames of a stream, each identity once; the watermark on ``t0_time`` only bounds what is remembered."""
    timed = frames.withColumn("t0_time", F.timestamp_millis("t0_ms"))
    return timed.withWatermark("t0_time", f"{watermark_s} seconds").dropDuplicatesWithinWatermark(
        list(IDENTITY)
    )


def in_steps(value: Column, signal: Signal) -> Column:
    """``value`` as whole steps of the signal's resolution, ties to even; null where it is out of range."""
    plausible = value.between(signal.minimum, signal.maximum)
    return F.when(plausible, F.rint(value * signal.steps_per_unit).cast("bigint"))


def out_of_range(value: Column, signal: Signal) -> Column:
    """1 where the value is there and outside its signal's plausible range, else 0."""
    return F.when(~value.between(signal.minimum, signal.maximum), 1).otherwise(0)


def clean_slow(frames: DataFrame) -> DataFrame:
    """Frames whose slow numbers are whole steps, with ``slow_out_of_range`` counting what was taken out.

    ``dtc_count`` takes the place of the trouble codes.
    """
    slow = present(frames, SLOW)
    numbers = [s for s in slow if s.kind == "number"]
    wrong = [out_of_range(F.col(s.name), s) for s in numbers]
    columns = {s.name: in_steps(F.col(s.name), s) for s in numbers}
    columns["slow_out_of_range"] = reduce(add, wrong, F.lit(0))
    codes = [s.name for s in slow if s.kind == "codes"]
    if codes:
        columns["dtc_count"] = reduce(add, (F.size(name) for name in codes))
    return frames.withColumns(columns).drop(*codes)
