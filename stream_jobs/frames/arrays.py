"""A batch of frames as arrays: values in whole steps of their signal's resolution, each known or not.

Two axes: a fast signal has a value a sample (the samples of all frames one after the other), a slow one a
value a frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import FAST, SLOW, Signal
from stream_jobs.frames.plausibility import PARTNER, by_sample, counts

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """Whole numbers and where they are known; what stands elsewhere means nothing."""

    values: Ints
    known: Flags

    def only(self, holds: Flags) -> Known:
        """Known where ``holds`` too."""
        return Known(self.values, self.known & holds)


def always(values: Ints) -> Known:
    """Values that are all known."""
    return Known(values, np.ones(len(values), np.bool_))


@dataclass(frozen=True, slots=True)
class Frames:
    """Arrays of length frames (``t0_ms`` to ``slow_wrong``) and of length samples (the others).

    ``fast_wrong`` and ``slow_wrong`` count values taken out because they cannot be; ``late`` is the verdict.
    ``made`` keeps what was computed from signals, by name: several parts want the same.
    """

    t0_ms: Ints
    dt_ms: Ints
    n: Ints
    late: Flags
    slow: Mapping[str, Known]
    slow_wrong: Ints
    of_sample: Ints
    index: Ints
    event_ms: Ints
    fast: Mapping[str, Known]
    fast_wrong: Ints
    made: dict[str, Known] = field(default_factory=dict)

    def on_samples(self, name: str) -> Known:
        """A slow signal, a value a sample."""
        slow = self.slow[name]
        return Known(slow.values[self.of_sample], slow.known[self.of_sample])

    def lowest(self, name: str) -> Known:
        """The lowest known value of a fast signal in each frame."""
        fast, begins = self.fast[name], np.flatnonzero(self.index == 0)
        values = np.where(fast.known, fast.values, np.iinfo(np.int64).max)
        return Known(np.minimum.reduceat(values, begins), np.logical_or.reduceat(fast.known, begins))

    @property
    def sample_ms(self) -> Ints:
        """The time that each sample stands for."""
        return self.dt_ms[self.of_sample]


def frames_of(table: pa.Table, late: Flags) -> Frames:
    """Frames out of ``table`` (see reading.py), whose head fields are all there and in range."""
    t0_ms, dt_ms, n = (table[name].to_numpy() for name in ("t0_ms", "dt_ms", "n"))
    of_sample = np.repeat(np.arange(len(n)), n)
    index = np.arange(len(of_sample)) - np.repeat(np.cumsum(n) - n, n)
    raw = {s.name: by_sample(table[s.name].chunk(0), n) for s in FAST}
    slow, slow_wrong = _slow(table)
    fast, fast_wrong = _fast(raw)
    event_ms = t0_ms[of_sample] + index * dt_ms[of_sample]
    return Frames(
        t0_ms, dt_ms, n, late, slow, slow_wrong, of_sample, index, event_ms, fast, fast_wrong
    )  # fmt: skip


def _fast(raw: Mapping[str, Floats]) -> tuple[dict[str, Known], Ints]:
    fast = {}
    wrong = np.zeros(len(raw[FAST[0].name]), np.int64)
    for signal in FAST:
        partner = raw.get(PARTNER.get(signal.name, ""))
        fast[signal.name], does_not_count = _steps(raw[signal.name], signal, partner)
        wrong += does_not_count
    return fast, wrong


def _slow(table: pa.Table) -> tuple[dict[str, Known], Ints]:
    slow = {}
    wrong = np.zeros(table.num_rows, np.int64)
    for signal in SLOW:
        column = table[signal.name]
        if signal.kind == "number":
            slow[signal.name], out_of_range = _steps(_floats(column), signal)
            wrong += out_of_range
        else:
            numbers = pc.list_value_length(column) if signal.kind == "codes" else column
            slow[signal.name] = _whole(numbers)
    return slow, wrong


def _steps(raw: Floats, signal: Signal, partner: Floats | None = None) -> tuple[Known, Flags]:
    """Whole steps, ties to even, and where a value is there and does not count; NaN stands for not there."""
    plausible = counts(signal.name, raw, partner)
    wrong = ~plausible & ~np.isnan(raw)
    steps = np.rint(np.where(plausible, raw, 0.0) * signal.steps_per_unit).astype(np.int64)
    return Known(steps, plausible), wrong


def _whole(column: pa.ChunkedArray) -> Known:
    values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return Known(values, pc.is_valid(column).to_numpy())


def _floats(column: pa.ChunkedArray) -> Floats:
    floats: Floats = column.to_numpy()
    return floats
