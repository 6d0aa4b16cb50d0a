"""Exact measures of a window: partial columns combined as bigint, and divided once, at the end.

A measure names its parts (see partials/columns.py) and how its value follows from them. It is null where no
sample has what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME
from stream_jobs.partials import columns
from stream_jobs.partials.columns import VALUE_BITS, Part, Quantity

_COMBINE: Final[dict[columns.How, Callable[[str], Column]]] = {"sum": F.sum, "max": F.max, "min": F.min}


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table of windows."""

    name: str
    parts: tuple[Part, ...]
    result: Callable[[], Column]

    def named(self, name: str) -> Measure:
        """The same under another name."""
        return replace(self, name=name)


def parts_of(measures: Iterable[Measure]) -> tuple[Part, ...]:
    """What the measures need, each part once."""
    return tuple({part.name: part for measure in measures for part in measure.parts}.values())


def combined(parts: Iterable[Part]) -> list[Column]:
    """The parts of a group's partials as one."""
    return [_COMBINE[part.how](part.name).alias(part.name) for part in parts]


def results(measures: Iterable[Measure]) -> list[Column]:
    """The measures out of the combined parts."""
    return [measure.result().alias(measure.name) for measure in measures]


def steps_per_unit(signal: str) -> float:
    """Whole steps of ``signal`` in one of its unit."""
    return float(BY_NAME[signal].steps_per_unit)


def mean(q: Quantity, per_unit: float) -> Measure:
    """Arithmetic mean over the samples that have the value."""
    total, count = columns.total(q), columns.count(q)
    return Measure(q.name, (total, count), lambda: F.col(total.name) / (F.col(count.name) * per_unit))


def samples_of(q: Quantity) -> Measure:
    """How many samples a mean is over: what a roll-up weights it by."""
    return whole(columns.count(q), "int").named(f"{q.name}_n")


def mean_of(signal: str) -> Measure:
    """The mean of a signal."""
    return mean(columns.signal(signal), steps_per_unit(signal))


def largest(signal: str) -> Measure:
    """The largest value of a signal."""
    return divided(columns.largest(columns.signal(signal)), steps_per_unit(signal))


def least(signal: str) -> Measure:
    """The least value of a signal."""
    return divided(columns.least(columns.signal(signal)), steps_per_unit(signal))


def divided(part: Part, per_unit: float) -> Measure:
    """One part over a constant."""
    return Measure(part.name, (part,), lambda: F.col(part.name) / per_unit)


def whole(part: Part, kind: str) -> Measure:
    """One part as it is, as a column of this type."""
    return Measure(part.name, (part,), lambda: F.col(part.name).cast(kind))


def moment(part: Part) -> Measure:
    """A part in ms since 1970 as a timestamp."""
    return Measure(part.name, (part,), lambda: F.timestamp_millis(part.name))


def last(signal: str) -> Measure:
    """The last known value of a signal; of several at one millisecond the largest."""
    steps = last_steps(signal)
    return replace(steps, result=lambda: steps.result() / steps_per_unit(signal))


def last_steps(signal: str) -> Measure:
    """The last known value of a signal in whole steps."""
    q = columns.signal(signal)
    part = columns.last(q)
    return Measure(signal, (part,), lambda: F.col(part.name).bitwiseAND((1 << VALUE_BITS) - 1) + q.floor)


def last_flag(signal: str) -> Measure:
    """The last known value of a flag."""
    steps = last_steps(signal)
    return replace(steps, result=lambda: steps.result().cast("boolean"))
