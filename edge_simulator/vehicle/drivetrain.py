"""The powertrains of a fleet, step by step: gears, engines, hybrids, traction batteries.

What does not change is worked out once; what changes slowly (charge, open-circuit voltage, cold friction)
once a second in :meth:`Drivetrain.settle`, which also integrates what a step only adds up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.vehicle import powertrain

if TYPE_CHECKING:
    from edge_simulator.vehicle.machine import MachineState
import numpy as np

from edge_simulator.vehicle.vehicles import Specs

STANDING_KMH = 1.0  # below it no gear is in
HURRY_SHARE = 0.625
HURRY_DELAY = 0.8
"""Asking for this share of the engine's power and more delays the shift up by their product, a half."""


class Gearbox:
    """Gears of a fleet. ``gear`` 0 is none; ``rpm_per_kmh`` is the ratio in force (first gear's in 0)."""

    def __init__(self, specs: Specs) -> None:
        n, most = specs.rpm_per_kmh.shape
        self._all = np.arange(n)
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
        """Shift by at most one gear where it is time; returns the geared speed, rpm, [n_vehicles].

        A driver who asks for power stays in gear for longer.
        """
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
START_LEAST_W, START_MOST_SHARE = 3000.0, 0.8
"""It starts at 3 kW at the least and, of the motor's power, at this share at the most."""
STOP_SHARE = 0.4  # it stops below this share of the starting power
RUN_LEAST_S = 4.0
CHARGE_W_PER_SOC = 120_000.0
CHARGE_MOST_W = 10_000.0
WARM_ENOUGH_C = 45.0  # A colder engine keeps running: for the catalyst and the cabin


class HybridControl:
    """The engines of the hybrids: which run, and their shaft power."""

    def __init__(self, motor_w: Floats) -> None:
        n = len(motor_w)
        self._motor_w = motor_w
        self.running: Bools = np.zeros(n, dtype=np.bool_)
        self._since_s = np.zeros(n)
        self._must: Bools = np.zeros(n, dtype=np.bool_)
        self._low: Bools = np.zeros(n, dtype=np.bool_)
        self._start_w = np.full(n, START_W)
        self._charge_w = np.zeros(n)

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
        start = live & ~self.running & (self._must | (shaft_w > self._start_w))
        easy = ~self._must & (shaft_w < STOP_SHARE * self._start_w) & (self._since_s >= RUN_LEAST_S)
        stop = self.running & (easy | ~live)
        changed = start | stop
        if changed.any():
            self.running = self.running ^ changed
            self._since_s[changed] = 0.0
        return self.running

    def engine_w(self, shaft_w: Floats, most_w: Floats, friction_w: Floats, coupled: Bools) -> Floats:
        """Shaft power of the engines that run: the demand with the charging share, or overrun; else 0.

        The motor covers the difference; where it cannot, the engine does.
        """
        least = np.maximum(shaft_w - self._motor_w, 0.0)
        wanted = np.clip(shaft_w + self._charge_w, least, np.maximum(0.9 * most_w, least))
        dragged = np.where(coupled, np.maximum(shaft_w, -friction_w), 0.0)
        return np.where(self.running, np.where(shaft_w < 0, dragged, wanted), 0.0)


class Engines:
    """Combustion engines: speed, fuel and what they leave to the brakes, [n_vehicles]."""

    def __init__(self, specs: Specs) -> None:
        sp = specs
        self.fitted: Bools = sp("engine_l") > 0
        self.driveline = sp("driveline")
        self.efficiency = np.maximum(sp("efficiency"), 0.01)
        self.belt_w = np.where(sp("motor_kw") > 0, 0.0, 1000 * sp("aux_kw"))
        self._friction_per_rpm = powertrain.friction_w(np.ones(len(sp.model)), sp("fmep_kpa"), sp("engine_l"))
        self._torque, self._rated_w = sp("torque_nm"), 1000 * sp("power_kw")
        self._idle = sp("idle_rpm")
        self.litre_per_j = 1 / (1000 * sp("fuel_kj_per_l"))
        self.settle(np.full(len(sp.model), 90.0), np.full(len(sp.model), 90.0))

    def settle(self, coolant_c: Floats, oil_c: Floats) -> None:
        """A cold engine idles faster (1.7 times below 40 C), its oil drags more (1.8 times at 20 C; eng.)."""
        self.idle_rpm = self._idle * (1 + 0.7 * np.clip((80.0 - coolant_c) / 40.0, 0.0, 1.0))
        self.friction_per_rpm = self._friction_per_rpm * (1 + 0.012 * np.clip(85.0 - oil_c, 0.0, 115.0))

    def most_w(self, rows: Ints, rpm: Floats) -> Floats:
        """What the engines ``rows`` can give."""
        return powertrain.most_w(rpm, self._torque[rows], self._rated_w[rows])

    def load_pct(self, indicated_w: Floats, friction: Floats, rpm: Floats) -> Floats:
        """Calculated load."""
        return powertrain.load_pct(indicated_w, friction, powertrain.most_w(rpm, self._torque, self._rated_w))


class Packs:
    """Traction batteries of the vehicles ``rows`` that have one; all arrays [n_packs]."""

    def __init__(self, specs: Specs, soc: Floats) -> None:
        self.rows: Ints = np.flatnonzero(specs("motor_kw") > 0)
        self.motor_w, self._regen_w, self.aux_w, self._charge_w = (
            1000 * specs(name)[self.rows] for name in ("motor_kw", "regen_kw", "aux_kw", "charge_kw")
        )
        self._nominal_v, self.ohm = specs("pack_v")[self.rows], specs("pack_ohm")[self.rows]
        self._capacity_c = 3.6e6 * specs("pack_kwh")[self.rows] / self._nominal_v
        self.charge_c = np.zeros(len(self.rows))  # charge drawn since the last settling
        self.heat_j = np.zeros(len(self.rows))
        self._prepare(soc[self.rows], np.zeros(len(self.rows), dtype=np.bool_))

    def step(self, motor_w: Floats, live: Bools, h_s: float) -> tuple[Floats, Floats]:
        """Current and voltage for a motor's shaft power."""
        power = powertrain.electric_w(motor_w, self.aux_w) * live - self.charger_w
        amps = powertrain.pack_current_a(power, self.ocv, self.ohm)
        drop = amps * self.ohm
        self.charge_c += amps * h_s
        self.heat_j += drop * amps * h_s
        return amps, self.ocv - drop

    def settle(self, soc: Floats, plugged: Bools) -> Floats:
        """The new charge of the fleet's batteries, [n_packs]; then open-circuit voltage and limits for it."""
        now = np.clip(soc[self.rows] - self.charge_c / self._capacity_c, 0.0, 1.0)
        self.charge_c[:] = 0.0
        self.heat_j[:] = 0.0
        self._prepare(now, plugged[self.rows])
        return now

    def _prepare(self, soc: Floats, plugged: Bools) -> None:
        self.ocv = powertrain.open_circuit_v(soc, self._nominal_v)
        self.regen_most_w = powertrain.regen_most_w(soc, self._regen_w)
        self.charger_w = powertrain.charger_w(soc, self._charge_w) * plugged


class Drivetrain:
    """Everything between fuel or battery and the wheels."""

    def __init__(self, specs: Specs, soc: Floats) -> None:
        self.gearbox = Gearbox(specs)
        self.engines = Engines(specs)
        self.packs = Packs(specs, soc)
        self.hybrids: Ints = np.flatnonzero((specs("motor_kw") > 0) & self.engines.fitted)
        self._in_packs: Ints = np.searchsorted(self.packs.rows, self.hybrids)
        self.control = HybridControl(self.packs.motor_w[self._in_packs])

    def step(self, st: MachineState, v: Floats, live: Bools, h_s: float, worn: Floats | None = None) -> None:
        """Engines, motors and batteries for the power at the wheels over ``h_s`` seconds.

        ``v`` is the speed at the step's end, which gear and engine speed are reported with.
        ``worn`` is what the gearbox slips under load, a share of engine speed; None: nobody's does.
        """
        eng = self.engines
        shaft = powertrain.shaft_w(st.wheel_w, eng.driveline)
        running = live & eng.fitted
        if len(self.hybrids):
            running[self.hybrids] = self.control.decide(shaft[self.hybrids], live[self.hybrids], h_s)
        geared = self.gearbox.shift(v * 3.6, st.wheel_w)
        if worn is not None:
            slip = powertrain.slip(worn, self.gearbox.gear, st.load_pct)
            geared, shaft = geared * (1 + slip), np.where(shaft > 0, shaft * (1 + slip), shaft)
        st.gear = self.gearbox.gear
        st.rpm = np.maximum(geared, eng.idle_rpm) * running
        self._engines(st, shaft, (geared > powertrain.COUPLED_RPM) & running, running, h_s)
        if len(self.packs.rows):
            self._packs(st, shaft, v, live, h_s)

    def _engines(self, st: MachineState, shaft: Floats, coupled: Bools, running: Bools, h_s: float) -> None:
        eng = self.engines
        friction = eng.friction_per_rpm * st.rpm
        st.engine_w = shaft.copy()
        if len(self.hybrids):
            rows = self.hybrids
            most = eng.most_w(rows, st.rpm[rows])
            st.engine_w[rows] = self.control.engine_w(shaft[rows], most, friction[rows], coupled[rows])
        indicated = powertrain.engine_w(st.engine_w, coupled, eng.belt_w, friction) * running
        st.brake_w = powertrain.brakes_w(st.wheel_w, indicated, coupled, eng.driveline)
        st.fuel_w = powertrain.fuel_w(indicated, eng.efficiency)
        st.load_pct = eng.load_pct(indicated, friction, st.rpm)
        burnt_j = st.fuel_w * h_s
        st.fuel_l = np.maximum(st.fuel_l - burnt_j * eng.litre_per_j, 0.0)
        st.fuel_j += burnt_j

    def _packs(self, st: MachineState, shaft: Floats, v: Floats, live: Bools, h_s: float) -> None:
        rows, packs = self.packs.rows, self.packs
        asked, on = shaft[rows], live[rows]
        rest = asked.copy()
        rest[self._in_packs] -= st.engine_w[self.hybrids]
        motor = powertrain.motor_w(rest, asked, v[rows], packs.regen_most_w) * on
        st.brake_w[rows] = np.maximum(motor - rest, 0.0) / self.engines.driveline[rows]
        st.pack_a[rows], st.pack_v[rows] = packs.step(motor, on, h_s)

    def settle(self, st: MachineState, plugged: Bools) -> None:
        """Once a second: charge, and all that follows slowly from charge and heat."""
        rows = self.packs.rows
        soc = st.soc.copy()
        soc[rows] = self.packs.settle(soc, plugged)
        st.soc = soc
        self.engines.settle(st.coolant_c, st.oil_c)
        if len(self.hybrids):
            self.control.plan(st.soc[self.hybrids], st.coolant_c[self.hybrids])
