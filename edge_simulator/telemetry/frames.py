"""Samples into frames: a ring of fast samples for the whole fleet, and the encoder of a group of vehicles.

A frame is written by looking its texts up (texts.py): each kind of powertrain has a row of cells in which the
keys stand already; the indices of the values' texts are filled in, and one gather writes all rows. The bytes
are those of :func:`infra.contract.frame.encode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import SAMPLES
from edge_simulator.telemetry.layout import END, FLAGS, INT_CELLS, NO_CODES, NUMBERS, Layout, Shelf
from edge_simulator.telemetry.sensors import FAST_NAMES, Grid, Steps
from infra.contract.signals import FAST

_ENGINE = frozenset(
    (
        "coolant_temp_c",
        "oil_pressure_kpa",
        "oil_temp_c",
        "engine_load_pct",
        "fuel_rate_lph",
        "fuel_level_pct",
        "maf_gps",
    )
)
_PETROL = frozenset(("fuel_trim_short_pct", "fuel_trim_long_pct"))
_DIESEL = frozenset(("dpf_delta_pressure_pa", "dpf_soot_pct"))
_PACK = frozenset(
    (
        "soc_pct",
        "pack_voltage_v",
        "pack_current_a",
        "cell_voltage_min_v",
        "cell_voltage_max_v",
        "cell_temp_min_c",
        "cell_temp_avg_c",
        "cell_temp_max_c",
        "soh_pct",
        "motor_temp_c",
    )
)
_ABSENT = {
    "petrol": _DIESEL | _PACK,
    "diesel": _PETROL | _PACK,
    "hybrid": _DIESEL,
    "electric": _ENGINE | _PETROL | _DIESEL,
}
Rows = slice | Ints
"""Which vehicles: a slice where they follow one another, else their indices."""


_HEADING = FAST_NAMES.index("heading_deg")
_TURN = 3600
"""Steps of a full turn of the heading."""
_CHUNK = 128
"""Frames written at a time: their cells stay in the processor's second cache."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Identity and clock of the frames of a group, each [n_group]; the boot id may be one for all."""

    boot_id: int | Ints
    dt_ms: int
    seq: Ints
    t0_ms: Ints
    sent_ms: Ints

    def numbers(self) -> list[Ints]:
        """The integers in the order of the head; one number where all have the same."""
        boot, dt = (np.atleast_1d(np.asarray(x, dtype=np.int64)) for x in (self.boot_id, self.dt_ms))
        return [boot, self.seq, self.t0_ms, dt, self.sent_ms]


class SampleRing:
    """The last SAMPLES samples of every fast signal of every vehicle, on the wire's steps."""

    def __init__(self, n_vehicles: int) -> None:
        self._steps = np.zeros((SAMPLES, len(FAST), n_vehicles), dtype=np.int32)
        self._values = np.empty((len(FAST), n_vehicles))
        self._grid = Grid(FAST)
        self._count = 0

    def record(self, columns: Mapping[str, Floats]) -> None:
        """Add one sample of every vehicle."""
        for k, name in enumerate(FAST_NAMES):
            self._values[k] = columns[name]
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
        shelf = Shelf(vehicle_ids)
        self._layouts = [Layout(shelf, _ABSENT[k], has_engine=k != "electric") for k in kinds]
        self._sheets = [np.tile(layout.row, (_CHUNK, 1)) for layout in self._layouts]
        self._table = shelf.book.table()
        self._digits = shelf.digits
        self._grid = Grid(NUMBERS)
        self._rows = np.arange(len(powertrain))
        self._kind = np.array([kinds.index(k) for k in powertrain], dtype=np.int64)

    def encode(
        self,
        group: Rows,
        fast: Steps,
        slow: Mapping[str, Floats],
        flags: Mapping[str, Bools],
        codes: Mapping[int, list[str]],
        heads: Heads,
    ) -> list[bytes]:
        """The frames of a group as bytes, in the order of its vehicles.

        ``fast`` is the ring's window, ``slow`` and ``flags`` are the group's values, [n_group] each;
        ``codes`` names vehicles by their place among all.
        """
        vehicles, kinds = self._rows[group], self._kind[group]
        steps = self._grid.steps(np.stack([slow[s.name] for s in NUMBERS])).astype(np.int64)
        states = np.stack([flags[name] for name in FLAGS]).astype(np.int64)
        integers = [self._digits.indices(values, INT_CELLS).T for values in heads.numbers()]
        payloads = [b""] * len(vehicles)
        for kind, layout in enumerate(self._layouts):
            members = np.flatnonzero(kinds == kind)
            for start in range(0, len(members), _CHUNK):
                part = members[start : start + _CHUNK]
                cells = self._sheets[kind][: len(part)]
                layout.head(cells, vehicles[part], [n if len(n) == 1 else n[part] for n in integers])
                layout.samples(cells, fast[:, :, part])
                layout.values(cells, steps[:, part], states[:, part])
                for place, payload in zip(part.tolist(), self._write(cells), strict=True):
                    payloads[place] = payload
        _tell_codes(payloads, vehicles, codes)
        return payloads

    def _write(self, cells: Ints) -> list[bytes]:
        """Rows of cells as text."""
        return self._table.take(cells).tobytes().translate(None, b"\0").split(END)[:-1]


def _tell_codes(payloads: list[bytes], vehicles: Ints, codes: Mapping[int, list[str]]) -> None:
    """Write trouble codes into the few frames that have any."""
    for vehicle in codes:
        place = int(np.searchsorted(vehicles, vehicle))
        if codes[vehicle] and place < len(vehicles) and vehicles[place] == vehicle:
            payloads[place] = payloads[place].removesuffix(NO_CODES) + orjson.dumps(codes[vehicle]) + b"}"
