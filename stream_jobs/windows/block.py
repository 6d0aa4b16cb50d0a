"""Windows of many vehicles that begin at one moment, as matrices: a row a part, a column a vehicle.

What frames add to a window is one matrix operation for all vehicles: sums, the larger or smaller values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Flags, Frames, Ints, Known, run_begins
from stream_jobs.windows.vehicle import HOW, PARTS, VALUE_BITS, How, Kind

NEUTRAL: Final[dict[How, int]] = {
    "sum": 0, "max": np.iinfo(np.int64).min, "min": np.iinfo(np.int64).max,
}  # fmt: skip
COMBINE: Final[dict[How, np.ufunc]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
_BY_HOW: Final = {how: [part for part in PARTS if HOW[part.kind] == how] for how in NEUTRAL}
_AT: Final[dict[str, tuple[How, int]]] = {
    part.name: (how, row) for how, parts in _BY_HOW.items() for row, part in enumerate(parts)
}
_QUANTITIES: Final = {part.quantity.name: part.quantity for part in PARTS if not part.quantity.by_sample}
_PLACE: Final = {name: place for place, name in enumerate(_QUANTITIES)}
_OF_FRAMES: Final[dict[Kind, tuple[Ints, Ints]]] = {
    kind: (np.array([_PLACE[p.quantity.name] for p in some]), np.array([_AT[p.name][1] for p in some]))
    for kind in HOW
    for some in [[p for p in PARTS if p.kind == kind and not p.quantity.by_sample]]
}
"""Of the parts that a frame has one value of: places in _QUANTITIES, and rows of the matrices."""
_FLOORS: Final = np.array([q.floor for q in _QUANTITIES.values()])
_OF_SAMPLES: Final = [part for part in PARTS if part.quantity.by_sample]


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of n windows: a matrix [parts, n] for each way to combine, in the order of ``PARTS``.

    What is not known is the neutral value; whether a sum is known, ``known`` says ([sums, n]).
    """

    of: dict[How, Ints]
    known: Flags

    def __getitem__(self, name: str) -> Known:
        """A part by its name, [n]."""
        how, row = _AT[name]
        values = self.of[how][row]
        return Known(values, self.known[row] if how == "sum" else values != NEUTRAL[how])

    @classmethod
    def joined(cls, parts: "Sequence[Parts]") -> "Parts":
        if len(parts) == 1:
            return parts[0]
        of = {how: np.hstack([each.of[how] for each in parts]) for how in NEUTRAL}
        return cls(of, np.hstack([each.known for each in parts]))

    def take(self, at: Any) -> "Parts":
        """Those at the places ``at``, or where it holds."""
        return Parts({how: matrix[:, at] for how, matrix in self.of.items()}, self.known[:, at])

    def reduced(self, begins: Ints) -> "Parts":
        """One for each run of columns, which begin there."""
        if len(begins) == self.known.shape[1]:
            return self
        of = {how: COMBINE[how].reduceat(matrix, begins, axis=1) for how, matrix in self.of.items()}
        return Parts(of, np.logical_or.reduceat(self.known, begins, axis=1))


def cut(frames: Frames, window_ms: int) -> tuple[Ints, Ints]:
    """Where runs of samples of one frame that go to one window begin, and when that does, ms: each run, a
    segment, becomes a partial row. Samples of a frame are in order of event time.
    """
    start_ms = frames.event_ms - frames.event_ms % window_ms
    begins = run_begins(frames.of_sample, start_ms)
    return begins, start_ms[begins]


def parts_of(frames: Frames, begins: Ints, window_ms: int) -> Parts:
    """The parts of the segments that begin there. Those of which a frame has one value are made at once, the
    others over the samples of each segment.
    """
    count, of_frame = len(begins), frames.of_sample[begins]
    parts = Parts(
        {how: np.empty((len(each), count), np.int64) for how, each in _BY_HOW.items()},
        np.ones((len(_BY_HOW["sum"]), count), np.bool_),
    )
    samples = np.diff(begins, append=len(frames.of_sample))
    quantities = [q.known(frames) for q in _QUANTITIES.values()]
    values = np.stack([each.values for each in quantities])[:, of_frame]
    known = np.stack([each.known for each in quantities])[:, of_frame]
    last_ms = frames.event_ms[begins + samples - 1] % window_ms << VALUE_BITS
    for kind, (places, rows) in _OF_FRAMES.items():
        there = known[places]
        if kind == "count":
            made = np.where(there, samples, 0)
        elif kind == "sum":
            made = np.where(there, values[places] * samples, 0)
            parts.known[rows] = there
        else:
            made = values[places] if kind in NEUTRAL else last_ms + values[places] - _FLOORS[places, None]
            made = np.where(there, made, NEUTRAL[HOW[kind]])
        parts.of[HOW[kind]][rows] = made
    for part in _OF_SAMPLES:
        (how, row), found = _AT[part.name], part.quantity.known(frames)
        of_sample = found.known.astype(np.int64) if part.kind == "count" else found.values
        if part.kind in ("first", "last"):
            of_sample = (frames.event_ms % window_ms << VALUE_BITS) + (of_sample - part.quantity.floor)
        if part.kind != "count" and not found.known.all():
            of_sample = np.where(found.known, of_sample, NEUTRAL[how])
            if part.kind == "sum":
                parts.known[row] = np.logical_or.reduceat(found.known, begins)
        parts.of[how][row] = COMBINE[how].reduceat(of_sample, begins)
    return parts


def enrolled(vehicles: pa.StringArray, more: pa.StringArray) -> tuple[pa.StringArray, Ints]:
    """``vehicles`` with those of ``more`` that are not among them at the end; where ``more`` stand there."""
    found = pc.index_in(more, value_set=vehicles)
    at: Ints = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    new = at < 0
    if not new.any():
        return vehicles, at
    at[new] = len(vehicles) + np.arange(new.sum())
    return pa.concat_arrays([vehicles, more.filter(pa.array(new))]), at


@dataclass(slots=True)
class Block:
    """The windows that begin at one moment; ``changed``: which were not given out since they changed."""

    vehicles: pa.StringArray
    parts: Parts
    changed: Flags

    def add(self, vehicles: pa.StringArray, more: Parts) -> Ints:
        """Combine with ``more`` of ``vehicles``, which are all different; where they stand now."""
        count = len(self.vehicles)
        self.vehicles, at = enrolled(self.vehicles, vehicles)
        old = at < count
        known = more if old.all() else more.take(old)
        for how, matrix in self.parts.of.items():
            matrix[:, at[old]] = COMBINE[how](matrix[:, at[old]], known.of[how])
        self.parts.known[:, at[old]] |= known.known
        if known is not more:
            new = more.take(~old)
            self.parts = Parts.joined([self.parts, new])
            self.changed = np.append(self.changed, np.ones(len(at) - old.sum(), np.bool_))
        self.changed[at] = True
        return at

    def part(self, chosen: Callable[[str], bool]) -> "Block":
        """The windows of the ``chosen`` vehicles."""
        at = np.flatnonzero([*map(chosen, self.vehicles.to_pylist())])
        return Block(self.vehicles.take(pa.array(at)), self.parts.take(at), self.changed[at])
