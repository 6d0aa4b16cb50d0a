"""Where what stands in a frame: the row of cells of one kind of powertrain, keys in the contract's order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge_simulator.geo import Ints
from edge_simulator.scenario import SAMPLES
from edge_simulator.telemetry.sensors import Steps
from edge_simulator.telemetry.texts import Book, Degrees, Digits, first_step, of_signal, of_texts, step_count
from infra.contract import frame
from infra.contract.signals import FAST, SLOW, Signal

NUMBERS: tuple[Signal, ...] = tuple(s for s in SLOW if s.kind == "number")
FLAGS: tuple[str, ...] = tuple(s.name for s in SLOW if s.kind == "flag")
GEO = ("lat_deg", "lon_deg")
END = b"\n"
"""Between two frames; no JSON text of ours holds it."""
NO_CODES = b"[]}"
"""A frame's last bytes when there is no trouble code."""
LONGEST_TABLE = 200_000
"""A signal of more steps than this is written digit by digit."""
INT_CELLS = 4
LONG_CELLS = 3


class Shelf:
    """The texts that all kinds of frames share; those of a signal are added when it is asked for."""

    def __init__(self, vehicle_ids: Sequence[str]) -> None:
        self.book = Book()
        self.digits = Digits(self.book)
        self.degrees = Degrees(self.book, self.digits)
        self.flags = self.book.add(of_texts([b"false", b"true"]))
        self.id_cells = max(-(-len(name) // 8) for name in vehicle_ids)
        self.ids = self.book.add(of_texts([name.encode() for name in vehicle_ids], self.id_cells))
        self._signals: dict[tuple[str, str], int] = {}

    def signal(self, signal: Signal, before: str = "") -> int:
        """Where the text of a signal's step 0 is or would be, with ``before`` in front."""
        key = (signal.name, before)
        if key not in self._signals:
            self._signals[key] = self.book.add(of_signal(signal, before)) - first_step(signal)
        return self._signals[key]


class Layout:
    """One kind of frame; ``absent`` names the slow signals it has not. No engine: its speed is null."""

    def __init__(self, shelf: Shelf, absent: frozenset[str], has_engine: bool) -> None:
        self._shelf = shelf
        self._row: list[int] = []
        self._text = ""
        self._head()
        self._fast(has_engine)
        present = [s for s in NUMBERS if s.name not in absent]
        self._slow([s for s in present if s.decimals > 0] + [s for s in present if s.decimals == 0])
        self._flags = np.array([self._value(name, 1).start for name in FLAGS])
        self._text += ',"dtc_codes":' + (NO_CODES + END).decode()
        self._space(0)
        self.row = np.array(self._row, dtype=np.int64)

    def head(self, out: Ints, vehicles: Ints, numbers: Sequence[Ints]) -> None:
        """Fill in vehicles (places among all) and the head's integers, [n_frames or 1, INT_CELLS] each."""
        n_cells = self._shelf.id_cells
        out[:, self._id] = self._shelf.ids + n_cells * vehicles[:, None] + np.arange(n_cells)
        for columns, cells in zip(self._integers, numbers, strict=True):
            out[:, columns] = cells

    def samples(self, out: Ints, steps: Steps) -> None:
        """Fill in the fast signals; ``steps`` is [SAMPLES, n_signals, n_frames]."""
        for signal, columns, bases in self._plain:
            np.add(steps[:, signal].T, bases, out=out[:, columns])
        for signal, columns, limit in self._places:
            cells = out[:, columns].reshape(len(out), SAMPLES, 2)
            self._shelf.degrees.indices(steps[:, signal].T.astype(np.int64), limit, cells)

    def values(self, out: Ints, steps: Ints, flags: Ints) -> None:
        """Fill in the slow signals and the flags; [len(NUMBERS), n_frames] and [len(FLAGS), n_frames]."""
        out[:, self._slow_columns] = (steps[self._slow_rows] + self._slow_bases).T
        for signal, columns in self._long:
            self._long_number(out, steps[signal], columns, step_count(NUMBERS[signal]))
        out[:, self._flags] = (self._shelf.flags + flags).T

    def _long_number(self, out: Ints, values: Ints, columns: slice, count: int) -> None:
        digits = self._shelf.digits
        known = values < count
        out[:, columns] = digits.indices(np.where(known, values, 0), LONG_CELLS).T
        if not known.all():
            out[~known, columns] = digits.empty
            out[~known, columns.start] = digits.null

    def _head(self) -> None:
        self._text = f'{{"schema":{frame.SCHEMA},"vehicle_id":"'
        self._id = self._space(self._shelf.id_cells)
        self._text += '"'
        boot, seq, t0, dt = (self._value(name, INT_CELLS) for name in ("boot_id", "seq", "t0_ms", "dt_ms"))
        self._text += f',"n":{SAMPLES}'
        self._integers = (boot, seq, t0, dt, self._value("sent_ms", INT_CELLS))

    def _fast(self, has_engine: bool) -> None:
        self._plain: list[tuple[int, slice, Ints]] = []
        self._places: list[tuple[int, slice, int]] = []
        for k, signal in enumerate(FAST):
            self._text += f',"{signal.name}":'
            if signal.name == "engine_rpm" and not has_engine:
                self._text += "null"
                continue
            self._text += "["
            if signal.name in GEO:
                limit = round(signal.maximum * signal.steps_per_unit)
                self._places.append((k, self._space(2 * SAMPLES), limit))
            else:
                bases = np.full(SAMPLES, self._shelf.signal(signal, ","), dtype=np.int64)
                bases[0] = self._shelf.signal(signal)
                self._plain.append((k, self._space(SAMPLES), bases))
            self._text += "]"

    def _slow(self, signals: Sequence[Signal]) -> None:
        self._long: list[tuple[int, slice]] = []
        rows, columns, bases = [], [], []
        for signal in signals:
            if step_count(signal) > LONGEST_TABLE:
                self._long.append((NUMBERS.index(signal), self._value(signal.name, LONG_CELLS)))
                continue
            rows.append(NUMBERS.index(signal))
            columns.append(self._value(signal.name, 1).start)
            bases.append(self._shelf.signal(signal))
        self._slow_rows, self._slow_columns = np.array(rows), np.array(columns)
        self._slow_bases = np.array(bases)[:, None]

    def _value(self, key: str, n_cells: int) -> slice:
        """A key, and the columns of its value."""
        self._text += f',"{key}":'
        return self._space(n_cells)

    def _space(self, n_cells: int) -> slice:
        """Columns to be filled in, after the text so far."""
        self._row += self._shelf.book.text(self._text)
        self._text = ""
        start = len(self._row)
        self._row += [self._shelf.digits.empty] * n_cells
        return slice(start, start + n_cells)
