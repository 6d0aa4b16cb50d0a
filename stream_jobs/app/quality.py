"""Frames by Spark, for the real-time queries: parse, judge the clock.

A verdict compares the payload with the receive time of its own record and nothing else, so it is the same in
the stream, in a batch and in a replay years later.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.types import StructType

from infra.contract.verdict import CLOCK_AHEAD, CLOCK_UNSET, LATE, OK, UNREADABLE, ClockLimits
from stream_jobs.app.schema import HEAD
from stream_jobs.frames.batch import RANGES, VIN

_STRICT_JSON: Final = {"mode": "PERMISSIVE", "allowNonNumericNumbers": "false"}


def parse(records: DataFrame, schema: StructType) -> DataFrame:
    """Records with the fields of ``schema`` out of ``value``; all null where that is no JSON object.

    A head field outside the contract's range is null too: no arithmetic on it can overflow later. So is the
    vehicle of what lies under another vehicle's ``key``: it is nobody's.
    """
    parsed = F.from_json(F.col("value").cast("string"), schema, _STRICT_JSON)
    others = [c for c in records.columns if c != "value"]
    # The array of one is a fence: without it the optimizer copies the parsing into every later filter.
    fenced = records.select(*others, F.explode(F.array(parsed)).alias("frame"))
    return fenced.select(*others, *(_field(name) for name in schema.fieldNames()))


def _field(name: str) -> Column:
    value = F.col("frame").getField(name)
    if name == "vehicle_id":
        return F.when(value.rlike(VIN) & (value == F.col("key").cast("string")), value).alias(name)
    if name not in RANGES:
        return value.alias(name)
    low, high = RANGES[name]
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
