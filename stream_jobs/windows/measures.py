"""Exact measures of a window: partial columns combined as whole numbers, and divided once, at the end.

A measure names its parts (see columns.py) and how its value follows from them. It is null where no sample has
what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Known
from stream_jobs.windows import columns
from stream_jobs.windows.columns import VALUE_BITS, Part, Quantity

Combined = Mapping[str, Known]
"""The parts of windows by name, each of shape [n_windows]."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table of windows: ``result`` gives an array [n_windows]."""

    name: str
    parts: tuple[Part, ...]
    result: Callable[[Combined], pa.Array]

    def named(self, name: str) -> Measure:
        """The same under another name."""
        return replace(self, name=name)


def parts_of(measures: Iterable[Measure]) -> tuple[Part, ...]:
    """What the measures need, each part once."""
    return tuple({part.name: part for measure in measures for part in measure.parts}.values())


def results(measures: Iterable[Measure], combined: Combined) -> dict[str, pa.Array]:
    """The measures out of the combined parts."""
    return {measure.name: measure.result(combined) for measure in measures}


def steps_per_unit(signal: str) -> float:
    """Whole steps of ``signal`` in one of its unit."""
    return float(BY_NAME[signal].steps_per_unit)


def quotient(over: Any, under: Any, known: Any) -> pa.Array:
    """``over / under`` where ``known``, in double precision; null where not, or where ``under`` is 0."""
    divisor = np.broadcast_to(np.asarray(under, np.float64), np.shape(over))
    there = known & (divisor != 0)
    found = np.divide(over, divisor, out=np.zeros(len(there)), where=there)
    return pa.array(found, pa.float64(), mask=~there)


def mean(q: Quantity, per_unit: float) -> Measure:
    """Arithmetic mean over the samples that have the value."""
    total, count = columns.total(q), columns.count(q)

    def result(of: Combined) -> pa.Array:
        return quotient(of[total.name].values, of[count.name].values * per_unit, of[total.name].known)

    return Measure(q.name, (total, count), result)


def samples_of(q: Quantity) -> Measure:
    """How many samples a mean is over: what a roll-up weights it by."""
    return whole(columns.count(q)).named(f"{q.name}_n")


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
    return Measure(
        part.name, (part,), lambda of: quotient(of[part.name].values, per_unit, of[part.name].known)
    )


def whole(part: Part, kind: Literal["int", "double"] = "int") -> Measure:
    """One part as it is."""
    arrow = pa.int64() if kind == "int" else pa.float64()
    return Measure(
        part.name, (part,), lambda of: pa.array(of[part.name].values, mask=~of[part.name].known).cast(arrow)
    )


def moment(part: Part) -> Measure:
    """A part in ms since 1970 as a timestamp."""
    times = whole(part)
    return replace(times, result=lambda of: times.result(of).cast(pa.timestamp("ms", tz="UTC")))


def last(signal: str) -> Measure:
    """The last known value of a signal; of several at one millisecond the largest."""
    part, value = _last(signal)

    def result(of: Combined) -> pa.Array:
        steps = value(of)
        return quotient(steps.values, steps_per_unit(signal), steps.known)

    return Measure(signal, (part,), result)


def last_steps(signal: str) -> Measure:
    """The last known value of a signal in whole steps."""
    part, value = _last(signal)

    def result(of: Combined) -> pa.Array:
        steps = value(of)
        return pa.array(steps.values, mask=~steps.known)

    return Measure(signal, (part,), result)


def last_flag(signal: str) -> Measure:
    """The last known value of a flag."""
    steps = last_steps(signal)
    return replace(steps, result=lambda of: steps.result(of).cast(pa.bool_()))


def _last(signal: str) -> tuple[Part, Callable[[Combined], Known]]:
    q = columns.signal(signal)
    part = columns.last(q)

    def value(of: Combined) -> Known:
        packed = of[part.name]
        return Known((packed.values & ((1 << VALUE_BITS) - 1)) + q.floor, packed.known)

    return part, value
