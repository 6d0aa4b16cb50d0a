"""Samples into frames: whole steps on the wire, then the contract's own JSON, a dictionary a frame."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats, Ints
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
_HEADING = [s.name for s in FAST].index("heading_deg")
_TURN = 3600  # steps of a full turn of the heading

Steps = NDArray[np.int32]  # fast signals as whole steps on the wire
Rows = slice | Ints  # which vehicles: a slice where they follow one another, else their indices


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


def _listed(signal: Signal, steps: Ints | Steps) -> list[Any]:
    """The numbers of steps, [n] or [n, SAMPLES], as a frame has them; None for no value."""
    values: Any = steps / signal.steps_per_unit if signal.decimals else steps
    none = steps > round(signal.maximum * signal.steps_per_unit)
    if none.any():
        values = np.where(none, None, values)
    return list(values.tolist())


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
    """Encodes groups of frames; ``powertrain`` names each vehicle's kind, which decides what it has."""

    def __init__(self, vehicle_ids: Sequence[str], powertrain: Sequence[str]) -> None:
        self._ids, self._kind = np.array(vehicle_ids, dtype=object), np.array(powertrain)
        self._kinds, self._grid = sorted(set(powertrain)), _Grid(NUMBERS)

    def encode(
        self, group: Rows, fast: Steps, slow: Mapping[str, Floats], flags: Mapping[str, Bools],
        codes: Mapping[int, list[str]], heads: Heads,
    ) -> list[bytes]:  # fmt: skip
        """The frames of a group as bytes, in the order of its vehicles.

        ``fast`` is the ring's window, ``slow`` and ``flags`` are the group's values, [n_group] each;
        ``codes`` names vehicles by their place among all.
        """
        vehicles, kinds = np.arange(len(self._ids))[group], self._kind[group]
        n, steps = len(vehicles), self._grid.steps(np.stack([slow[s.name] for s in NUMBERS]))
        boot_id, seq, t0_ms, dt_ms, sent_ms = (np.broadcast_to(head, n).tolist() for head in heads)
        columns: dict[str, list[Any]] = {
            "schema": [frame.SCHEMA] * n, "vehicle_id": self._ids[group].tolist(), "boot_id": boot_id,
            "seq": seq, "t0_ms": t0_ms, "dt_ms": dt_ms, "n": [SAMPLES] * n, "sent_ms": sent_ms,
        }  # fmt: skip
        columns |= {s.name: _listed(s, fast[:, k].T) for k, s in enumerate(FAST)}
        numbers = sorted(enumerate(NUMBERS), key=lambda placed: placed[1].decimals == 0)  # whole ones last
        columns |= {s.name: _listed(s, steps[k].astype(np.int64)) for k, s in numbers}
        columns |= {name: flags[name].tolist() for name in FLAGS}
        columns["dtc_codes"] = [codes.get(vehicle, []) for vehicle in vehicles.tolist()]
        payloads = [b""] * n
        for kind in self._kinds:
            of_kind = (kinds == kind).tolist()
            names = [name for name in columns if name not in ABSENT[kind]]
            own: dict[str, Iterable[Any]] = {name: compress(columns[name], of_kind) for name in names}
            if kind == "electric":
                own["engine_rpm"] = repeat(None)
            rows = zip(*own.values(), strict=False)
            for place, values in zip(compress(range(n), of_kind), rows, strict=False):
                payloads[place] = frame.encode(dict(zip(own, values, strict=True)))
        return payloads
