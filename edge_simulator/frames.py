"""Samples into frames: a ring of fast samples for the whole fleet, and the encoder of a group of vehicles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import SAMPLES
from edge_simulator.sensors import FAST_NAMES, quantise
from infra.contract import frame
from infra.contract.signals import FAST, SLOW, Signal

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

_NUMBERS = tuple(s for s in SLOW if s.kind == "number")
_RPM = FAST_NAMES.index("engine_rpm")
_HEADING = FAST_NAMES.index("heading_deg")


@dataclass(frozen=True, slots=True)
class Heads:
    """Identity and clock of the frames of a group, each [n_group] or one for all."""

    boot_id: int
    dt_ms: int
    seq: Ints
    t0_ms: Ints
    sent_ms: Ints


class SampleRing:
    """The last SAMPLES samples of every fast signal of every vehicle."""

    def __init__(self, n_vehicles: int) -> None:
        self._values = np.zeros((SAMPLES, len(FAST), n_vehicles))
        self._count = 0

    def record(self, columns: Mapping[str, Floats]) -> None:
        """Add one sample of every vehicle."""
        row = self._values[self._count % SAMPLES]
        for k, name in enumerate(FAST_NAMES):
            row[k] = columns[name]
        self._count += 1

    def window(self, group: Rows) -> Floats:
        """The samples of a group on the wire's steps, oldest first; [n_group, n_signals, SAMPLES]."""
        order = (self._count + np.arange(SAMPLES)) % SAMPLES
        stepped = quantise(self._values[order][:, :, group], FAST)
        stepped[:, _HEADING] %= 360.0
        return stepped.transpose(2, 1, 0)


class Layout:
    """Which slow signals a powertrain has, in the order of the contract."""

    def __init__(self, powertrain: str) -> None:
        present = [s for s in _NUMBERS if s.name not in _ABSENT[powertrain]]
        self.floats = [s for s in present if s.decimals > 0]
        self.whole = [s for s in present if s.decimals == 0]
        self.float_names = [s.name for s in self.floats]
        self.whole_names = [s.name for s in self.whole]
        self.has_engine = powertrain != "electric"


class Encoder:
    """Encodes groups of frames; ``powertrain`` names each vehicle's layout."""

    def __init__(self, vehicle_ids: Sequence[str], powertrain: Sequence[str]) -> None:
        self._ids = vehicle_ids
        kinds = sorted(set(powertrain))
        self._layouts = [Layout(k) for k in kinds]
        self._rows = np.arange(len(powertrain))
        self._kind = np.array([kinds.index(k) for k in powertrain], dtype=np.int64)

    def encode(
        self,
        group: Rows,
        fast: Floats,
        slow: Mapping[str, Floats],
        flags: Mapping[str, Bools],
        codes: Mapping[int, list[str]],
        heads: Heads,
    ) -> list[bytes]:
        """The frames of a group as bytes, in the order of its vehicles."""
        slows = self._slow_rows(group, slow)
        flag_rows = list(zip(*(flags[name][group].tolist() for name in flags), strict=True))
        samples = fast.tolist()
        rpm = np.nan_to_num(fast[:, _RPM]).astype(np.int64).tolist()
        seq, t0, sent = heads.seq.tolist(), heads.t0_ms.tolist(), heads.sent_ms.tolist()
        payloads = []
        for k, vehicle in enumerate(self._rows[group].tolist()):
            body = {
                "schema": frame.SCHEMA, "vehicle_id": self._ids[vehicle], "boot_id": heads.boot_id,
                "seq": seq[k], "t0_ms": t0[k], "dt_ms": heads.dt_ms, "n": SAMPLES, "sent_ms": sent[k],
            }  # fmt: skip
            body.update(zip(FAST_NAMES, samples[k], strict=True))
            body["engine_rpm"] = rpm[k] if self._layouts[self._kind[vehicle]].has_engine else None
            body.update(slows[k])
            body.update(zip(flags, flag_rows[k], strict=True))
            body["dtc_codes"] = codes.get(vehicle, [])
            payloads.append(frame.encode(body))
        return payloads

    def _slow_rows(self, group: Rows, slow: Mapping[str, Floats]) -> list[dict[str, float]]:
        """The slow numbers of each vehicle of a group as a mapping."""
        rows: list[dict[str, float]] = [{}] * len(self._rows[group])
        kinds = self._kind[group]
        for kind, layout in enumerate(self._layouts):
            members = np.flatnonzero(kinds == kind)
            if len(members) == 0:
                continue
            decimals = _table(layout.floats, slow, group, members).tolist()
            whole = _table(layout.whole, slow, group, members).astype(np.int64).tolist()
            for row, values, numbers in zip(members.tolist(), decimals, whole, strict=True):
                rows[row] = dict(zip(layout.float_names, values, strict=True))
                rows[row].update(zip(layout.whole_names, numbers, strict=True))
        return rows


def _table(signals: list[Signal], slow: Mapping[str, Floats], group: Rows, members: Ints) -> Floats:
    """Values of some vehicles on the wire's steps; [n_members, n_signals]."""
    values = np.stack([slow[s.name][group][members] for s in signals])
    return quantise(values, tuple(signals)).T
