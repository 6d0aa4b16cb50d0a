"""Windows of many vehicles that begin at one moment, as matrices: a row a part, a column a vehicle.

What frames add to a window is one matrix operation for all vehicles: sums add up, the larger or the smaller
one stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Flags, Ints, Known
from stream_jobs.windows.columns import How, Part
from stream_jobs.windows.measures import Combined
from stream_jobs.windows.segments import LEAST, MOST, Segments
from stream_jobs.windows.tables import PARTS

_NEUTRAL: Final[dict[How, int]] = {"sum": 0, "max": LEAST, "min": MOST}
_ADD: Final[dict[How, np.ufunc]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
_BY_HOW: Final[dict[How, tuple[Part, ...]]] = {
    how: tuple(part for part in PARTS if part.how == how) for how in _NEUTRAL
}
CODEC: Final[Literal["lz4"]] = "lz4"


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of n windows: a matrix [parts, n] for each way to combine, in the order of ``PARTS``.

    What is not known is the neutral value; whether a sum is known, ``known`` says ([sums, n]).
    """

    of: dict[How, Ints]
    known: Flags

    def take(self, at: Any) -> Parts:
        """Those at the places ``at``, or where it holds."""
        return Parts({how: matrix[:, at] for how, matrix in self.of.items()}, self.known[:, at])

    def reduced(self, begins: Ints) -> Parts:
        """One for each run of columns, which begin there."""
        of = {how: _ADD[how].reduceat(matrix, begins, axis=1) for how, matrix in self.of.items()}
        return Parts(of, np.logical_or.reduceat(self.known, begins, axis=1))

    def add(self, at: Ints, more: Parts) -> None:
        """Combine ``more`` with those at the places ``at``, which are all different."""
        for how, matrix in self.of.items():
            matrix[:, at] = _ADD[how](matrix[:, at], more.of[how])
        self.known[:, at] |= more.known

    def joined(self, more: Parts) -> Parts:
        """These, then ``more``."""
        of = {how: np.concatenate([matrix, more.of[how]], axis=1) for how, matrix in self.of.items()}
        return Parts(of, np.concatenate([self.known, more.known], axis=1))

    def combined(self) -> Combined:
        """By name of the part."""
        found = {part.name: Known(*both) for part, *both in zip(_BY_HOW["sum"], self.of["sum"], self.known)}  # noqa: B905
        for how in ("max", "min"):
            for part, values in zip(_BY_HOW[how], self.of[how], strict=True):
                found[part.name] = Known(values, values != _NEUTRAL[how])
        return found


def parts_of(segments: Segments) -> Parts:
    """The parts of each segment."""
    of = {how: np.empty((len(parts), len(segments.begins)), np.int64) for how, parts in _BY_HOW.items()}
    known = np.empty(of["sum"].shape, np.bool_)
    for how, parts in _BY_HOW.items():
        for row, part in enumerate(parts):
            value = part.of(segments)
            of[how][row] = np.where(value.known, value.values, _NEUTRAL[how])
            if how == "sum":
                known[row] = value.known
    return Parts(of, known)


def enrolled(vehicles: pa.StringArray, more: pa.StringArray) -> tuple[pa.StringArray, Ints]:
    """``vehicles`` with those of ``more`` that are not among them at the end; where ``more`` stand there."""
    found = pc.index_in(more, value_set=vehicles)
    new = pc.is_null(found).to_numpy(zero_copy_only=False)
    at: Ints = pc.fill_null(found, 0).to_numpy().astype(np.int64)
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
        new = at >= count
        self.parts.add(at[~new], more.take(~new))
        if new.any():
            self.parts = self.parts.joined(more.take(new))
            self.changed = np.append(self.changed, np.ones(new.sum(), np.bool_))
        self.changed[at] = True
        return at


def block_of(vehicles: pa.StringArray, parts: Parts) -> Block:
    """A block of what was not there before."""
    return Block(vehicles, parts, np.ones(len(vehicles), np.bool_))


def dump_block(block: Block) -> bytes:
    """The block as bytes."""
    arrays = [*(block.parts.of[how] for how in _NEUTRAL), block.parts.known, block.changed]
    return dump_arrays(block.vehicles.to_pylist(), arrays)


def load_block(raw: bytes) -> Block:
    """The block that ``dump_block`` made bytes of."""
    names, arrays = load_arrays(raw)
    count = len(names)
    of = {
        how: np.frombuffer(each, np.int64).reshape(-1, count).copy()
        for how, each in zip(_NEUTRAL, arrays[:3], strict=True)
    }
    known = np.frombuffer(arrays[3], np.bool_).reshape(-1, count).copy()
    return Block(pa.array(names, pa.string()), Parts(of, known), np.frombuffer(arrays[4], np.bool_).copy())


class _Arrays(msgspec.Struct, array_like=True):
    names: str
    arrays: list[bytes]


_DECODER: Final = msgspec.msgpack.Decoder(_Arrays)


def dump_arrays(names: Sequence[str], arrays: Iterable[np.ndarray[Any, Any]]) -> bytes:
    """Vehicles and arrays, compressed: most of the numbers are small."""
    plain = msgspec.msgpack.encode(_Arrays("\n".join(names), [each.tobytes() for each in arrays]))
    squeezed: bytes = pa.compress(plain, CODEC, asbytes=True)
    return len(plain).to_bytes(4, "little") + squeezed


def load_arrays(raw: bytes) -> tuple[list[str], list[bytes]]:
    """What ``dump_arrays`` was given; there is at least one vehicle."""
    plain = pa.decompress(raw[4:], int.from_bytes(raw[:4], "little"), CODEC, asbytes=True)
    found = _DECODER.decode(plain)
    return found.names.split("\n"), found.arrays
