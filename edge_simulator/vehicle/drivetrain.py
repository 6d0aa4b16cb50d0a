"""The powertrains of a fleet: gears, engines, hybrids, batteries. Powers in W."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.vehicle.vehicles import Specs

if TYPE_CHECKING:
    from edge_simulator.vehicle.machine import MachineState

STANDING_KMH = 1.0  # below it no gear is in
HURRY_SHARE, HURRY_DELAY = 0.625, 0.8  # who asks for this share of power shifts up by their product later


class Gearbox:
    """Gears of a fleet. ``gear`` 0 is none; ``rpm_per_kmh`` is the ratio in force (first gear's in 0)."""

    def __init__(self, specs: Specs) -> None:
        n, most = specs.rpm_per_kmh.shape
        self._ratios = np.hstack([specs.rpm_per_kmh[:, :1], specs.rpm_per_kmh])
        gears = np.arange(most + 1)
        down = np.where(gears > 1, specs("shift_down_rpm")[:, None], 0.0)
        up = np.where(gears < specs.gears[:, None], specs("shift_up_rpm")[:, None], np.inf)
        down[:, 1] = up[:, 0] = STANDING_KMH * specs.rpm_per_kmh[:, 0]
        self._down_rpm, self._up_rpm = down, up
        self._per_w = HURRY_DELAY / (1000 * specs("power_kw"))
        self.gear: Ints = np.zeros(n, dtype=np.int64)
        self.rpm_per_kmh: Floats = self._ratios[:, 0].copy()
        self._down, self._up = down[:, 0].copy(), up[:, 0].copy()

    def shift(self, v_kmh: Floats, wheel_w: Floats) -> Floats:
        """Shift by at most one gear, later where power is asked for; returns the geared speed, rpm."""
        rpm: Floats = self.rpm_per_kmh * v_kmh
        rows = np.flatnonzero((rpm > self._up) | (rpm < self._down))
        if len(rows):
            delay = np.minimum(np.maximum(wheel_w[rows] * self._per_w[rows], 0.0), HURRY_DELAY * HURRY_SHARE)
            late = (rpm[rows] > self._up[rows] * (1 + delay)) | (rpm[rows] < self._down[rows])
            rows = rows[late | (self.gear[rows] == 0)]
            gear = self.gear[rows] + np.where(rpm[rows] > self._up[rows], 1, -1)
            gear[v_kmh[rows] < STANDING_KMH] = 0
            self.gear[rows] = gear
            self.rpm_per_kmh[rows] = self._ratios[rows, gear]
            self._down[rows], self._up[rows] = self._down_rpm[rows, gear], self._up_rpm[rows, gear]
            rpm[rows] = self.rpm_per_kmh[rows] * v_kmh[rows]
        return rpm


TARGET_SOC = 0.60
LOW_SOC = 0.48  # the engine runs from here on until RECOVERED_SOC
RECOVERED_SOC = 0.54
START_W = 12_000.0  # shaft power that starts the engine at the target charge; more charge delays it
START_W_PER_SOC = 120_000.0
START_LEAST_W, START_MOST_SHARE = 3000.0, 0.8  # bounds of the starting power; the share is of the motor's
STOP_SHARE = 0.4  # it stops below this share of the starting power
RUN_LEAST_S = 4.0
CHARGE_W_PER_SOC = 120_000.0
CHARGE_MOST_W = 10_000.0
WARM_ENOUGH_C = 45.0  # A colder engine keeps running: for the catalyst and the cabin


class HybridControl:
    """The engines of the hybrids: which run, and their shaft power. :meth:`plan` comes first."""

    def __init__(self, motor_w: Floats) -> None:
        n = len(motor_w)
        self._motor_w, self._since_s = motor_w, np.zeros(n)
        self._running: Bools = np.zeros(n, dtype=np.bool_)
        self._low: Bools = np.zeros(n, dtype=np.bool_)

    def plan(self, soc: Floats, coolant_c: Floats) -> None:
        """Once a second: when to start and how much to charge, from charge and coolant."""
        self._low = (soc < LOW_SOC) | (self._low & (soc < RECOVERED_SOC))
        self._must = self._low | (coolant_c < WARM_ENOUGH_C)
        over = soc - TARGET_SOC
        most = START_MOST_SHARE * self._motor_w
        self._start_w = np.clip(START_W + START_W_PER_SOC * over, START_LEAST_W, most)
        self._charge_w = np.clip(-CHARGE_W_PER_SOC * over, -CHARGE_MOST_W, CHARGE_MOST_W)

    def decide(self, shaft_w: Floats, live: Bools, h_s: float) -> Bools:
        """Start and stop engines for the power asked for; returns which run."""
        self._since_s += h_s
        start = live & ~self._running & (self._must | (shaft_w > self._start_w))
        easy = ~self._must & (shaft_w < STOP_SHARE * self._start_w) & (self._since_s >= RUN_LEAST_S)
        changed = start | (self._running & (easy | ~live))
        if changed.any():
            self._running = self._running ^ changed
            self._since_s[changed] = 0.0
        return self._running

    def engine_w(self, shaft_w: Floats, most_w: Floats, friction_w: Floats, coupled: Bools) -> Floats:
        """Shaft power of running engines: demand with charging, or overrun; the motor covers what it can."""
        least = np.maximum(shaft_w - self._motor_w, 0.0)
        wanted = np.clip(shaft_w + self._charge_w, least, np.maximum(0.9 * most_w, least))
        dragged = np.where(coupled, np.maximum(shaft_w, -friction_w), 0.0)
        return np.where(self._running, np.where(shaft_w < 0, dragged, wanted), 0.0)


MOTOR = 0.92  # efficiency of motor and inverter, either way
REGEN_SHARE = 0.9  # of braking, as long as motor and battery can; the rest stays with the brakes
REGEN_FADE_MPS = 3.0  # below it the motor's share falls to nothing at standstill
FULL_SOC = 0.98  # A battery takes no braking energy from here on; 4 points below it takes all


class Packs:
    """Traction batteries of the vehicles ``rows`` that have one; all arrays [n_packs]."""

    def __init__(self, specs: Specs) -> None:
        self.rows: Ints = np.flatnonzero(specs("motor_kw") > 0)
        self.motor_w, self._regen_w, self._aux_w, self._charge_w = (
            1000 * specs(name)[self.rows] for name in ("motor_kw", "regen_kw", "aux_kw", "charge_kw")
        )
        self._nominal_v, self._ohm = specs("pack_v")[self.rows], specs("pack_ohm")[self.rows]
        self._capacity_c = 3.6e6 * specs("pack_kwh")[self.rows] / self._nominal_v
        self._charge_c = np.zeros(len(self.rows))  # charge drawn since the last settling
        self.heat_j = np.zeros(len(self.rows))

    def step(self, motor_w: Floats, live: Bools, h_s: float) -> tuple[Floats, Floats]:
        """Current (the smaller root of P = (OCV - I R) I, discharge positive) and voltage for a power."""
        electric_w = np.maximum(motor_w / MOTOR, motor_w * MOTOR) + self._aux_w
        power_w = electric_w * live - self._charger_w
        root = np.sqrt(np.maximum(self._ocv * self._ocv - 4 * self._ohm * power_w, 0.0))
        amps = (self._ocv - root) / (2 * self._ohm)
        drop = amps * self._ohm
        self._charge_c += amps * h_s
        self.heat_j += drop * amps * h_s
        return amps, self._ocv - drop

    def settle(self, soc: Floats, plugged: Bools) -> Floats:
        """The new charge, [n_packs], from the fleet's; then what follows from it until the next settling."""
        soc = np.clip(soc[self.rows] - self._charge_c / self._capacity_c, 0.0, 1.0)
        self._charge_c[:] = self.heat_j[:] = 0.0
        self._ocv = self._nominal_v * (0.88 + 0.20 * soc - 0.06 * np.exp(-18 * soc) + 0.03 * soc**6)
        self.regen_most_w = self._regen_w * np.clip((FULL_SOC - soc) / 0.04, 0.0, 1.0)
        # a charger's power is constant to 80 %, then falls to nothing when full
        self._charger_w = self._charge_w * np.clip((1.0 - soc) / 0.2, 0.0, 1.0) * plugged[self.rows]
        return soc


COUPLED_RPM = 1100.0  # below it the clutch is open while braking, so the wheels drive no engine


class Drivetrain:
    """Everything between fuel or battery and the wheels."""

    def __init__(self, specs: Specs, st: MachineState, plugged: Bools) -> None:
        sp = specs
        self._fitted: Bools = sp("engine_l") > 0
        self._driveline, self._torque, self._rated_w = sp("driveline"), sp("torque_nm"), 1000 * sp("power_kw")
        self.efficiency = np.maximum(sp("efficiency"), 0.01)
        self._belt_w = np.where(sp("motor_kw") > 0, 0.0, 1000 * sp("aux_kw"))
        self._friction_per_rpm = sp("fmep_kpa") * sp("engine_l") / 120.0  # P = fmep Vd rpm / 120
        self._idle_rpm, self._litre_per_j = sp("idle_rpm"), 1 / (1000 * sp("fuel_kj_per_l"))
        self._gearbox, self.packs = Gearbox(sp), Packs(sp)
        self.hybrids: Ints = np.flatnonzero((sp("motor_kw") > 0) & self._fitted)
        self._in_packs: Ints = np.searchsorted(self.packs.rows, self.hybrids)
        self._control = HybridControl(self.packs.motor_w[self._in_packs])
        self.settle(st, plugged)

    def settle(self, st: MachineState, plugged: Bools) -> None:
        """Once a second: charge, and what follows; a cold engine idles faster, its oil drags (eng.)."""
        st.soc = st.soc.copy()
        st.soc[self.packs.rows] = self.packs.settle(st.soc, plugged)
        self.idle_rpm = self._idle_rpm * (1 + 0.7 * np.clip((80.0 - st.coolant_c) / 40.0, 0.0, 1.0))
        drag = 1 + 0.012 * np.clip(85.0 - st.oil_c, 0.0, 115.0)
        self.friction_per_rpm = self._friction_per_rpm * drag
        if len(self.hybrids):
            self._control.plan(st.soc[self.hybrids], st.coolant_c[self.hybrids])

    def step(self, st: MachineState, v: Floats, live: Bools, h_s: float, worn: Floats | None = None) -> None:
        """Engines, motors and batteries for the power at the wheels over ``h_s`` seconds.

        ``v`` is the speed at the end, ``worn`` what gearboxes slip under load, a share of engine speed.
        """
        hybrids = self.hybrids
        shaft = np.maximum(st.wheel_w / self._driveline, st.wheel_w * self._driveline)
        running = live & self._fitted
        if len(hybrids):
            running[hybrids] = self._control.decide(shaft[hybrids], live[hybrids], h_s)
        geared = self._gearbox.shift(v * 3.6, st.wheel_w)
        st.gear = self._gearbox.gear
        if worn is not None:  # all of it above 40 % load, none below 25 %
            slip = np.where(st.gear > 0, worn * np.clip((st.load_pct - 25.0) / 15.0, 0.0, 1.0), 0.0)
            geared, shaft = geared * (1 + slip), np.where(shaft > 0, shaft * (1 + slip), shaft)
        coupled = (geared > COUPLED_RPM) & running
        st.rpm = np.maximum(geared, self.idle_rpm) * running
        friction = self.friction_per_rpm * st.rpm
        torque_share = np.minimum(1.0, 0.55 + 0.45 * st.rpm / 2000.0)
        most = np.minimum(self._torque * torque_share * st.rpm * np.pi / 30.0, self._rated_w)
        st.engine_w = shaft.copy()
        if len(hybrids):
            args = (most[hybrids], friction[hybrids], coupled[hybrids])
            st.engine_w[hybrids] = self._control.engine_w(shaft[hybrids], *args)
        # a negative shaft power reaches only an engine that is coupled to the wheels; none burns fuel then
        indicated = (np.maximum(st.engine_w, st.engine_w * coupled) + self._belt_w + friction) * running
        st.brake_w = np.maximum(-np.where(coupled, indicated / self._driveline, st.wheel_w), 0.0)
        st.fuel_w = np.maximum(indicated, 0.0) / self.efficiency  # Willans' line
        st.load_pct = np.clip(100 * indicated / np.maximum(most + friction, 1.0), 0.0, 100.0)
        burnt_j = st.fuel_w * h_s
        st.fuel_l = np.maximum(st.fuel_l - burnt_j * self._litre_per_j, 0.0)
        st.fuel_j += burnt_j
        rows, packs = self.packs.rows, self.packs
        if len(rows):
            rest = shaft[rows]
            rest[self._in_packs] -= st.engine_w[hybrids]
            share = REGEN_SHARE * np.minimum(v[rows] / REGEN_FADE_MPS, 1.0)  # the motor's of a braking
            motor = (
                np.where(shaft[rows] < 0, np.maximum(rest * share, -packs.regen_most_w), rest) * live[rows]
            )
            st.brake_w[rows] = np.maximum(motor - rest, 0.0) / self._driveline[rows]
            st.pack_a[rows], st.pack_v[rows] = packs.step(motor, live[rows], h_s)
