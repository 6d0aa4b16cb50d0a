"""Samples into frames by looking their texts up in a table of cells of eight bytes.

A signal takes whole steps within a range, so its texts are known beforehand; they come from the contract's
own JSON writer, so the bytes are those of :func:`infra.contract.frame.encode`. A frame is a row of cells:
each kind of powertrain has a row in which the keys stand already, the indices of the values' texts are filled
in, and one gather writes all rows. A cell is padded with NUL bytes, which no JSON text holds and which are
taken out at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import SAMPLES
from infra.contract import frame
from infra.contract.signals import FAST, SLOW, Signal

CELL = 8  # bytes of a cell
GROUP = 10_000  # integers are written in groups of four digits
MICRO = 1_000_000
NULL = b"null"

NUMBERS: tuple[Signal, ...] = tuple(s for s in SLOW if s.kind == "number")
FLAGS: tuple[str, ...] = tuple(s.name for s in SLOW if s.kind == "flag")
GEO = ("lat_deg", "lon_deg")
END = b"\n"  # between two frames; no JSON text of ours holds it
NO_CODES = b"[]}"  # a frame's last bytes when there is no trouble code
LONGEST_TABLE = 200_000  # a signal of more steps than this is written digit by digit
INT_CELLS = 4
LONG_CELLS = 3


def _within(*paths: str) -> set[str]:
    return {s.name for s in NUMBERS if s.vss.startswith(paths)}


_ENGINE = _within("Powertrain.CombustionEngine", "Powertrain.FuelSystem", "OBD.")
_PETROL = _within("OBD.ShortTermFuelTrim", "OBD.LongTermFuelTrim")
_DIESEL = _within("Powertrain.CombustionEngine.DieselParticulateFilter")
_PACK = _within("Powertrain.TractionBattery", "Powertrain.ElectricMotor")
ABSENT = {
    "petrol": _DIESEL | _PACK,
    "diesel": _PETROL | _PACK,
    "hybrid": _DIESEL,
    "electric": _ENGINE,
}
"""The slow signals that a kind of powertrain has not."""
_HEADING = [s.name for s in FAST].index("heading_deg")
_TURN = 3600  # steps of a full turn of the heading
_CHUNK = 128  # frames written at a time: their cells stay in the processor's second cache

Cells = NDArray[np.uint64]
Steps = NDArray[np.int32]  # fast signals as whole steps on the wire
Rows = slice | Ints  # which vehicles: a slice where they follow one another, else their indices


def _cells(texts: Sequence[bytes], n_cells: int = 1) -> Cells:
    """One or more cells a text, one text after the other; raises ValueError for a text too long."""
    packed = np.array(texts)
    if packed.itemsize > CELL * n_cells:
        raise ValueError(f"a text of {packed.itemsize} bytes does not fit {n_cells} cells")
    return packed.astype(f"S{CELL * n_cells}").view(np.uint64)


def _first_step(signal: Signal) -> int:
    return round(signal.minimum * signal.steps_per_unit)


def _step_count(signal: Signal) -> int:
    return round(signal.maximum * signal.steps_per_unit) - _first_step(signal) + 1


@cache
def _signal_cells(signal: Signal, before: str) -> Cells:
    """The texts of all steps of a signal from its lowest, and ``null`` at the end, each after ``before``."""
    steps = np.arange(_step_count(signal)) + _first_step(signal)
    values = steps / signal.steps_per_unit if signal.decimals else steps
    numbers = orjson.dumps(values.tolist())[1:-1].split(b",")
    return _cells([before.encode() + text for text in (*numbers, NULL)])


@cache
def _fraction_cells() -> Cells:
    """The decimals of all micro-degrees, without the zeros at the end but for one; [MICRO]."""
    thousand = [b"%03d" % k for k in range(1000)]
    high, low = _cells(thousand), _cells([text.rstrip(b"0") for text in thousand])
    both = high[:, None] | (low[None, :] << np.uint64(24))
    both[:, 0] = _cells([text.rstrip(b"0") or b"0" for text in thousand])
    return both.ravel()


class _Texts:
    """The table of all texts that frames share, while it grows; an index into it stays what it is."""

    def __init__(self, vehicle_ids: Sequence[str]) -> None:
        self.parts: list[Cells] = []
        self._length = 0
        self._signals: dict[tuple[str, str], int] = {}
        plain = [b"%d" % k for k in range(GROUP)]
        self.empty = self.add(_cells([b""]))
        self.null = self.add(_cells([NULL]))
        self._last_digits = self.add(_cells(plain))
        self._first_digits = self.add(_cells([b"", *plain[1:]]))
        self._inner_digits = self.add(_cells([b"%04d" % k for k in range(GROUP)]))
        signs, odd = (b"", b"-", b",", b",-"), [b"0.0"]
        while not (text := orjson.dumps(len(odd) / MICRO)).startswith(b"0."):
            odd.append(text)  # the smallest ones are no plain decimals
        self._null_degrees = self.add(_cells([NULL, b"," + NULL]))
        self._whole_degrees = self.add(_cells([b"%s%d." % (sign, d) for sign in signs for d in range(181)]))
        self._micro_degrees = self.add(_fraction_cells())
        self._most_odd = len(odd) - 1
        self._odd_degrees = self.add(_cells([sign + text for sign in signs for text in odd]))
        self.flags = self.add(_cells([b"false", b"true"]))
        self.id_cells = max(-(-len(name) // CELL) for name in vehicle_ids)
        self.ids = self.add(_cells([name.encode() for name in vehicle_ids], self.id_cells))

    def add(self, cells: Cells) -> int:
        """Appends; returns the index of the first."""
        self.parts.append(cells)
        self._length += len(cells)
        return self._length - len(cells)

    def constant(self, text: str) -> range:
        """The cells of a constant text, as indices."""
        n_cells = -(-len(text) // CELL)
        first = self.add(_cells([text.encode()], n_cells)) if text else 0
        return range(first, first + n_cells)

    def signal(self, signal: Signal, before: str = "") -> int:
        """Where the text of a signal's step 0 is or would be, with ``before`` in front."""
        key = (signal.name, before)
        if key not in self._signals:
            self._signals[key] = self.add(_signal_cells(signal, before)) - _first_step(signal)
        return self._signals[key]

    def digits(self, values: Ints, n_cells: int) -> Ints:
        """The cells of numbers >= 0 below 10000 ** ``n_cells``, highest digits first; [n_cells, n_values].

        Raises ValueError for a number that is negative or too long.
        """
        found = np.full((n_cells, len(values)), self.empty, dtype=np.int64)
        rest, lead, row = values, self._last_digits, n_cells
        while row and (row == n_cells or rest.any()):
            row -= 1
            higher = rest // GROUP
            found[row] = rest - GROUP * higher + np.where(higher > 0, self._inner_digits, lead)
            rest, lead = higher, self._first_digits
        if rest.any():
            raise ValueError(f"whole numbers of 0..{GROUP**n_cells - 1} have a text, not {values.tolist()}")
        return found

    def degrees(self, steps: Ints, limit: int, out: Ints) -> None:
        """The cells of micro-degrees, [n_vehicles, n_samples]; ``out`` is [n_vehicles, n_samples, 2].

        A cell is for sign and degrees, one for the micro-degrees. All but the first sample of a row have a
        comma in front. A step beyond ``limit`` is null.
        """
        size = np.abs(steps)
        whole = size // MICRO
        kind = (steps < 0).astype(np.int64)
        kind[:, 1:] += 2
        out[..., 0] = self._whole_degrees + 181 * kind + whole
        out[..., 1] = self._micro_degrees + size - MICRO * whole
        if size.min(initial=MICRO) <= self._most_odd:
            odd = (size <= self._most_odd) & (size > 0)
            out[odd, 0] = self._odd_degrees + (self._most_odd + 1) * kind[odd] + size[odd]
            out[odd, 1] = self.empty
        if size.max(initial=0) > limit:
            none = size > limit
            out[none, 0] = self._null_degrees + (kind[none] >= 2)
            out[none, 1] = self.empty


class _Layout:
    """One kind of frame; ``absent`` names the slow signals it has not. No engine: its speed is null."""

    def __init__(self, texts: _Texts, absent: set[str], has_engine: bool) -> None:
        self._texts = texts
        self._row: list[int] = []
        self._text = f'{{"schema":{frame.SCHEMA},"vehicle_id":"'
        self._id = self._space(texts.id_cells)
        self._text += '"'
        boot, seq, t0, dt = (self._value(name, INT_CELLS) for name in ("boot_id", "seq", "t0_ms", "dt_ms"))
        self._text += f',"n":{SAMPLES}'
        self._integers = (boot, seq, t0, dt, self._value("sent_ms", INT_CELLS))
        self._fast(has_engine)
        present = [s for s in NUMBERS if s.name not in absent]
        self._slow([s for s in present if s.decimals > 0] + [s for s in present if s.decimals == 0])
        self._flags = np.array([self._value(name, 1).start for name in FLAGS])
        self._text += ',"dtc_codes":' + (NO_CODES + END).decode()
        self._space(0)
        self.row = np.array(self._row, dtype=np.int64)

    def fill(
        self, out: Ints, vehicles: Ints, integers: Sequence[Ints], fast: Steps, slow: Ints, flags: Ints
    ) -> None:
        """Fill in frames of ``vehicles`` (places among all).

        ``integers`` are the head's, [n_frames or 1, INT_CELLS] each; signals are whole steps: ``fast`` is
        [SAMPLES, n_signals, n_frames], ``slow`` [len(NUMBERS), n_frames], ``flags`` [len(FLAGS), n_frames].
        """
        texts = self._texts
        out[:, self._id] = texts.ids + texts.id_cells * vehicles[:, None] + np.arange(texts.id_cells)
        for columns, cells in zip(self._integers, integers, strict=True):
            out[:, columns] = cells
        for signal, columns, bases in self._plain:
            np.add(fast[:, signal].T, bases, out=out[:, columns])
        for signal, columns, limit in self._places:
            places = out[:, columns].reshape(len(out), SAMPLES, 2)
            texts.degrees(fast[:, signal].T.astype(np.int64), limit, places)
        out[:, self._slow_columns] = (slow[self._slow_rows] + self._slow_bases).T
        for signal, columns in self._long:
            known = slow[signal] < _step_count(NUMBERS[signal])
            out[:, columns] = texts.digits(np.where(known, slow[signal], 0), LONG_CELLS).T
            if not known.all():
                out[~known, columns] = texts.empty
                out[~known, columns.start] = texts.null
        out[:, self._flags] = (texts.flags + flags).T

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
                bases = np.full(SAMPLES, self._texts.signal(signal, ","), dtype=np.int64)
                bases[0] = self._texts.signal(signal)
                self._plain.append((k, self._space(SAMPLES), bases))
            self._text += "]"

    def _slow(self, signals: Sequence[Signal]) -> None:
        self._long: list[tuple[int, slice]] = []
        short = []
        for signal in signals:
            row = NUMBERS.index(signal)
            if _step_count(signal) > LONGEST_TABLE:
                self._long.append((row, self._value(signal.name, LONG_CELLS)))
            else:
                short.append((row, self._value(signal.name, 1).start, self._texts.signal(signal)))
        self._slow_rows, self._slow_columns, bases = np.array(short).T
        self._slow_bases = bases[:, None]

    def _value(self, key: str, n_cells: int) -> slice:
        self._text += f',"{key}":'
        return self._space(n_cells)

    def _space(self, n_cells: int) -> slice:
        self._row += self._texts.constant(self._text)
        self._text = ""
        start = len(self._row)
        self._row += [self._texts.empty] * n_cells
        return slice(start, start + n_cells)


class Heads(NamedTuple):
    """Identity and clock of the frames of a group, each [n_group]; the boot id may be one for all."""

    boot_id: int | Ints
    seq: Ints
    t0_ms: Ints
    dt_ms: int
    sent_ms: Ints


class _Grid:
    """The steps that signals are reported in, along the first axis."""

    def __init__(self, signals: Sequence[Signal]) -> None:
        self._scale = np.array([s.steps_per_unit for s in signals], dtype=np.float64)[:, None]
        self._low = np.array([s.minimum for s in signals])[:, None]
        self._high = np.array([s.maximum for s in signals])[:, None]
        self._none = np.rint(self._high * self._scale) + 1

    def steps(self, values: Floats) -> Floats:
        """Values, [n_signals, n], as whole steps, held within the range; changes ``values``.

        No value (NaN) is the step after the last one.
        """
        np.clip(values, self._low, self._high, out=values)
        values *= self._scale
        np.rint(values, out=values)
        none = np.isnan(values)
        if none.any():
            np.copyto(values, self._none, where=none)
        return values


class SampleRing:
    """The last SAMPLES samples of every fast signal of every vehicle, on the wire's steps."""

    def __init__(self, n_vehicles: int) -> None:
        self._steps = np.zeros((SAMPLES, len(FAST), n_vehicles), dtype=np.int32)
        self._values = np.empty((len(FAST), n_vehicles))
        self._grid = _Grid(FAST)
        self._count = 0

    def record(self, columns: Mapping[str, Floats]) -> None:
        """Add one sample of every vehicle."""
        for k, signal in enumerate(FAST):
            self._values[k] = columns[signal.name]
        row = self._steps[self._count % SAMPLES]
        row[:] = self._grid.steps(self._values)
        row[_HEADING, row[_HEADING] == _TURN] = 0
        self._count += 1

    def window(self, group: Rows) -> Steps:
        """The samples of a group as whole steps, oldest first; [SAMPLES, n_signals, n_group]."""
        order = (self._count + np.arange(SAMPLES)) % SAMPLES
        if isinstance(group, slice):
            return self._steps[order, :, group]
        return self._steps[order[:, None, None], np.arange(len(FAST))[:, None], group]


class Encoder:
    """Encodes groups of frames; ``powertrain`` names each vehicle's layout."""

    def __init__(self, vehicle_ids: Sequence[str], powertrain: Sequence[str]) -> None:
        kinds = sorted(set(powertrain))
        texts = _Texts(vehicle_ids)
        self._layouts = [_Layout(texts, ABSENT[k], has_engine=k != "electric") for k in kinds]
        self._templates = [np.tile(layout.row, (_CHUNK, 1)) for layout in self._layouts]
        self._table = np.concatenate(texts.parts)
        self._digits = texts.digits
        self._grid = _Grid(NUMBERS)
        self._rows = np.arange(len(powertrain))
        self._kind = np.array([kinds.index(k) for k in powertrain], dtype=np.int64)

    def encode(
        self, group: Rows, fast: Steps, slow: Mapping[str, Floats], flags: Mapping[str, Bools],
        codes: Mapping[int, list[str]], heads: Heads,
    ) -> list[bytes]:  # fmt: skip
        """The frames of a group as bytes, in the order of its vehicles.

        ``fast`` is the ring's window, ``slow`` and ``flags`` are the group's values, [n_group] each;
        ``codes`` names vehicles by their place among all.
        """
        vehicles, kinds = self._rows[group], self._kind[group]
        steps = self._grid.steps(np.stack([slow[s.name] for s in NUMBERS])).astype(np.int64)
        states = np.stack([flags[name] for name in FLAGS]).astype(np.int64)
        integers = [self._digits(np.atleast_1d(np.asarray(n, np.int64)), INT_CELLS).T for n in heads]
        payloads = [b""] * len(vehicles)
        for kind, layout in enumerate(self._layouts):
            members = np.flatnonzero(kinds == kind)
            for start in range(0, len(members), _CHUNK):
                part = members[start : start + _CHUNK]
                cells = self._templates[kind][: len(part)]
                head = [n if len(n) == 1 else n[part] for n in integers]
                layout.fill(cells, vehicles[part], head, fast[:, :, part], steps[:, part], states[:, part])
                written = self._table.take(cells).tobytes().translate(None, b"\0").split(END)[:-1]
                for place, payload in zip(part.tolist(), written, strict=True):
                    payloads[place] = payload
        for vehicle in codes:  # the few frames that have any
            place = int(np.searchsorted(vehicles, vehicle))
            if codes[vehicle] and place < len(vehicles) and vehicles[place] == vehicle:
                payloads[place] = payloads[place].removesuffix(NO_CODES) + orjson.dumps(codes[vehicle]) + b"}"
        return payloads
