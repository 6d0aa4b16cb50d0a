"""The columns of a partial row: what to reduce, and how two partials of a window become one.

A ``Quantity`` is a signal or something computed from signals; a ``Part`` is one column of the partial row. To
add a measure, name its quantity and its parts in driving.py, health.py or electrics.py: the rest follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Frames, Known
from stream_jobs.windows.segments import Segments, always

How = Literal["sum", "max", "min"]
VALUE_BITS: Final = 32
"""The widest signal, the odometer, has fewer than 2^32 steps from its minimum to its maximum."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """Whole numbers out of frames, one a sample (``by_sample``) or one a frame; ``floor`` is their least."""

    name: str
    of: Callable[[Frames], Known]
    by_sample: bool
    floor: int = 0

    def known(self, frames: Frames) -> Known:
        """``of`` these frames, computed once."""
        if self.name not in frames.made:
            frames.made[self.name] = self.of(frames)
        return frames.made[self.name]


@dataclass(frozen=True, slots=True)
class Part:
    """A column of the partial row (bigint): its value by segment, and how it is combined."""

    name: str
    how: How
    of: Callable[[Segments], Known]


def signal(name: str) -> Quantity:
    """A signal in whole steps; codes count, flags are 0 or 1."""
    s = BY_NAME[name]
    floor = round(s.minimum * s.steps_per_unit)
    if s.rate == "fast":
        return Quantity(name, lambda frames: frames.fast[name], True, floor)
    return Quantity(name, lambda frames: frames.slow[name], False, floor)


def total(q: Quantity) -> Part:
    """Sum over the samples that have the value."""
    return Part(f"{q.name}_sum", "sum", lambda s: s.total(q.known(s.frames), q.by_sample))


def count(q: Quantity) -> Part:
    """Samples that have the value."""
    return Part(f"{q.name}_count", "sum", lambda s: s.count(q.known(s.frames), q.by_sample))


def largest(q: Quantity) -> Part:
    """The largest value."""
    return Part(f"{q.name}_max", "max", lambda s: s.largest(q.known(s.frames), q.by_sample))


def least(q: Quantity) -> Part:
    """The least value."""
    return Part(f"{q.name}_min", "min", lambda s: s.least(q.known(s.frames), q.by_sample))


def last(q: Quantity) -> Part:
    """The last known value, packed with its time in the window."""
    return Part(
        f"{q.name}_last", "max", lambda s: s.last(q.known(s.frames), q.by_sample, VALUE_BITS, q.floor)
    )


def first(q: Quantity) -> Part:
    """The first known of values a frame, packed as ``last`` is: the least pack is the first."""
    return Part(f"{q.name}_first", "min", lambda s: s.last(q.known(s.frames), False, VALUE_BITS, q.floor))


def time_where(name: str, holds: Callable[[Frames], tuple[Flags, Flags]]) -> Quantity:
    """Time of the samples where something holds, ms: 0 where it does not, not known where that is unknown.

    ``holds`` gives where it is known to hold and where it is known not to.
    """

    def time_ms(frames: Frames) -> Known:
        true, false = holds(frames)
        return Known(np.where(true, frames.sample_ms, 0), true | false)

    return Quantity(name, time_ms, by_sample=True)


def integral(name: str, of: Callable[[Frames], Known], by_sample: bool) -> Quantity:
    """A value times the time it stands for, step-ms."""

    def over_time(frames: Frames) -> Known:
        value = of(frames)
        return Known(value.values * (frames.sample_ms if by_sample else frames.dt_ms), value.known)

    return Quantity(name, over_time, by_sample)


COUNTS: Final = (
    Part("frames", "sum", lambda s: always(s.first.astype(np.int64))),
    Part("frames_late", "sum", lambda s: always((s.first & s.frames.late[s.of_frame]).astype(np.int64))),
    Part("samples", "sum", lambda s: always(s.samples)),
    Part("out_of_range", "sum", lambda s: always(_wrong(s))),
    Part("first_event_ms", "min", lambda s: always(s.frames.event_ms[s.begins])),
    Part("last_event_ms", "max", lambda s: always(s.last_ms)),
)
"""What every vehicle window counts."""


def _wrong(s: Segments) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Fast values out of range count each, slow ones once a frame, with its first sample."""
    fast = np.add.reduceat(s.frames.fast_wrong, s.begins)
    return fast + np.where(s.first, s.frames.slow_wrong[s.of_frame], 0)
