"""What happens under the bonnet: engine or battery each step, heat and wear about once a second.

State as arrays [n_vehicles] (wheels: [4, n_vehicles], order of infra.contract.signals.WHEELS). Faults change
the arrays of :class:`Defects`; the physics does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import dynamics
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.drivetrain import LOW_SOC, Drivetrain
from edge_simulator.vehicle.vehicles import Specs


@dataclass(slots=True)
class Defects:
    """Each [n_vehicles], by wheel [4, n_vehicles] in the order of infra.contract.signals.WHEELS.

    All zero is healthy; ``coolant_held_c`` alone is NaN where the sensor is sound.
    """

    cooling_blocked: Floats  # share of the cooling that is gone, 0..1
    thermostat_open: Floats  # how far the thermostat sticks open, 0..1
    oil_lost: Floats  # share of the oil pressure that is gone, 0..1
    battery_weak: Floats  # share of the 12 V battery's capacity that is gone, 0..1
    charge_lost: Floats  # share of the alternator's output that is gone, 0..1
    overcharge_v: Floats  # what the regulator gives too much, V
    clutch_slip: Floats  # engine speed over what the gear makes of the road speed, less 1, under load
    mixture_pct: Floats  # what the fuel trims have to add (lean) or take away (rich), %
    soot_to_pct: Floats  # soot that a filter which cannot regenerate fills up to, %; 0 is sound
    cell_apart_v: Floats  # how far the weakest cell is below the others, V
    cell_heating_k_s: Floats  # self-heating of a failing cell, K/s
    cells_dead: Floats  # share of the pack's voltage that failing cells take away, 0..1
    leak_per_s: Floats  # share of a tyre's air lost each second, [4, n]
    rim_c: Floats  # temperature of a rim that a fault heats while the ignition is on, [4, n]; 0 is sound
    brake_drag_n: Floats  # force of a brake that does not let go, at the wheel's rim, N, [4, n]
    coolant_held_c: Floats  # reading that a stuck coolant sensor holds, NaN where it is sound

    @classmethod
    def none(cls, n: int) -> Defects:
        """A healthy fleet of ``n``."""
        by_wheel = {name: np.zeros((4, n)) for name in ("leak_per_s", "rim_c", "brake_drag_n")}
        names = [f for f in cls.__dataclass_fields__ if f not in by_wheel and f != "coolant_held_c"]
        return cls(**{f: np.zeros(n) for f in names}, **by_wheel, coolant_held_c=np.full(n, np.nan))


MATES_APART = 0.003
"""Half the most that healthy tyres of an axle differ by, as a share of their air: 6 kPa for a truck."""


@dataclass(slots=True)
class MachineState:
    """The quantities that change, each [n_vehicles] unless said; powers in W are means over the last step."""

    gear: Ints
    rpm: Floats
    wheel_w: Floats
    engine_w: Floats  # shaft power of the engine, or what the gearbox asks for where there is none
    brake_w: Floats  # power into the friction brakes, at the wheels, >= 0
    fuel_w: Floats
    fuel_j: Floats  # fuel burnt since heat was last worked out
    load_pct: Floats
    fuel_l: Floats
    coolant_c: Floats
    oil_c: Floats
    disc_c: Floats  # brake discs, [4, n_vehicles]. No signal carries them.
    tyre_mass: Floats  # air in the tyre relative to the placard's, [4, n_vehicles]; so are the next two
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
    crank_v: Floats  # lowest voltage of a start that the next report still has to tell, inf when none


def initial(
    specs: Specs, rng: np.random.Generator, ambient_c: float, soak_s: Floats | None = None
) -> MachineState:
    """The state after ``soak_s`` seconds of standing, [n_vehicles]; none: on the road for a while."""
    n = len(specs.model)
    coolant = np.where(specs("engine_l") > 0, rng.uniform(82, 89, n), ambient_c)
    air = ambient_c + rng.uniform(4, 16, (4, n))
    state = MachineState(
        gear=np.zeros(n, dtype=np.int64), rpm=np.zeros(n), wheel_w=np.zeros(n), engine_w=np.zeros(n),
        brake_w=np.zeros(n), fuel_w=np.zeros(n), fuel_j=np.zeros(n), load_pct=np.zeros(n),
        fuel_l=specs("tank_l") * rng.uniform(0.25, 0.98, n), coolant_c=coolant,
        oil_c=coolant + rng.uniform(-4, 5, n), disc_c=np.full((4, n), ambient_c + 30.0),
        tyre_mass=_inflated(rng, n), tyre_air_c=air,
        pad_wear=rng.uniform(5, 70, n)[None, :] + rng.uniform(-3, 3, (4, n)), soot_pct=rng.uniform(8, 70, n),
        soc=rng.uniform(0.35, 0.95, n), pack_a=np.zeros(n), pack_v=specs("pack_v").copy(),
        cell_c=ambient_c + rng.uniform(2, 9, n), motor_c=ambient_c + rng.uniform(10, 30, n),
        soc_12v=rng.uniform(0.75, 0.95, n), trim_short=rng.normal(0, 1.5, n), crank_v=np.full(n, np.inf),
    )  # fmt: skip
    hybrid = (specs("engine_l") > 0) & (specs("motor_kw") > 0)
    state.soc = np.where(hybrid, LOW_SOC + 0.3 * (state.soc - 0.35), state.soc)
    if soak_s is not None:
        _cool(state, specs, ambient_c, soak_s)
    return state


def _inflated(rng: np.random.Generator, n: int) -> Floats:
    """Air in the tyres, [4, n]: axles are off by a few kPa, the two wheels of an axle hardly differ."""
    drawn = rng.normal(0.0, 0.012, (4, n))
    axle = (drawn[0::2] + drawn[1::2]) / 2
    apart = np.clip(0.15 * (drawn[0::2] - drawn[1::2]), -MATES_APART, MATES_APART)
    return 1 + np.stack([axle[0] + apart[0], axle[0] - apart[0], axle[1] + apart[1], axle[1] - apart[1]])


def _cool(state: MachineState, specs: Specs, ambient_c: float, soak_s: Floats) -> None:
    """Let everything warm approach the ambient temperature, each with its own time constant."""
    engine_s = 1000 * specs("thermal_kj_k") / specs("cooling_w_k")
    cells_s = thermal.cell_j_k(specs("pack_kwh")) / thermal.CELL_W_K
    taus: dict[str, Floats | float] = {
        "coolant_c": engine_s, "oil_c": engine_s, "disc_c": thermal.DISC_STANDING_S,
        "tyre_air_c": thermal.TYRE_S, "cell_c": cells_s, "motor_c": thermal.MOTOR_S,
    }  # fmt: skip
    for name, tau_s in taus.items():
        warm = getattr(state, name)
        setattr(state, name, ambient_c + (warm - ambient_c) * np.exp(-soak_s / tau_s))


SLOW_S = 1.0
PETROL_MAF = 0.329  # petrol l/h per g/s of air
CONTACTORS_OPEN = 0.02  # share of dead cells from which on a pack's contactors open: no more drive
TRIM_LEARNS_S = 120.0
UNDER_LOAD_V = 0.15  # what consumers take off a 12 V battery that nothing charges
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
        rng.normal(0.0, 0.006, (4, n))  # read by nobody; without it all that is drawn later would change
        self._rng = rng
        self._since_slow_s = 0.0
        self._brake_j = np.zeros(n)
        self.trim_learned = np.zeros(n)  # what the long-term trim has learned of a wrong mixture, %
        self.regeneration_s = np.zeros(n)
        """Clock of the particulate filter: edge_simulator.vehicle.thermal.regeneration_s."""
        self.runaway_k = np.zeros(n)  # how much hotter than its pack a failing cell is
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
            at_rest = thermal.rest_voltage(st.soc_12v * (1 - weak))
            dip = at_rest - self._rng.uniform(1.9, 2.4, len(weak)) - 1.1 * weak
            st.crank_v = np.where(starting, dip, st.crank_v)
        self._was_on = on

    def _slow(self, v: Floats, on: Bools, h_s: float) -> None:
        """Heat, wear and charge over the last ``h_s`` seconds."""
        self._heat(v, on, h_s)
        self._tyres(v, on, h_s)
        self._brakes_and_filter(v, h_s)
        self._electrics(on, h_s)
        self._break(h_s)
        self.drivetrain.settle(self.state, self.charging & ~on)

    def _heat(self, v: Floats, on: Bools, h_s: float) -> None:
        st, sp, running, out = self.state, self.specs, self.state.rpm > 0, self.ambient_c
        st.coolant_c = thermal.coolant_step(
            st.coolant_c, np.full(len(v), out), st.fuel_j / h_s, v, h_s, sp("thermal_kj_k"),
            sp("cooling_w_k"), self.defects.cooling_blocked, running, self.defects.thermostat_open,
        )  # fmt: skip
        oil_to_c = st.coolant_c + 6.0 * running  # a little above the coolant; the block's heat when off
        st.oil_c = thermal.towards(st.oil_c, oil_to_c, h_s, thermal.OIL_S)
        st.fuel_j[:] = 0.0
        heat_j = np.zeros(len(st.soc))
        heat_j[self.drivetrain.packs.rows] = self.drivetrain.packs.heat_j
        lost_j = thermal.CELL_W_K * h_s * (st.cell_c - out)
        st.cell_c = st.cell_c + (heat_j - lost_j) / self._pack_j_k  # C dT/dt = I^2 R - UA (T - Ta)
        working = out + 12.0 * on + np.abs(st.wheel_w) / sp("power_kw") * 0.12
        st.motor_c = thermal.towards(st.motor_c, working, h_s, thermal.MOTOR_S)

    def _tyres(self, v: Floats, on: Bools, h_s: float) -> None:
        st, rim_c = self.state, self.defects.rim_c
        warm = thermal.tyre_target_c(self.ambient_c, v)
        st.tyre_air_c = thermal.towards(st.tyre_air_c, warm, h_s, thermal.TYRE_S)
        by_rim = thermal.towards(st.tyre_air_c, rim_c, h_s, thermal.RIM_S)
        st.tyre_air_c = np.where(on & (rim_c > st.tyre_air_c), by_rim, st.tyre_air_c)
        flat = thermal.tyre_kpa(st.tyre_mass, self.specs("placard_kpa"), st.tyre_air_c) <= 1.0
        st.tyre_mass = st.tyre_mass * np.where(flat, 1.0, 1 - self.defects.leak_per_s * h_s)

    def _brakes_and_filter(self, v: Floats, h_s: float) -> None:
        """Discs take the work of the brakes, pads wear by it; soot gathers and burns."""
        st, disc_kg = self.state, self.specs("disc_kg")
        dragged_w = self.defects.brake_drag_n * v  # a brake that does not let go: force times the way
        work_j = thermal.WHEEL_SHARE * self._brake_j + dragged_w * h_s
        st.pad_wear = st.pad_wear + thermal.pad_wear_pct(work_j, st.disc_c, disc_kg)
        st.disc_c = thermal.disc_step(
            st.disc_c, self.ambient_c, work_j, v, h_s, disc_kg, self.specs("disc_cooling")
        )
        self._brake_j[:] = 0.0
        soot_to = self.defects.soot_to_pct
        running = self.diesel & (st.rpm > 0)
        self.regeneration_s = thermal.regeneration_s(self.regeneration_s, st.soot_pct, soot_to, running, h_s)
        st.soot_pct = thermal.soot_step(st.soot_pct, self.regeneration_s > 0, soot_to, running, h_s)

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
