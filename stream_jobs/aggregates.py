"""Exact aggregates over whole steps: everything is summed or compared as bigint and divided once, at the end.

Each function gives one output column over the samples of a group; null when no sample has the value.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME

_VALUE_BITS: Final = 32
"""The widest signal, the odometer, has fewer than 2^32 steps from its minimum to its maximum."""


def steps_per_unit(signal: str) -> float:
    """Whole steps of ``signal`` in one of its unit."""
    return float(BY_NAME[signal].steps_per_unit)


def in_unit(steps: Column, signal: str) -> Column:
    """Whole steps of ``signal`` in its unit."""
    return steps / steps_per_unit(signal)


def mean(signal: str, per_unit: float | None = None) -> Column:
    """Arithmetic mean over the samples that have the value."""
    return F.sum(signal) / (F.count(signal) * (per_unit or steps_per_unit(signal)))


def largest(signal: str) -> Column:
    """The largest value."""
    return in_unit(F.max(signal), signal)


def least(signal: str, only: Column | None = None) -> Column:
    """The least value, of the samples where ``only`` holds."""
    value = F.col(signal) if only is None else F.when(only, F.col(signal))
    return in_unit(F.min(value), signal)


def seconds(dt_where: Column) -> Column:
    """Time of the samples, s, out of their ``dt_ms`` (0 where it does not count, null where unknown)."""
    return F.sum(dt_where) / 1000.0


def last(name: str, window_ms: int, floor_steps: int = 0) -> Column:
    """Steps of the last sample that has ``name``; of several at the same millisecond the largest.

    Time in the window and value are packed into one bigint, so that the newest is a plain maximum: a maximum
    over structs would make Spark sort the samples.
    """
    offset_ms = F.col("event_ms") % window_ms
    packed = F.shiftleft(offset_ms, _VALUE_BITS) + (F.col(name).cast("bigint") - floor_steps)
    return F.max(packed).bitwiseAND((1 << _VALUE_BITS) - 1) + floor_steps


def last_value(signal: str, window_ms: int) -> Column:
    """The last known value of a number, in its unit."""
    return in_unit(last_steps(signal, window_ms), signal)


def last_steps(signal: str, window_ms: int) -> Column:
    """The last known value of a number, in whole steps."""
    s = BY_NAME[signal]
    return last(signal, window_ms, round(s.minimum * s.steps_per_unit))
