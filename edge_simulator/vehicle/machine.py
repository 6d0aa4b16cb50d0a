"""What happens under the bonnet: engine or battery each step, heat and wear about once a second.

State as arrays [n_vehicles] (wheels: [4, n_vehicles], order of infra.contract.signals.WHEELS). Faults change
the arrays of :class:`edge_simulator.vehicle.defects.Defects`; the physics does the rest.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import dynamics
from edge_simulator.vehicle import brakes, exhaust, thermal
from edge_simulator.vehicle.defects import Defects
from edge_simulator.vehicle.drivetrain import Drivetrain
from edge_simulator.vehicle.machine_state import MachineState, initial
from edge_simulator.vehicle.vehicles import Specs

__all__ = ["Defects", "Machine", "MachineState", "Motion", "Moving"]

SLOW_S = 1.0
PETROL_MAF = 0.329
"""Petrol l/h per g/s of air."""
CONTACTORS_OPEN = 0.02
"""Share of dead cells from which on a pack's contactors open: no more drive."""
TRIM_LEARNS_S = 120.0
UNDER_LOAD_V = 0.15
"""What consumers take off a 12 V battery that nothing charges."""
RUNAWAY_MOST_K = 160.0


class Motion(Protocol):
    """What the machine needs of a movement, each [n_vehicles]; speed and acceleration at the step's end."""

    @property
    def v(self) -> Floats: ...  # noqa: D102
    @property
    def a(self) -> Floats: ...  # noqa: D102
    @property
    def slope(self) -> Floats: ...  # noqa: D102
    @property
    def crashed(self) -> Bools: ...  # noqa: D102


class Moving(Protocol):
    """Whatever moves vehicles: a fleet in its city, or a driving cycle."""

    @property
    def state(self) -> Motion: ...  # noqa: D102
    def ignition_on(self) -> Bools: ...  # noqa: D102


class Machine:
    """Powertrain and thermal state of a fleet.

    ``soak_s`` says how long each vehicle has stood before the start, [n_vehicles]; none of them when None.
    ``charging`` says which are at a charger, which works while the ignition is off; set from outside.
    """

    def __init__(
        self, specs: Specs, rng: np.random.Generator, ambient_c: float, soak_s: Floats | None = None
    ) -> None:
        n = len(specs.model)
        self.specs = specs
        self.ambient_c = ambient_c
        self.electric = specs("engine_l") == 0
        self.diesel = specs("fuel_kj_per_l") > 34_000
        self.cranks = ~self.electric & (specs("motor_kw") == 0)
        """Which have a starter: the others start by their traction battery."""
        self.charging: Bools = np.zeros(n, dtype=np.bool_)
        self.defects = Defects.none(n)
        self.trim_long = rng.normal(0.0, 2.0, n)
        self.cell_spread_v = rng.uniform(0.004, 0.016, n)
        self.soh_pct = rng.uniform(86, 99, n)
        self.tyre_tilt = rng.normal(0.0, 0.006, (4, n))
        self._rng = rng
        self._since_slow_s = 0.0
        self._brake_j = np.zeros(n)
        self.trim_learned = np.zeros(n)
        """What the long-term trim has learned of a wrong mixture, %."""
        self.regeneration_s = np.zeros(n)
        """Clock of the particulate filter: edge_simulator.vehicle.exhaust.regeneration_s."""
        self.runaway_k = np.zeros(n)
        """How much hotter than its pack a failing cell is."""
        self._dragging = self._slipping = self._burning = False
        """Which defects somebody has that need work in each step; renewed with the slow step."""
        self._pack_j_k = thermal.cell_j_k(specs("pack_kwh"))
        self.state = initial(specs, rng, ambient_c, soak_s)
        self.drivetrain = Drivetrain(specs, self.state.soc)
        self.drivetrain.settle(self.state, self.charging)
        self._was_on = np.ones(n, dtype=np.bool_)

    def step(self, fleet: Moving, h_s: float) -> None:
        """Follow the fleet's motion over ``h_s`` seconds."""
        st, sp, motion = self.state, self.specs, fleet.state
        on = fleet.ignition_on()
        mean_v = motion.v - (0.5 * h_s) * motion.a
        st.wheel_w = dynamics.road_power_w(
            mean_v, motion.a, motion.slope, sp("mass_kg"), sp("drag_m2"), sp("rolling")
        )
        live = on & ~motion.crashed
        if self._dragging:
            st.wheel_w = st.wheel_w + self.defects.brake_drag_n.sum(axis=0) * mean_v
        if self._burning:
            live &= self.defects.cells_dead < CONTACTORS_OPEN
        self.drivetrain.step(st, motion.v, live, h_s, self.defects.clutch_slip if self._slipping else None)
        if self._burning:
            st.pack_v = st.pack_v * (1 - self.defects.cells_dead)
        self._brake_j += st.brake_w * h_s
        self._crank(on, motion.crashed)
        self._since_slow_s += h_s
        if self._since_slow_s >= SLOW_S - 1e-9:
            self._slow(motion.v, on, self._since_slow_s)
            self._since_slow_s = 0.0

    def _crank(self, on: Bools, crashed: Bools) -> None:
        """A start pulls the 12 V battery down."""
        st = self.state
        starting = on & ~self._was_on & self.cranks & ~crashed
        if starting.any():
            weak = self.defects.battery_weak
            dip = (
                thermal.rest_voltage(st.soc_12v * (1 - weak))
                - self._rng.uniform(1.9, 2.4, len(weak))
                - 1.1 * weak
            )
            st.crank_v = np.where(starting, dip, st.crank_v)
        self._was_on = on

    def _slow(self, v: Floats, on: Bools, h_s: float) -> None:
        """Heat, wear and charge over the last ``h_s`` seconds."""
        self._engine_heat(v, h_s)
        self._electric_heat(on, h_s)
        self._tyres(v, on, h_s)
        self._brakes(v, h_s)
        self._soot(h_s)
        self._electrics(on, h_s)
        self._break(h_s)
        self.drivetrain.settle(self.state, self.charging & ~on)

    def _engine_heat(self, v: Floats, h_s: float) -> None:
        st, sp, running = self.state, self.specs, self.state.rpm > 0
        st.coolant_c = thermal.coolant_step(
            st.coolant_c, np.full(len(v), self.ambient_c), st.fuel_j / h_s, v, h_s, sp("thermal_kj_k"),
            sp("cooling_w_k"), self.defects.cooling_blocked, running, self.defects.thermostat_open,
        )  # fmt: skip
        st.oil_c = thermal.towards(st.oil_c, thermal.oil_target_c(st.coolant_c, running), h_s, thermal.OIL_S)
        st.fuel_j[:] = 0.0

    def _electric_heat(self, on: Bools, h_s: float) -> None:
        st, out = self.state, self.ambient_c
        heat_j = np.zeros(len(st.soc))
        heat_j[self.drivetrain.packs.rows] = self.drivetrain.packs.heat_j
        st.cell_c = thermal.cell_step(st.cell_c, out, heat_j, h_s, self._pack_j_k)
        working = out + 12.0 * on + np.abs(st.wheel_w) / self.specs("power_kw") * 0.12
        st.motor_c = thermal.towards(st.motor_c, working, h_s, thermal.MOTOR_S)

    def _tyres(self, v: Floats, on: Bools, h_s: float) -> None:
        st, rim_c = self.state, self.defects.rim_c
        warm = thermal.tyre_target_c(self.ambient_c, v)
        st.tyre_air_c = thermal.towards(st.tyre_air_c, warm, h_s, thermal.TYRE_S)
        by_rim = thermal.towards(st.tyre_air_c, rim_c, h_s, thermal.RIM_S)
        st.tyre_air_c = np.where(on & (rim_c > st.tyre_air_c), by_rim, st.tyre_air_c)
        flat = thermal.tyre_kpa(st.tyre_mass, self.specs("placard_kpa"), st.tyre_air_c) <= 1.0
        st.tyre_mass = st.tyre_mass * np.where(flat, 1.0, 1 - self.defects.leak_per_s * h_s)

    def _brakes(self, v: Floats, h_s: float) -> None:
        """Discs take the work of the brakes; pads wear by it, faster when the disc is hot."""
        st, disc_kg = self.state, self.specs("disc_kg")
        work_j = brakes.WHEEL_SHARE * self._brake_j + thermal.drag_w(self.defects.brake_drag_n, v) * h_s
        st.pad_wear = st.pad_wear + brakes.pad_wear_pct(work_j, st.disc_c, disc_kg)
        st.disc_c = brakes.disc_step(
            st.disc_c, self.ambient_c, work_j, v, h_s, disc_kg, self.specs("disc_cooling")
        )
        self._brake_j[:] = 0.0

    def _soot(self, h_s: float) -> None:
        st, soot_to = self.state, self.defects.soot_to_pct
        running = self.diesel & (st.rpm > 0)
        self.regeneration_s = exhaust.regeneration_s(self.regeneration_s, st.soot_pct, soot_to, running, h_s)
        st.soot_pct = exhaust.soot_step(st.soot_pct, self.regeneration_s > 0, soot_to, running, h_s)

    def _electrics(self, on: Bools, h_s: float) -> None:
        """The 12 V battery's charge, and the mixture's correction that never rests."""
        st = self.state
        lost = self.defects.charge_lost
        charge = np.where(on, 2e-4 * (0.95 - st.soc_12v) * (1 - lost) - 1.9e-4 * lost, -2e-7)
        st.soc_12v = np.clip(st.soc_12v + charge * h_s, 0.0, 1.0)
        st.trim_short += -st.trim_short * h_s / 8 + 0.9 * np.sqrt(h_s) * self._rng.standard_normal(len(on))

    def _break(self, h_s: float) -> None:
        """What only defects bring about: learned trims, a cell that heats itself; and who needs more work."""
        st, broken = self.state, self.defects
        learn = np.where(st.rpm > 0, broken.mixture_pct, self.trim_learned)
        self.trim_learned = thermal.towards(self.trim_learned, learn, h_s, TRIM_LEARNS_S)
        heated = np.minimum(self.runaway_k + broken.cell_heating_k_s * h_s, RUNAWAY_MOST_K)
        self.runaway_k = np.maximum(heated, 0.0)
        self._dragging = bool(broken.brake_drag_n.any())
        self._slipping = bool(broken.clutch_slip.any())
        self._burning = bool(broken.cells_dead.any())

    def battery_v(self, on: Bools, rows: slice | Ints = slice(None)) -> Floats:
        """Voltage of the 12 V system of ``rows``: charging while on, at rest otherwise."""
        broken = self.defects
        rest = thermal.rest_voltage(self.state.soc_12v[rows] * (1 - broken.battery_weak[rows]))
        lost = broken.charge_lost[rows]
        running = 13.8 + broken.overcharge_v[rows] + lost * (rest - UNDER_LOAD_V - 13.8)
        return np.where(on, running, rest)
