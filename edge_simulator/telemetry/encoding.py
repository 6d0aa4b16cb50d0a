"""Samples into frames: whole steps on the wire, a column's JSON at once, and each frame from its texts."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats, Ints, Rows
from edge_simulator.scenario import SAMPLES
from infra.contract import frame
from infra.contract.signals import FAST, SLOW, Signal

NUMBERS: tuple[Signal, ...] = tuple(s for s in SLOW if s.kind == "number")
FLAGS: tuple[str, ...] = tuple(s.name for s in SLOW if s.kind == "flag")


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
_FAST = [s.name for s in FAST]
_SLOW = [s.name for s in sorted(NUMBERS, key=lambda s: s.decimals == 0)]  # whole ones last
_NAMES = (*frame.HEAD, *_FAST, *_SLOW, *FLAGS, "dtc_codes")  # as they follow one another in a frame
_FIXED = {"schema": frame.SCHEMA, "n": SAMPLES}
_TEXTS = [name for name in _NAMES if name not in _FIXED]
_HEADING = _FAST.index("heading_deg")
_TURN = 3600  # steps of a full turn of the heading

Steps = NDArray[np.int32]  # fast signals as whole steps on the wire


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


def _texts(signal: Signal, steps: Ints | Steps) -> list[bytes]:
    """The numbers of whole steps, [n] or [n, SAMPLES], as JSON, one text for each of n; null for no value."""
    none = round(signal.maximum * signal.steps_per_unit) + 1
    if signal.decimals == 0:  # no other step has the digits of the one after the last
        return _split(steps, none)
    values = steps / signal.steps_per_unit
    values[steps == none] = np.nan  # the writer's null
    return _split(values)


def _split(values: NDArray[Any], none: int | None = None) -> list[bytes]:
    """The JSON of an array's elements; of its rows without their brackets, where it has rows."""
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    if none is not None:
        text = text.replace(b"%d" % none, b"null")
    return text[2:-2].split(b"],[") if values.ndim > 1 else text[1:-1].split(b",")


class SampleRing:
    """The last SAMPLES samples of every fast signal of every vehicle, on the wire's steps."""

    def __init__(self, n_vehicles: int) -> None:
        self._steps = np.zeros((SAMPLES, len(FAST), n_vehicles), dtype=np.int32)
        self._values = np.empty((len(FAST), n_vehicles))
        self._grid = _Grid(FAST)
        self._count = 0

    def record(self, columns: Mapping[str, Floats]) -> None:
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


def _form(kind: str) -> tuple[bytes, Callable[[tuple[bytes, ...]], tuple[bytes, ...]]]:
    """The frame of a kind of powertrain as bytes with places, and what picks their texts out of all."""
    fixed: dict[str, Any] = _FIXED | ({"engine_rpm": None} if kind == "electric" else {})
    names = [name for name in _NAMES if name not in ABSENT[kind]]
    places = dict.fromkeys(names, "%b") | {name: ["%b"] for name in _FAST} | fixed
    picked = itemgetter(*(k for k, name in enumerate(_TEXTS) if name in names and name not in fixed))
    return frame.encode(places).replace(b'"%b"', b"%b"), picked


class Encoder:
    """Encodes groups of frames; ``powertrain`` names each vehicle's kind, which decides what it has."""

    def __init__(self, vehicle_ids: Sequence[str], powertrain: Sequence[str]) -> None:
        self._ids, self._kind = [orjson.dumps(name) for name in vehicle_ids], np.array(powertrain)
        self._forms, self._grid = {kind: _form(kind) for kind in set(powertrain)}, _Grid(NUMBERS)

    def encode(
        self, group: Rows, fast: Steps, slow: Mapping[str, Floats], flags: Mapping[str, Bools],
        codes: Mapping[int, list[str]], heads: Mapping[str, int | Ints],
    ) -> list[bytes]:  # fmt: skip
        """The frames of a group as bytes, in the order of its vehicles.

        ``fast`` is the ring's window, ``slow`` and ``flags`` are the group's values, [n_group] each;
        ``codes`` names vehicles by their place among all. ``heads`` are identity and clock of the frames,
        ``boot_id`` to ``sent_ms`` of the contract's head: one for all, or [n_group].
        """
        vehicles = np.arange(len(self._ids))[group].tolist()
        n, steps = len(vehicles), self._grid.steps(np.stack([slow[s.name] for s in NUMBERS]))
        texts = {name: _split(np.broadcast_to(head, n)) for name, head in heads.items()}
        texts["vehicle_id"] = [self._ids[vehicle] for vehicle in vehicles]
        texts |= {s.name: _texts(s, fast[:, k].T) for k, s in enumerate(FAST)}
        texts |= {s.name: _texts(s, steps[k].astype(np.int64)) for k, s in enumerate(NUMBERS)}
        texts |= {name: _split(flags[name]) for name in FLAGS}
        texts["dtc_codes"] = [orjson.dumps(codes.get(vehicle, [])) for vehicle in vehicles]
        forms = map(self._forms.__getitem__, self._kind[group].tolist())
        rows = zip(*(texts[name] for name in _TEXTS), strict=True)
        return [form % picked(row) for (form, picked), row in zip(forms, rows, strict=True)]
