"""The cut of a batch's samples into segments: runs of samples of one frame that go to the same place.

A segment is what becomes one partial row. Samples of a frame are in order of time, so the runs are contiguous
and numpy reduces them all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from stream_jobs.frames.arrays import Flags, Frames, Ints, Known

LEAST: Final = np.iinfo(np.int64).min
MOST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Segments:
    """Segments of ``frames``: the sample that each begins at, and the start of its window.

    Reductions take values by sample (``by_sample``) or by frame, and give one a segment; known where any is.
    """

    frames: Frames
    begins: Ints
    start_ms: Ints
    window_ms: int

    @cached_property
    def samples(self) -> Ints:
        """Samples in each segment."""
        return np.diff(self.begins, append=len(self.frames.of_sample))

    @cached_property
    def of_frame(self) -> Ints:
        """The frame of each segment."""
        return self.frames.of_sample[self.begins]

    @cached_property
    def first(self) -> Flags:
        """Whether a segment holds the first sample of its frame."""
        first: Flags = self.frames.index[self.begins] == 0
        return first

    @cached_property
    def last_ms(self) -> Ints:
        """Time of each segment's last sample."""
        last_ms: Ints = self.frames.event_ms[self.begins + self.samples - 1]
        return last_ms

    def total(self, value: Known, by_sample: bool) -> Known:
        """Sum over the samples."""
        if by_sample:
            return self._reduced(np.add, value, 0)
        of_frame = self.of_frames(value)
        return Known(of_frame.values * self.samples, of_frame.known)

    def count(self, value: Known, by_sample: bool) -> Known:
        """Samples that have the value."""
        if by_sample:
            counts = np.add.reduceat(value.known, self.begins, dtype=np.int64)
        else:
            counts = np.where(value.known[self.of_frame], self.samples, 0)
        return always(counts)

    def largest(self, value: Known, by_sample: bool) -> Known:
        """The largest value."""
        return self._reduced(np.maximum, value, LEAST) if by_sample else self.of_frames(value)

    def least(self, value: Known, by_sample: bool) -> Known:
        """The least value."""
        return self._reduced(np.minimum, value, MOST) if by_sample else self.of_frames(value)

    def last(self, value: Known, by_sample: bool, value_bits: int, floor: int) -> Known:
        """The last known value and its time in the window, packed so that the later one is the larger."""
        if by_sample:
            offset_ms = self.frames.event_ms % self.window_ms
            return self.largest(Known((offset_ms << value_bits) + (value.values - floor), value.known), True)
        offset_ms, of_frame = self.last_ms % self.window_ms, self.of_frames(value)
        return Known((offset_ms << value_bits) + (of_frame.values - floor), of_frame.known)

    def any(self, holds: Flags) -> Flags:
        """Whether it holds for any sample."""
        return np.logical_or.reduceat(holds, self.begins)

    def of_frames(self, value: Known) -> Known:
        """A value a frame as a value a segment."""
        return Known(value.values[self.of_frame], value.known[self.of_frame])

    def _reduced(self, operation: Any, value: Known, neutral: int) -> Known:
        if value.known.all():
            return always(operation.reduceat(value.values, self.begins))
        values = np.where(value.known, value.values, neutral)
        return Known(operation.reduceat(values, self.begins), self.any(value.known))


def always(values: Ints) -> Known:
    """Values that are all known."""
    return Known(values, np.ones(len(values), np.bool_))


def cut(frames: Frames, window_ms: int) -> Segments:
    """Segments of one frame in one window of event time."""
    start_ms = frames.event_ms - frames.event_ms % window_ms
    begins = np.flatnonzero((frames.index == 0) | (np.diff(start_ms, prepend=-1) != 0))
    return Segments(frames, begins, start_ms[begins], window_ms)
