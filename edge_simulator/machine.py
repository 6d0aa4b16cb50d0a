"""What happens under the bonnet: engine or battery each step, heat and wear about once a second.

State as arrays [n_vehicles] (wheels: [4, n_vehicles], order of infra.contract.signals.WHEELS). Faults change
the arrays of :class:`Defects`; the physics does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator import dynamics, powertrain, thermal
from edge_simulator.fleet import Fleet
from edge_simulator.geo import Floats, Ints
from edge_simulator.vehicles import Specs

SLOW_S = 1.0
CRANK_S = 0.8
PETROL_MAF = 0.329
"""Petrol l/h per g/s of air."""


@dataclass(slots=True)
class Defects:
    """What is broken, each [n_vehicles] or [4, n_vehicles]; all zero is healthy."""

    cooling_blocked: Floats
    leak_per_s: Floats
    """Share of a tyre's air lost each second."""
    battery_weak: Floats

    @classmethod
    def none(cls, n: int) -> Defects:
        """A healthy fleet of ``n``."""
        return cls(np.zeros(n), np.zeros((4, n)), np.zeros(n))


@dataclass(slots=True)
class MachineState:
    """The quantities that change, each [n_vehicles] unless said."""

    gear: Ints
    rpm: Floats
    wheel_w: Floats
    fuel_w: Floats
    load_pct: Floats
    fuel_l: Floats
    coolant_c: Floats
    oil_c: Floats
    tyre_mass: Floats
    tyre_air_c: Floats
    pad_wear: Floats
    soot_pct: Floats
    soc: Floats
    pack_a: Floats
    pack_v: Floats
    cell_c: Floats
    motor_c: Floats
    soc_12v: Floats
    trim_short: Floats
    crank_v: Floats
    """Lowest voltage of a start that the next report still has to tell, inf when none."""


class Machine:
    """Powertrain and thermal state of a fleet."""

    def __init__(self, specs: Specs, rng: np.random.Generator, ambient_c: float) -> None:
        n = len(specs.model)
        self.specs = specs
        self.ambient_c = ambient_c
        self.electric = specs("engine_l") == 0
        self.diesel = specs("fuel_kj_per_l") > 34_000
        self.defects = Defects.none(n)
        self.trim_long = rng.normal(0.0, 2.0, n)
        self.cell_spread_v = rng.uniform(0.004, 0.016, n)
        self.soh_pct = rng.uniform(86, 99, n)
        self.tyre_tilt = rng.normal(0.0, 0.006, (4, n))
        self._rng = rng
        self._since_slow_s = 0.0
        self._fuel_j = np.zeros(n)
        self._brake_j = np.zeros(n)
        self.state = _warm(specs, rng, ambient_c)
        self._was_on = np.ones(n, dtype=np.bool_)

    def step(self, fleet: Fleet, h_s: float) -> None:
        """Follow the fleet's motion over ``h_s`` seconds."""
        st, sp, motion = self.state, self.specs, fleet.state
        on = fleet.ignition_on()
        v_kmh = motion.v * 3.6
        st.wheel_w = dynamics.road_power_w(
            motion.v, motion.a, motion.slope, sp("mass_kg"), sp("drag_m2"), sp("rolling")
        )
        self._engine(v_kmh, on & ~self.electric & ~motion.crashed, h_s)
        self._pack(on & self.electric & ~motion.crashed, h_s)
        self._brake_j += np.maximum(-st.wheel_w, 0.0) * h_s
        self._crank(on, motion.crashed)
        self._since_slow_s += h_s
        if self._since_slow_s >= SLOW_S - 1e-9:
            self._slow(motion.v, on, self._since_slow_s)
            self._since_slow_s = 0.0

    def _engine(self, v_kmh: Floats, running: np.ndarray, h_s: float) -> None:
        st, sp = self.state, self.specs
        power_w = 1000 * sp("power_kw")
        hurry = np.clip(st.wheel_w / power_w * 1.6, 0, 1)
        st.gear = powertrain.shift(
            st.gear, v_kmh, hurry, sp.rpm_per_kmh, sp.gears, sp("shift_up_rpm"), sp("shift_down_rpm")
        )
        st.rpm = powertrain.engine_rpm(st.gear, v_kmh, sp.rpm_per_kmh, sp("idle_rpm"), running)
        friction = powertrain.friction_w(st.rpm, sp("fmep_kpa"), sp("engine_l"))
        brake_w = powertrain.brake_power_w(st.wheel_w, 1000 * sp("aux_kw"))
        st.fuel_w = powertrain.fuel_w(brake_w, st.wheel_w, st.rpm, friction, sp("efficiency"), st.gear)
        st.load_pct = powertrain.load_pct(brake_w, friction, st.rpm, sp("torque_nm"), power_w)
        st.fuel_l = np.maximum(st.fuel_l - st.fuel_w * h_s / 1000 / sp("fuel_kj_per_l"), 0.0)
        self._fuel_j += st.fuel_w * h_s

    def _pack(self, driving: np.ndarray, h_s: float) -> None:
        st, sp = self.state, self.specs
        power = powertrain.pack_power_w(st.wheel_w, 1000 * sp("aux_kw"), driving, 1000 * sp("power_kw"))
        ocv = powertrain.open_circuit_v(st.soc, sp("pack_v"))
        st.pack_a = np.where(self.electric, powertrain.pack_current_a(power, ocv, sp("pack_ohm")), 0.0)
        st.pack_v = ocv - st.pack_a * sp("pack_ohm")
        capacity_c = 3.6e6 * sp("pack_kwh") / sp("pack_v")
        st.soc = np.clip(st.soc - st.pack_a * h_s / capacity_c, 0.0, 1.0)

    def _crank(self, on: np.ndarray, crashed: np.ndarray) -> None:
        """A start pulls the 12 V battery down; electric ones have no starter."""
        st = self.state
        starting = on & ~self._was_on & ~self.electric & ~crashed
        if starting.any():
            weak = self.defects.battery_weak
            dip = (
                thermal.rest_voltage(st.soc_12v * (1 - weak))
                - self._rng.uniform(1.9, 2.4, len(weak))
                - 1.1 * weak
            )
            st.crank_v = np.where(starting, dip, st.crank_v)
        self._was_on = on

    def _slow(self, v: Floats, on: np.ndarray, h_s: float) -> None:
        """Heat, wear and charge over the last ``h_s`` seconds."""
        st, sp, out = self.state, self.specs, self.ambient_c
        fuel = self._fuel_j / h_s
        st.coolant_c = thermal.coolant_step(
            st.coolant_c, np.full(len(v), out), fuel, v, h_s, sp("thermal_kj_k"), sp("cooling_w_k"),
            self.defects.cooling_blocked,
        )  # fmt: skip
        st.oil_c = thermal.towards(st.oil_c, np.where(st.rpm > 0, st.coolant_c + 6.0, out), h_s, 300.0)
        self._tyres(v, h_s)
        st.pad_wear += self._brake_j / sp("mass_kg") * 4e-8 * np.array([[1.3], [1.3], [0.7], [0.7]])
        burning = st.soot_pct > 75.0
        st.soot_pct = np.where(
            self.diesel & (st.rpm > 0), st.soot_pct + np.where(burning, -0.1, 0.004) * h_s, st.soot_pct
        )
        heat = st.pack_a**2 * sp("pack_ohm") - 35.0 * (st.cell_c - out)
        st.cell_c = st.cell_c + heat * h_s / (sp("pack_kwh") * 6500.0)
        st.motor_c = thermal.towards(
            st.motor_c, out + 12 + np.abs(st.wheel_w) / sp("power_kw") * 0.12, h_s, 240.0
        )
        charge = np.where(on, 2e-4 * (0.95 - st.soc_12v), -2e-7)
        st.soc_12v = np.clip(st.soc_12v + charge * h_s, 0.0, 1.0)
        st.trim_short += -st.trim_short * h_s / 8 + 0.9 * np.sqrt(h_s) * self._rng.standard_normal(len(v))
        self._fuel_j[:] = 0.0
        self._brake_j[:] = 0.0

    def _tyres(self, v: Floats, h_s: float) -> None:
        st = self.state
        warm = self.ambient_c + np.where(v > 0.5, 8.0 + 20.0 * np.minimum(v / 33.0, 1.0), 0.0)
        st.tyre_air_c = thermal.towards(st.tyre_air_c, warm[None, :], h_s, 900.0)
        flat = thermal.tyre_kpa(st.tyre_mass, self.specs("placard_kpa"), st.tyre_air_c) <= 1.0
        st.tyre_mass = st.tyre_mass * np.where(flat, 1.0, 1 - self.defects.leak_per_s * h_s)

    def battery_v(self, on: np.ndarray) -> Floats:
        """Voltage of the 12 V system: charging while on, at rest otherwise."""
        st = self.state
        sound = 1 - self.defects.battery_weak
        return np.where(on, 13.8, thermal.rest_voltage(st.soc_12v * sound))


def _warm(specs: Specs, rng: np.random.Generator, ambient_c: float) -> MachineState:
    """A fleet that has been on the road for a while."""
    n = len(specs.model)
    coolant = np.where(specs("engine_l") > 0, rng.uniform(82, 89, n), ambient_c)
    air = ambient_c + rng.uniform(4, 16, (4, n))
    return MachineState(
        gear=np.zeros(n, dtype=np.int64), rpm=np.zeros(n), wheel_w=np.zeros(n), fuel_w=np.zeros(n),
        load_pct=np.zeros(n), fuel_l=specs("tank_l") * rng.uniform(0.25, 0.98, n), coolant_c=coolant,
        oil_c=coolant + rng.uniform(-4, 5, n), tyre_mass=1 + rng.normal(0.0, 0.012, (4, n)), tyre_air_c=air,
        pad_wear=rng.uniform(5, 70, n)[None, :] + rng.uniform(-3, 3, (4, n)), soot_pct=rng.uniform(8, 70, n),
        soc=rng.uniform(0.35, 0.95, n), pack_a=np.zeros(n), pack_v=specs("pack_v"),
        cell_c=ambient_c + rng.uniform(2, 9, n), motor_c=ambient_c + rng.uniform(10, 30, n),
        soc_12v=rng.uniform(0.75, 0.95, n), trim_short=rng.normal(0, 1.5, n), crank_v=np.full(n, np.inf),
    )  # fmt: skip
