"""Measures of a window: quantities out of frames, what is kept of them, and the one division at the end.

A ``Quantity`` is a signal or follows from signals; a ``Part`` is what a window keeps of it: a whole number,
so that parts combine exactly, in any order; a ``Measure`` is a column of the table. It is null where no
sample has what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Frames, Known

Kind = Literal["sum", "count", "max", "min", "first", "last"]
How = Literal["sum", "max", "min"]
HOW: Final[dict[Kind, How]] = {
    "sum": "sum", "count": "sum", "max": "max", "last": "max", "min": "min", "first": "min",
}  # fmt: skip
"""How parts of each kind combine: the first and the last value are packed behind their times."""
VALUE_BITS: Final = 32
"""The widest signal, the odometer, has fewer than 2^32 steps from its minimum to its maximum."""
LOW_BITS: Final = (1 << VALUE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Quantity:
    """Whole numbers out of frames, one a sample (``by_sample``) or one a frame.

    ``per_unit``: steps in a unit of the measure; ``floor``: the least value.
    """

    name: str
    of: Callable[[Frames], Known]
    by_sample: bool
    per_unit: float = 1.0
    floor: int = 0

    def known(self, frames: Frames) -> Known:
        """``of`` these frames, computed once."""
        if self.name not in frames.made:
            frames.made[self.name] = self.of(frames)
        return frames.made[self.name]


@dataclass(frozen=True, slots=True)
class Part:
    """What a window keeps of a quantity: over its samples that have it the sum, their count, and so on."""

    kind: Kind
    quantity: Quantity

    @property
    def name(self) -> str:
        return f"{self.quantity.name}_{self.kind}"


class Combined(Protocol):
    """The parts of windows by name, each of shape [n_windows]."""

    def __getitem__(self, name: str) -> Known: ...


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table of windows: ``result`` gives an array [n_windows]."""

    name: str
    parts: tuple[Part, ...]
    result: Callable[[Combined], pa.Array]


def steps(signal: str, value: float = 1.0) -> int:
    """``value`` in whole steps of a signal."""
    return round(value * BY_NAME[signal].steps_per_unit)


@cache
def quantity(signal: str) -> Quantity:
    """A signal in whole steps; codes count, flags are 0 or 1."""
    s = BY_NAME[signal]
    floor, per_unit = steps(signal, s.minimum), float(s.steps_per_unit)
    if s.rate == "fast":
        return Quantity(signal, lambda frames: frames.fast[signal], True, per_unit, floor)
    return Quantity(signal, lambda frames: frames.slow[signal], False, per_unit, floor)


def time_where(name: str, holds: Callable[[Frames], tuple[Flags, Flags]]) -> Quantity:
    """Time of the samples where something holds: 0 where it does not, not known where that is unknown.

    ``holds`` gives where it is known to hold and where it is known not to. The measure is in s.
    """

    def time_ms(frames: Frames) -> Known:
        true, false = holds(frames)
        return Known(np.where(true, frames.sample_ms, 0), true | false)

    return Quantity(name, time_ms, by_sample=True, per_unit=1000.0)


def integral(name: str, of: Callable[[Frames], Known], by_sample: bool, per_unit: float = 1.0) -> Quantity:
    """A value times the time it stands for, step-ms."""

    def over_time(frames: Frames) -> Known:
        return of(frames) * (frames.sample_ms if by_sample else frames.dt_ms)

    return Quantity(name, over_time, by_sample, per_unit)


def quotient(over: Any, under: Any, known: Any) -> pa.Array:
    """``over / under`` where ``known``, in double precision; null where not, or where ``under`` is 0."""
    divisor = np.broadcast_to(np.asarray(under, np.float64), np.shape(over))
    there = known & (divisor != 0)
    found = np.divide(over, divisor, out=np.zeros(len(there)), where=there)
    return pa.array(found, pa.float64(), mask=~there)


def mean(name: str, of: str | Quantity) -> Measure:
    """Arithmetic mean over the samples that have the value."""
    total, count = part("sum", of), part("count", of)
    per_unit = total.quantity.per_unit

    def result(w: Combined) -> pa.Array:
        whole = w[total.name]
        return quotient(whole.values, w[count.name].values * per_unit, whole.known)

    return Measure(name, (total, count), result)


def scaled(name: str, kind: Kind, of: str | Quantity) -> Measure:
    """One part in the unit of the measure."""
    only = part(kind, of)

    def result(w: Combined) -> pa.Array:
        return quotient(w[only.name].values, only.quantity.per_unit, w[only.name].known)

    return Measure(name, (only,), result)


def whole(name: str, kind: Kind, of: str | Quantity, arrow: pa.DataType | None = None) -> Measure:
    """One part as it is, cast to ``arrow``."""
    only = part(kind, of)

    def result(w: Combined) -> pa.Array:
        found = pa.array(w[only.name].values, mask=~w[only.name].known)
        return found if arrow is None else found.cast(arrow)

    return Measure(name, (only,), result)


def last(name: str, signal: str = "", arrow: pa.DataType | None = None) -> Measure:
    """The last known value of a signal; of several at one millisecond the largest.

    In its unit, or with ``arrow`` in whole steps, cast to that. No ``signal``: that of the name.
    """
    only = part("last", signal or name)
    q = only.quantity

    def result(w: Combined) -> pa.Array:
        packed = w[only.name]
        values = (packed.values & LOW_BITS) + q.floor
        if arrow is None:
            return quotient(values, q.per_unit, packed.known)
        return pa.array(values, mask=~packed.known).cast(arrow)

    return Measure(name, (only,), result)


def part(kind: Kind, of: str | Quantity) -> Part:
    """What is kept of a quantity, or of a signal."""
    return Part(kind, quantity(of) if isinstance(of, str) else of)
