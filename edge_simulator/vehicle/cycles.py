"""Published driving cycles, and a drive of the fleet's own machine physics along them.

The four traces are the published ones, second by second (traces/, with their source), nothing approximated.
Between two seconds the speed is interpolated: the acceleration of each second is constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_simulator.geo import Bools, Floats
from edge_simulator.motion import dynamics
from edge_simulator.vehicle import hybrid, powertrain
from edge_simulator.vehicle.machine import Machine
from edge_simulator.vehicle.vehicles import MODELS, VehicleModel, specs

STEP_S = 0.1
TRACES = Path(__file__).with_name("traces")
MPH_MPS, KMH_MPS = 0.44704, 1 / 3.6
AMBIENT_C = 23.0
WARM_C = 90.0
START_SOC = 0.8
STANDING_MPS = 0.1
MISSED_MPS = 2.0 / 3.6
"""Below the trace by more than this, a vehicle is too weak for it at that moment."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle and its published figures."""

    name: str
    trace: str
    unit_mps: float
    """What 1 in the trace's file stands for, m/s."""
    duration_s: int
    distance_km: float
    mean_kmh: float
    max_kmh: float

    def v_mps(self) -> Floats:
        """The published speed at 1 Hz, [duration_s + 1]."""
        lines = (TRACES / self.trace).read_text(encoding="utf-8").splitlines()
        numbers = " ".join(line for line in lines if not line.startswith("#")).split()
        return self.unit_mps * np.array(numbers, dtype=np.float64)

    def at_10_hz(self) -> Floats:
        """The speed at each step's end, [10 * duration_s]."""
        trace = self.v_mps()
        ends_s = np.arange(1, 10 * (len(trace) - 1) + 1) * STEP_S
        speeds: Floats = np.interp(ends_s, np.arange(len(trace)), trace)
        return speeds


CYCLES: tuple[Cycle, ...] = (
    Cycle("UDDS", "udds.txt", MPH_MPS / 10, 1369, 11.99, 31.5, 91.25),
    Cycle("HWFET", "hwfet.txt", MPH_MPS / 10, 765, 16.51, 77.7, 96.4),
    Cycle("US06", "us06.txt", MPH_MPS / 10, 600, 12.89, 77.3, 129.2),
    Cycle("WLTC-3b", "wltc-3b.txt", KMH_MPS / 10, 1800, 23.27, 46.5, 131.3),
)


@dataclass(slots=True)
class Ride:
    """The movement that :class:`edge_simulator.vehicle.machine.Machine` follows, each [n_vehicles]."""

    v: Floats
    a: Floats
    slope: Floats
    crashed: Bools
    on: Bools

    @classmethod
    def standing(cls, n: int) -> Ride:
        """``n`` vehicles at rest on the level, ignition on."""
        return cls(
            np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
        )

    @property
    def state(self) -> Ride:
        """Itself: what the machine asks a fleet for."""
        return self

    def ignition_on(self) -> Bools:
        """Whether each vehicle's ignition is on."""
        return self.on

    def set_speed(self, v: Floats, h_s: float) -> None:
        """Reach ``v`` after ``h_s`` at a constant acceleration."""
        self.a = (v - self.v) / h_s
        self.v = v


@dataclass(frozen=True, slots=True)
class Driven:
    """What a drive came to, each [n_models]. Energies in J; means over the whole drive."""

    duration_s: float
    distance_m: Floats
    fuel_j: Floats
    pack_j: Floats
    """Out of the cells, their own loss included."""
    friction_j: Floats
    """Into the brakes."""
    stops: Floats
    missed_share: Floats
    """Share of the time in which the vehicle was too weak for the trace."""
    fuel_kj_per_l: Floats
    pack_to_fuel: Floats
    """Fuel that a joule of a hybrid's battery stands for; 0 for all others."""

    @property
    def mean_kmh(self) -> Floats:
        """Mean speed."""
        return self.distance_m / self.duration_s * 3.6

    @property
    def fuel_l_per_100km(self) -> Floats:
        """Fuel, corrected for what the battery of a hybrid gave or took."""
        joules = self.fuel_j + self.pack_j * self.pack_to_fuel
        litres: Floats = joules / 1000 / self.fuel_kj_per_l
        return litres / self.distance_m * 1e5

    @property
    def kwh_per_100km(self) -> Floats:
        """Energy out of the battery's cells."""
        return self.pack_j / 3.6e6 / self.distance_m * 1e5


def machine_for(models: Sequence[VehicleModel], ambient_c: float = AMBIENT_C, cold: bool = False) -> Machine:
    """One vehicle of each model, warm from the road unless ``cold``; hybrids at their target charge."""
    n = len(models)
    figures = specs(np.arange(n), models)
    soak_s = np.full(n, 1e6) if cold else None
    machine = Machine(figures, np.random.default_rng(1), ambient_c, soak_s)
    state = machine.state
    if not cold:
        state.coolant_c[~machine.electric] = WARM_C
        state.oil_c = state.coolant_c.copy()
    state.soc[:] = START_SOC
    state.soc[machine.drivetrain.hybrids] = hybrid.TARGET_SOC
    machine.drivetrain.settle(state, machine.charging)
    return machine


def follow(machine: Machine, ride: Ride, v_mps: Floats, h_s: float = STEP_S) -> Iterator[Floats]:
    """Step along ``v_mps`` as far as power and top speed of each vehicle go; yields the way of a step, m."""
    for target in v_mps:
        before = ride.v
        ride.set_speed(np.minimum(target, _reachable(machine, ride, h_s)), h_s)
        machine.step(ride, h_s)
        yield (before + ride.v) / 2 * h_s


def drive(models: Sequence[VehicleModel], cycle: Cycle, cold: bool = False) -> Driven:
    """Drive one vehicle of each model along ``cycle``, level road, 23 C, warm unless ``cold``."""
    machine, ride = machine_for(models, cold=cold), Ride.standing(len(models))
    wanted, state = cycle.at_10_hz(), machine.state
    way, fuel, pack, friction, missed, stops = np.zeros((6, len(models)))
    moved = ride.v > STANDING_MPS
    for target, step_m in zip(wanted, follow(machine, ride, wanted), strict=True):
        way += step_m
        fuel += state.fuel_w * STEP_S
        pack += _cells_w(machine) * STEP_S
        friction += state.brake_w * STEP_S
        missed += target - ride.v > MISSED_MPS
        stops += moved & (ride.v <= STANDING_MPS)
        moved = ride.v > STANDING_MPS
    return Driven(
        cycle.duration_s, way, fuel, pack, friction, stops, missed / len(wanted),
        machine.specs("fuel_kj_per_l"), _pack_to_fuel(machine),
    )  # fmt: skip


def _cells_w(machine: Machine) -> Floats:
    """Power out of the cells, before the pack's resistance."""
    state = machine.state
    watts: Floats = state.pack_a * (state.pack_v + state.pack_a * machine.specs("pack_ohm"))
    return watts


def _pack_to_fuel(machine: Machine) -> Floats:
    """A hybrid's engine charges through the motor: fuel = pack energy / (its efficiency * the motor's)."""
    worth = np.zeros(len(machine.electric))
    rows = machine.drivetrain.hybrids
    worth[rows] = 1 / (machine.specs("efficiency")[rows] * powertrain.MOTOR)
    return worth


def _reachable(machine: Machine, ride: Ride, h_s: float) -> Floats:
    """The speed after ``h_s`` at full power, within the vehicle's top speed, m/s."""
    sp = machine.specs
    power = 1000 * sp("power_kw") * sp("driveline")
    resistance = dynamics.road_power_w(
        ride.v, np.zeros_like(ride.v), ride.slope, sp("mass_kg"), sp("drag_m2"), sp("rolling")
    )
    most = (power - resistance) / (np.maximum(ride.v, 2.0) * 1.03 * sp("mass_kg"))
    return np.minimum(ride.v + most * h_s, sp("top_kmh") / 3.6)


def idle_l_per_h(models: Sequence[VehicleModel] = MODELS) -> Floats:
    """Fuel of each model standing warm for a minute, l/h; a hybrid's engine is off."""
    machine, ride = machine_for(models), Ride.standing(len(models))
    burnt = np.zeros(len(models))
    for _ in follow(machine, ride, np.zeros(600)):
        burnt += machine.state.fuel_w * STEP_S
    litres: Floats = burnt / 1000 / machine.specs("fuel_kj_per_l")
    return litres * 60


def warm_up_c_per_min(
    models: Sequence[VehicleModel], cycle: Cycle | None, from_c: float = 25.0, to_c: float = 70.0
) -> Floats:
    """Mean rate of a cold coolant between two temperatures at idle, or along ``cycle`` again and again.

    Starts at 20 C, the ambient. NaN for a model that does not get there within half an hour.
    """
    machine, ride = machine_for(models, 20.0, cold=True), Ride.standing(len(models))
    v_mps = np.resize(np.zeros(1) if cycle is None else cycle.at_10_hz(), 18_000)
    begin, end = np.full((2, len(models)), np.nan)
    for k, _ in enumerate(follow(machine, ride, v_mps), start=1):
        for reached, level in ((begin, from_c), (end, to_c)):
            reached[np.isnan(reached) & (machine.state.coolant_c >= level)] = k * STEP_S
        if not np.isnan(end).any():
            break
    rate: Floats = (to_c - from_c) / (end - begin) * 60
    return rate
