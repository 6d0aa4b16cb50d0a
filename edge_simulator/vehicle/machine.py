"""What happens under the bonnet: powertrain each step, heat and wear each second. Arrays [n_vehicles]."""

from typing import Protocol

import numpy as np
from numpy.random import Generator

from edge_simulator.geo import Bools, Floats, Ints, Rows
from edge_simulator.motion import dynamics
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.drivetrain import LOW_SOC, Drivetrain
from edge_simulator.vehicle.vehicles import Specs


class Defects:
    """Each [n_vehicles], by wheel [4, n_vehicles] in the order of signals.WHEELS; all zero is healthy."""

    def __init__(self, n: int) -> None:
        self.cooling_blocked = np.zeros(n)  # share of the cooling that is gone, 0..1
        self.thermostat_open = np.zeros(n)  # how far the thermostat sticks open, 0..1
        self.oil_lost = np.zeros(n)  # share of the oil pressure that is gone, 0..1
        self.battery_weak = np.zeros(n)  # share of the 12 V battery's capacity that is gone, 0..1
        self.charge_lost = np.zeros(n)  # share of the alternator's output that is gone, 0..1
        self.overcharge_v = np.zeros(n)  # what the regulator gives too much, V
        self.clutch_slip = np.zeros(n)  # engine speed over what the gear makes of it, less 1, under load
        self.mixture_pct = np.zeros(n)  # what the fuel trims have to add (lean) or take away (rich), %
        self.soot_to_pct = np.zeros(n)  # soot that a filter that cannot regenerate fills up to, %; 0 is sound
        self.cell_apart_v = np.zeros(n)  # how far the weakest cell is below the others, V
        self.cell_heating_k_s = np.zeros(n)  # self-heating of a failing cell, K/s
        self.cells_dead = np.zeros(n)  # share of the pack's voltage that failing cells take away, 0..1
        self.leak_per_s = np.zeros((4, n))  # share of a tyre's air lost each second
        self.rim_c = np.zeros((4, n))  # of a rim that a fault heats while the ignition is on; 0 is sound
        self.brake_drag_n = np.zeros((4, n))  # force of a brake that does not let go, at the wheel's rim, N
        self.coolant_held_c = np.full(n, np.nan)  # reading that a stuck sensor holds


WARM_C = 65.0  # of the coolant: only above it fuel trims say anything
MATES_APART = 0.003  # half the most that tyres of an axle differ by, as a share of air: 6 kPa for a truck


class MachineState:
    """What changes, each [n_vehicles] unless said; powers in W are means over the last step.

    Begins after ``soak_s`` seconds of standing, [n_vehicles]; None: on the road for a while.
    """

    def __init__(self, specs: Specs, rng: Generator, ambient_c: float, soak_s: Floats | None = None) -> None:
        n = len(specs.model)
        fitted, hybrid = specs("engine_l") > 0, (specs("engine_l") > 0) & (specs("motor_kw") > 0)
        self.gear: Ints = np.zeros(n, dtype=np.int64)
        self.rpm, self.wheel_w, self.load_pct = np.zeros(n), np.zeros(n), np.zeros(n)
        self.engine_w = np.zeros(n)  # at the engine's shaft, or asked for at the gearbox where there is none
        self.brake_w = np.zeros(n)  # into the friction brakes, at the wheels, >= 0
        self.fuel_w, self.fuel_j = np.zeros(n), np.zeros(n)  # J burnt since heat was last worked out
        self.coolant_c = np.where(fitted, rng.uniform(82, 89, n), ambient_c)
        self.tyre_air_c = ambient_c + rng.uniform(4, 16, (4, n))  # [4, n_vehicles]
        self.fuel_l = specs("tank_l") * rng.uniform(0.25, 0.98, n)
        self.oil_c = self.coolant_c + rng.uniform(-4, 5, n)
        self.disc_c = np.full((4, n), ambient_c + 30.0)  # brake discs, [4, n_vehicles]; no signal has them
        # air relative to the placard's: axles are off by a few kPa, the two wheels of one hardly differ
        drawn = rng.normal(0.0, 0.012, (4, n))
        axle = (drawn[0::2] + drawn[1::2]) / 2
        apart = np.clip(0.15 * (drawn[0::2] - drawn[1::2]), -MATES_APART, MATES_APART)
        self.tyre_mass = 1 + np.stack([axle + apart, axle - apart], axis=1).reshape(4, n)
        self.pad_wear = rng.uniform(5, 70, n)[None, :] + rng.uniform(-3, 3, (4, n))  # [4, n_vehicles]
        self.soot_pct = rng.uniform(8, 70, n)
        soc = rng.uniform(0.35, 0.95, n)
        self.soc = np.where(hybrid, LOW_SOC + 0.3 * (soc - 0.35), soc)
        self.pack_a, self.pack_v = np.zeros(n), specs("pack_v").copy()
        self.cell_c = ambient_c + rng.uniform(2, 9, n)
        self.motor_c = ambient_c + rng.uniform(10, 30, n)
        self.soc_12v = rng.uniform(0.75, 0.95, n)
        self.trim_short = rng.normal(0, 1.5, n)
        self.crank_v = np.full(n, np.inf)  # lowest voltage of the last start, inf before one
        if soak_s is not None:  # what is warm has approached the ambient, each with its own time constant
            engine_s = 1000 * specs("thermal_kj_k") / specs("cooling_w_k")
            cells_s = thermal.cell_j_k(specs("pack_kwh")) / thermal.CELL_W_K
            taus: dict[str, Floats | float] = {
                "coolant_c": engine_s, "oil_c": engine_s, "disc_c": thermal.DISC_STANDING_S,
                "tyre_air_c": thermal.TYRE_S, "cell_c": cells_s, "motor_c": thermal.MOTOR_S,
            }  # fmt: skip
            for name, tau_s in taus.items():
                warm = getattr(self, name)
                setattr(self, name, ambient_c + (warm - ambient_c) * np.exp(-soak_s / tau_s))


SLOW_S = 1.0
PETROL_MAF = 0.329  # petrol l/h per g/s of air
CONTACTORS_OPEN = 0.02  # share of dead cells from which on a pack's contactors open: no more drive
TRIM_LEARNS_S = 120.0
UNDER_LOAD_V = 0.15  # what consumers take off a 12 V battery that nothing charges
RUNAWAY_MOST_K = 160.0


class Motion(Protocol):
    """What the machine needs to know of a motion at a step's end, each [n_vehicles]."""

    v: Floats
    a: Floats
    slope: Floats
    crashed: Bools


class Machine:
    """Powertrain and heat of a fleet; ``soak_s``: stood before the start; ``charging``: set from outside."""

    def __init__(self, specs: Specs, rng: Generator, ambient_c: float, soak_s: Floats | None = None) -> None:
        n = len(specs.model)
        self.specs, self.ambient_c, self._rng = specs, ambient_c, rng
        self.electric = specs("engine_l") == 0
        self.diesel = specs("fuel_kj_per_l") > 34_000
        self._cranks = ~self.electric & (specs("motor_kw") == 0)  # the others start by their traction battery
        self.charging: Bools = np.zeros(n, dtype=np.bool_)
        self.defects = Defects(n)
        self.trim_long = rng.normal(0.0, 2.0, n)
        self.cell_spread_v = rng.uniform(0.004, 0.016, n)
        self.soh_pct = rng.uniform(86, 99, n)
        rng.normal(0.0, 0.006, (4, n))  # read by nobody; without it all that is drawn later would change
        self._since_slow_s = 0.0
        self._brake_j = np.zeros(n)
        self.trim_learned = np.zeros(n)  # what the long-term trim has learned of a wrong mixture, %
        self.engine_s = np.zeros(n)  # how long the engine has run, to a second at each start and stop
        self.warm_s = np.zeros(n)  # and how long of that with its coolant above WARM_C
        self.regeneration_s = np.zeros(n)  # clock of the particulate filter: thermal.regeneration_s
        self.runaway_k = np.zeros(n)  # how much hotter than its pack a failing cell is
        self._dragging = self._slipping = self._burning = False  # whether somebody does; by the slow step
        self._pack_j_k = thermal.cell_j_k(specs("pack_kwh"))
        self.state = MachineState(specs, rng, ambient_c, soak_s)
        self.drivetrain = Drivetrain(specs, self.state, self.charging)
        self._was_on = np.ones(n, dtype=np.bool_)

    def step(self, motion: Motion, on: Bools, h_s: float) -> None:
        """Go on by ``h_s`` seconds; ``on`` is the ignition."""
        st, sp, broken = self.state, self.specs, self.defects
        mean_v = motion.v - (0.5 * h_s) * motion.a
        resistance = sp("mass_kg"), sp("drag_m2"), sp("rolling")
        st.wheel_w = dynamics.road_power_w(mean_v, motion.a, motion.slope, *resistance)
        live = on & ~motion.crashed
        if self._dragging:
            st.wheel_w = st.wheel_w + broken.brake_drag_n.sum(axis=0) * mean_v
        if self._burning:
            live &= broken.cells_dead < CONTACTORS_OPEN
        self.drivetrain.step(st, motion.v, live, h_s, broken.clutch_slip if self._slipping else None)
        if self._burning:
            st.pack_v = st.pack_v * (1 - broken.cells_dead)
        self._brake_j += st.brake_w * h_s
        starting = on & ~self._was_on & self._cranks & ~motion.crashed
        if starting.any():  # a start pulls the 12 V battery down
            weak = broken.battery_weak
            at_rest = thermal.rest_voltage(st.soc_12v * (1 - weak))
            dip = at_rest - self._rng.uniform(1.9, 2.4, len(weak)) - 1.1 * weak
            st.crank_v = np.where(starting, dip, st.crank_v)
        self._was_on = on
        self._since_slow_s += h_s
        if self._since_slow_s >= SLOW_S - 1e-9:
            self._heat(motion.v, on, self._since_slow_s)
            self._wear(motion.v, on, self._since_slow_s)
            self.drivetrain.settle(st, self.charging & ~on)
            self._since_slow_s = 0.0

    def _heat(self, v: Floats, on: Bools, h_s: float) -> None:
        """Temperatures and pressures after another ``h_s`` seconds; a cell that heats itself."""
        st, sp, broken, out = self.state, self.specs, self.defects, self.ambient_c
        running = st.rpm > 0
        self.engine_s += h_s * running
        self.warm_s += h_s * (running & (st.coolant_c > WARM_C))
        st.coolant_c = thermal.coolant_step(
            st.coolant_c, np.full(len(v), out), st.fuel_j / h_s, v, h_s, sp("thermal_kj_k"),
            sp("cooling_w_k"), broken.cooling_blocked, running, broken.thermostat_open,
        )  # fmt: skip
        oil_to_c = st.coolant_c + 6.0 * running  # a little above the coolant; the block's heat when off
        st.oil_c = thermal.towards(st.oil_c, oil_to_c, h_s, thermal.OIL_S)
        st.fuel_j[:] = 0.0
        heat_j = np.zeros(len(st.soc))
        heat_j[self.drivetrain.packs.rows] = self.drivetrain.packs.heat_j
        lost_j = thermal.CELL_W_K * h_s * (st.cell_c - out)
        st.cell_c = st.cell_c + (heat_j - lost_j) / self._pack_j_k  # C dT/dt = I^2 R - UA (T - Ta)
        heated = np.minimum(self.runaway_k + broken.cell_heating_k_s * h_s, RUNAWAY_MOST_K)
        self.runaway_k = np.maximum(heated, 0.0)
        working = out + 12.0 * on + np.abs(st.wheel_w) / sp("power_kw") * 0.12
        st.motor_c = thermal.towards(st.motor_c, working, h_s, thermal.MOTOR_S)
        st.tyre_air_c = thermal.towards(st.tyre_air_c, thermal.tyre_target_c(out, v), h_s, thermal.TYRE_S)
        by_rim = thermal.towards(st.tyre_air_c, broken.rim_c, h_s, thermal.RIM_S)
        st.tyre_air_c = np.where(on & (broken.rim_c > st.tyre_air_c), by_rim, st.tyre_air_c)
        flat = thermal.tyre_kpa(st.tyre_mass, sp("placard_kpa"), st.tyre_air_c) <= 1.0
        st.tyre_mass = st.tyre_mass * np.where(flat, 1.0, 1 - broken.leak_per_s * h_s)

    def _wear(self, v: Floats, on: Bools, h_s: float) -> None:
        """Discs take the brakes' work, pads wear by it; soot; the 12 V battery's charge; the fuel trims."""
        st, broken, disc_kg = self.state, self.defects, self.specs("disc_kg")
        dragged_w = broken.brake_drag_n * v  # a brake that does not let go: force times the way
        work_j = thermal.WHEEL_SHARE * self._brake_j + dragged_w * h_s
        st.pad_wear = st.pad_wear + thermal.pad_wear_pct(work_j, st.disc_c, disc_kg)
        cooling = self.specs("disc_cooling")
        st.disc_c = thermal.disc_step(st.disc_c, self.ambient_c, work_j, v, h_s, disc_kg, cooling)
        self._brake_j[:] = 0.0
        running = st.rpm > 0
        self.regeneration_s, st.soot_pct = thermal.soot_step(
            self.regeneration_s, st.soot_pct, broken.soot_to_pct, self.diesel & running, h_s
        )
        lost = broken.charge_lost
        charge = np.where(on, 2e-4 * (0.95 - st.soc_12v) * (1 - lost) - 1.9e-4 * lost, -2e-7)
        st.soc_12v = np.clip(st.soc_12v + charge * h_s, 0.0, 1.0)
        st.trim_short += -st.trim_short * h_s / 8 + 0.9 * np.sqrt(h_s) * self._rng.standard_normal(len(on))
        learn = np.where(running, broken.mixture_pct, self.trim_learned)
        self.trim_learned = thermal.towards(self.trim_learned, learn, h_s, TRIM_LEARNS_S)
        self._dragging = bool(broken.brake_drag_n.any())
        self._slipping = bool(broken.clutch_slip.any())
        self._burning = bool(broken.cells_dead.any())

    def battery_v(self, on: Bools, rows: Rows = slice(None)) -> Floats:
        """Voltage of the 12 V system of ``rows``: charging while on, at rest otherwise."""
        broken = self.defects
        rest = thermal.rest_voltage(self.state.soc_12v[rows] * (1 - broken.battery_weak[rows]))
        lost = broken.charge_lost[rows]
        running = 13.8 + broken.overcharge_v[rows] + lost * (rest - UNDER_LOAD_V - 13.8)
        return np.where(on, running, rest)
