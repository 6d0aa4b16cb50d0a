"""A batch of frames as arrays: values in whole steps of their signal's resolution, each known or not.

Two axes: a fast signal has a value a sample (of all frames one after the other), a slow one a value a frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import FAST, SLOW
from infra.contract.verdict import LATE, OK
from stream_jobs.frames.plausibility import PARTNER, POSITION, by_sample, counts, strays

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """Whole numbers and where they are known; what stands elsewhere means nothing."""

    values: Ints
    known: Flags

    def only(self, holds: Flags) -> "Known":
        return Known(self.values, self.known & holds)

    def above(self, limit: int) -> "Known":
        """1 where they are above it, else 0."""
        return Known((self.values > limit).astype(np.int64), self.known)

    def __abs__(self) -> "Known":
        return Known(np.abs(self.values), self.known)

    def __add__(self, other: "Known") -> "Known":
        return Known(self.values + other.values, self.known & other.known)

    def __sub__(self, other: "Known") -> "Known":
        return Known(self.values - other.values, self.known & other.known)

    def __mul__(self, other: "Known | Ints | Flags | int") -> "Known":
        if isinstance(other, Known):
            return Known(self.values * other.values, self.known & other.known)
        return Known(self.values * other, self.known)


def always(values: Ints) -> Known:
    """Values that are all known."""
    return Known(values, np.ones(len(values), np.bool_))


def run_begins(*keys: npt.NDArray[Any]) -> Ints:
    """Where runs of neighbours with equal ``keys`` begin; ``keys``: columns of one length."""
    return np.flatnonzero(np.logical_or.reduce([np.diff(k, prepend=k[:1] - 1) != 0 for k in keys]))


@dataclass(frozen=True, slots=True)
class Frames:
    """The readable frames of a batch of records, in their order; times in ms since 1970.

    Arrays of length frames (``vehicles`` to ``slow_wrong``) and of length samples (the others). ``table``:
    the contract's fields as they came (reading.FRAME_SCHEMA). ``ok``, ``late``: the verdict. ``slow``,
    ``fast``: signals in whole steps; ``slow_wrong``, ``fast_wrong``: how many values were taken out because
    they cannot be.
    ``made`` keeps what was computed from signals, by name: several parts want the same.
    """

    table: pa.Table
    vehicles: pa.StringArray
    partition: Ints
    log_offset: Ints
    received_ms: Ints
    ok: Flags
    late: Flags
    boot_id: Ints
    seq: Ints
    t0_ms: Ints
    dt_ms: Ints
    n: Ints
    slow: Mapping[str, Known]
    slow_wrong: Ints
    of_sample: Ints
    index: Ints
    event_ms: Ints
    fast: Mapping[str, Known]
    fast_wrong: Ints
    made: dict[str, Known] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ok)

    @property
    def believed(self) -> Flags:
        return self.ok | self.late

    @property
    def sample_ms(self) -> Ints:
        return self.dt_ms[self.of_sample]

    def on_samples(self, name: str) -> Known:
        """A slow signal, a value a sample."""
        slow = self.slow[name]
        return Known(slow.values[self.of_sample], slow.known[self.of_sample])

    def lowest(self, name: str) -> Known:
        fast, begins = self.fast[name], np.flatnonzero(self.index == 0)
        values = np.where(fast.known, fast.values, np.iinfo(np.int64).max)
        return Known(np.minimum.reduceat(values, begins), np.logical_or.reduceat(fast.known, begins))


def frames_of(
    table: pa.Table, verdict: npt.NDArray[np.str_], partition: Ints, log_offset: Ints, received_ms: Ints
) -> Frames:
    """Frames out of ``table`` (see reading.py), whose head fields are all there and in range."""
    boot_id, seq, t0_ms, dt_ms, n = (
        table[name].to_numpy() for name in ("boot_id", "seq", "t0_ms", "dt_ms", "n")
    )
    of_sample = np.repeat(np.arange(len(n)), n)
    index = np.arange(len(of_sample)) - np.repeat(np.cumsum(n) - n, n)
    raw = {s.name: by_sample(table[s.name].chunk(0), n) for s in FAST}
    holds = {name: counts(name, values, raw.get(PARTNER.get(name, ""))) for name, values in raw.items()}
    lat, lon = (np.where(holds[name], raw[name], np.nan) for name in POSITION)
    jumps = strays(lat, lon, n, dt_ms)
    if jumps.any():
        holds |= {name: holds[name] & ~jumps[of_sample] for name in POSITION}
    fast, fast_wrong = {}, np.zeros(len(index), np.int64)
    for signal in FAST:
        fast[signal.name], wrong = _steps(raw[signal.name], holds[signal.name], signal.steps_per_unit)
        fast_wrong += wrong
    numbers = np.stack([table[signal.name].to_numpy() for signal in _NUMBERS])
    plausible = (numbers >= _LOW) & (numbers <= _HIGH)
    steps, slow_wrong = _steps(numbers, plausible, _STEPS)
    slow = {s.name: Known(steps.values[k], plausible[k]) for k, s in enumerate(_NUMBERS)}
    for signal in SLOW:
        if signal.kind != "number":
            column = table[signal.name]
            whole = pc.list_value_length(column) if signal.kind == "codes" else column
            values = pc.fill_null(whole.cast(pa.int64()), 0).to_numpy()
            slow[signal.name] = Known(values, pc.is_valid(column).to_numpy())
    event_ms = t0_ms[of_sample] + index * dt_ms[of_sample]
    return Frames(
        table, table["vehicle_id"].combine_chunks(), partition, log_offset, received_ms, verdict == OK,
        verdict == LATE, boot_id, seq, t0_ms, dt_ms, n, slow, slow_wrong.sum(axis=0), of_sample, index,
        event_ms, fast, fast_wrong,
    )  # fmt: skip


_NUMBERS: Final = tuple(signal for signal in SLOW if signal.kind == "number")
_LOW, _HIGH, _STEPS = (
    np.array([[limit] for limit in limits])
    for limits in zip(*((s.minimum, s.maximum, s.steps_per_unit) for s in _NUMBERS), strict=True)
)
"""Of slow numbers, to judge all at once as ``Signal.holds`` does one; [n, 1]."""


def _steps(raw: Floats, plausible: Flags, per_unit: Any) -> tuple[Known, Flags]:
    """Whole steps, ties to even, and where a value is there and does not count; NaN stands for not there."""
    steps = np.rint(np.where(plausible, raw, 0.0) * per_unit).astype(np.int64)
    return Known(steps, plausible), ~plausible & ~np.isnan(raw)
