"""JSON text by the table: all the texts a number can have on the wire, in cells of eight bytes.

A signal takes whole steps within a range, so its texts are known beforehand. A frame is a row of cells, each
looked up in one table; a cell is padded with NUL bytes, which no JSON text holds and which fall out at the
end. The texts come from the contract's own JSON writer, so that the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import orjson
from numpy.typing import NDArray

from edge_simulator.geo import Ints
from infra.contract.signals import Signal

CELL = 8
"""Bytes of a cell."""
GROUP = 10_000
"""Integers are written in groups of four digits."""
MICRO = 1_000_000
NULL = b"null"

Cells = NDArray[np.uint64]


class Book:
    """The table of all texts while it grows; an index into it stays what it is."""

    def __init__(self) -> None:
        self._parts: list[Cells] = []
        self._length = 0

    def add(self, cells: Cells) -> int:
        """Append cells; returns the index of the first."""
        first = self._length
        self._parts.append(cells)
        self._length += len(cells)
        return first

    def text(self, text: str) -> list[int]:
        """The cells of a constant text, as indices."""
        cells = of_text(text.encode())
        first = self.add(cells)
        return list(range(first, first + len(cells)))

    def table(self) -> Cells:
        """The whole table."""
        return np.concatenate(self._parts)


def of_text(text: bytes) -> Cells:
    """A text over as many cells as it needs."""
    n_cells = -(-len(text) // CELL)
    return np.frombuffer(text.ljust(CELL * n_cells, b"\0"), dtype=np.uint64, count=n_cells)


def of_texts(texts: Sequence[bytes], n_cells: int = 1) -> Cells:
    """One or more cells a text, one text after the other; raises ValueError for a text too long."""
    packed = np.array(texts)
    if packed.itemsize > CELL * n_cells:
        raise ValueError(f"a text of {packed.itemsize} bytes does not fit {n_cells} cells")
    return packed.astype(f"S{CELL * n_cells}").view(np.uint64)


def first_step(signal: Signal) -> int:
    """The number of the lowest step of a signal."""
    return round(signal.minimum * signal.steps_per_unit)


def step_count(signal: Signal) -> int:
    """How many steps a signal has."""
    return round(signal.maximum * signal.steps_per_unit) - first_step(signal) + 1


@cache
def of_signal(signal: Signal, before: str = "") -> Cells:
    """The texts of all steps of a signal from its lowest, and ``null`` at the end, each after ``before``."""
    steps = np.arange(step_count(signal)) + first_step(signal)
    values = steps / signal.steps_per_unit if signal.decimals else steps
    numbers = orjson.dumps(values.tolist())[1:-1].split(b",")
    lead = before.encode()
    return of_texts([lead + text for text in [*numbers, NULL]] if lead else [*numbers, NULL])


class Digits:
    """Texts of whole numbers from 0 on, four digits a cell."""

    def __init__(self, book: Book) -> None:
        plain = [b"%d" % k for k in range(GROUP)]
        self.empty = book.add(of_texts([b""]))
        self.null = book.add(of_texts([NULL]))
        self._last = book.add(of_texts(plain))
        self._first = book.add(of_texts([b"", *plain[1:]]))
        self._inner = book.add(of_texts([b"%04d" % k for k in range(GROUP)]))

    def indices(self, values: Ints, n_cells: int) -> Ints:
        """The cells of numbers >= 0 below 10000 ** ``n_cells``, highest digits first; [n_cells, n_values].

        Raises ValueError for a number that is negative or too long.
        """
        found = np.full((n_cells, len(values)), self.empty, dtype=np.int64)
        rest, lead, row = values, self._last, n_cells
        while row and (row == n_cells or rest.any()):
            row -= 1
            higher = rest // GROUP
            found[row] = rest - GROUP * higher + np.where(higher > 0, self._inner, lead)
            rest, lead = higher, self._first
        if rest.any():
            raise ValueError(f"whole numbers of 0..{GROUP**n_cells - 1} have a text, not {values.tolist()}")
        return found


class Degrees:
    """Texts of latitudes and longitudes: a cell for sign and degrees, one for the micro-degrees."""

    def __init__(self, book: Book, digits: Digits) -> None:
        self._empty, self._null = digits.empty, book.add(of_texts([b"null", b",null"]))
        whole = [b"%s%d." % (sign, d) for sign in (b"", b"-", b",", b",-") for d in range(181)]
        self._whole = book.add(of_texts(whole))
        self._micro = book.add(_fractions())
        odd = _odd_fractions()
        self._most_odd = len(odd)
        texts = [sign + text for sign in (b"", b"-", b",", b",-") for text in (b"0.0", *odd)]
        self._odd = book.add(of_texts(texts))

    def indices(self, steps: Ints, limit: int, out: Ints) -> None:
        """The cells of micro-degrees, [n_vehicles, n_samples]; ``out`` is [n_vehicles, n_samples, 2].

        All but the first sample of a row have a comma in front. A step beyond ``limit`` is null.
        """
        size = np.abs(steps)
        whole = size // MICRO
        micro = size - MICRO * whole
        kind = (steps < 0).astype(np.int64)
        kind[:, 1:] += 2
        out[..., 0] = self._whole + 181 * kind + whole
        out[..., 1] = self._micro + micro
        if size.min(initial=MICRO) <= self._most_odd:
            odd = (size <= self._most_odd) & (size > 0)
            out[odd, 0] = self._odd + (self._most_odd + 1) * kind[odd] + size[odd]
            out[odd, 1] = self._empty
        if size.max(initial=0) > limit:
            none = size > limit
            out[none, 0] = self._null + (kind[none] >= 2)
            out[none, 1] = self._empty


@cache
def _fractions() -> Cells:
    """The decimals of all micro-degrees, without the zeros at the end but for one; [MICRO]."""
    thousand = [b"%03d" % k for k in range(1000)]
    high, low = of_texts(thousand), of_texts([text.rstrip(b"0") for text in thousand])
    both = high[:, None] | (low[None, :] << np.uint64(24))
    both[:, 0] = of_texts([text.rstrip(b"0") or b"0" for text in thousand])
    return both.ravel()


def _odd_fractions() -> list[bytes]:
    """How the JSON writer writes the smallest micro-degrees, from 1 on, as long as not as plain decimals."""
    odd: list[bytes] = []
    while not (text := orjson.dumps((len(odd) + 1) / MICRO)).startswith(b"0."):
        odd.append(text)
    return odd
