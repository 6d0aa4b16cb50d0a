"""A synthetic drive for faults: real physics and instruments along one speed trace.

Histories are [seconds, n_vehicles], one row a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edge_simulator import faults
from edge_simulator.geo import Bools, Floats
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry.instruments import Instruments
from edge_simulator.town.roads import city
from edge_simulator.truth import Row, TruthLog
from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine
from infra.contract.signals import WHEELS

COLUMNS = (
    "coolant_temp_c", "oil_pressure_kpa", "engine_load_pct", "gear", "battery_voltage_v",
    "fuel_trim_short_pct", "fuel_trim_long_pct", "fuel_rate_lph", "maf_gps", "dpf_soot_pct", "soc_pct",
    "pack_current_a", "pack_voltage_v", "cell_voltage_min_v", "cell_voltage_max_v", "cell_temp_max_c",
    *(f"{stem}_{w}_{unit}" for w in WHEELS for stem, unit in
      (("tyre_pressure", "kpa"), ("tyre_temp", "c"), ("brake_pad_wear", "pct"))),
)  # fmt: skip
TRIP_S, PARKED_S = 1500, 150


@dataclass(slots=True)
class Drive:
    """What a drive left: columns by name, trouble codes by second and vehicle, and the faults that began."""

    fleet: Fleet
    machine: Machine
    columns: dict[str, Floats]
    codes: list[dict[int, list[str]]] = field(default_factory=list)
    begun: list[faults.Fault] = field(default_factory=list)
    truth: list[Row] = field(default_factory=list)
    """Rows of ground truth; a vehicle's id is its index."""

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]

    @property
    def sound(self) -> Bools:
        """Vehicles without a fault."""
        mask = np.ones(self.fleet.n, dtype=np.bool_)
        mask[[f.vehicle for f in self.begun]] = False
        return mask


def speeds_kmh() -> Floats:
    """A trip by seconds: stop and go in town, then an open road; a stand at the end with the ignition off."""
    town = [*np.arange(0, 50, 4.0), *[50.0] * 50, *np.arange(50, 0, -5.0), *[0.0] * 18]
    road = [*np.arange(0, 95, 3.0), *[95.0] * 240, *np.arange(95, 0, -4.0), *[0.0] * 12]
    trip = np.array([*town * 3, *road, *town * 4, *road, *town * 9])[:TRIP_S]
    trip[-20:] = 0.0
    return np.concatenate([trip, np.zeros(PARKED_S)])


def drive(
    wanted: Sequence[faults.Wanted], n_vehicles: int, seconds: int, seed: int = 5, ambient_c: float = 16.0
) -> Drive:
    """Drive ``n_vehicles`` along the trace, each from another point of it on."""
    streams = [np.random.default_rng([seed, k]) for k in range(5)]
    specs = vehicles.Specs(vehicles.draw(streams[0], n_vehicles))
    fleet = Fleet(city(1, 48.1, 11.5), specs, streams[1])
    machine = Machine(specs, streams[2], ambient_c)
    instruments = Instruments(fleet, machine, streams[3])
    plan = faults.plan(wanted, machine, streams[4], 1000 * seconds, endless=True)
    truth = TruthLog([str(k) for k in range(n_vehicles)], 0)
    coming = faults.arrivals(wanted, machine, streams[4])
    injector = faults.Injector(plan, fleet, machine, streams[4], coming, truth)
    names = (*COLUMNS, "speed_kmh", "rpm", "on")
    out = Drive(fleet, machine, {name: np.zeros((seconds, n_vehicles)) for name in names})
    fleet.state.started_s[:] = -900.0
    trace = speeds_kmh()
    for t in range(seconds):
        _move(fleet, t, trace)
        out.begun += [fault for fault, _ in injector.due(1000 * (t + 1))]
        machine.step(fleet.state, fleet.ignition_on(), 1.0)
        _note(out, t, instruments)
        out.codes.append({vehicle: list(codes) for vehicle, codes in injector.codes.items()})
    injector.close(1000 * seconds)
    out.truth += truth.take()
    return out


def _move(fleet: Fleet, t: int, trace: Floats) -> None:
    """One second along the trace; a vehicle that was made to stop stays where it is."""
    st = fleet.state
    place = (t + 37 * np.arange(fleet.n)) % len(trace)
    before, parked = st.v, place >= TRIP_S
    fleet.t_s = float(t)
    wished = np.minimum(trace[place], fleet.specs("top_kmh") - 5) / 3.6
    st.v = np.where(st.broken, np.maximum(before - 2.5, 0.0), wished)
    st.a = np.where(t == 0, 0.0, st.v - before)
    st.slope = 0.03 * np.sin(place / 20.0)
    st.started_s = np.where(st.parked & ~parked, fleet.t_s, st.started_s)
    st.parked = parked & ~st.broken


def _note(out: Drive, t: int, instruments: Instruments) -> None:
    measured = instruments.slow(slice(None), 1.0)
    for name in COLUMNS:
        out.columns[name][t] = measured[name]
    out.columns["speed_kmh"][t] = out.fleet.state.v * 3.6
    out.columns["rpm"][t] = out.machine.state.rpm
    out.columns["on"][t] = out.fleet.ignition_on()
