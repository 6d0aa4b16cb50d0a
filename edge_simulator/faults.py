"""What breaks, when, how badly: planned from the seed, applied to the physics, told as ground truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edge_simulator import pulse
from edge_simulator.fleet import Fleet
from edge_simulator.geo import Bools, Floats
from edge_simulator.machine import Machine
from infra.contract.errors import ConfigError
from infra.contract.signals import WHEELS

NAMES = ("overheating", "slow_leak", "rapid_leak", "weak_battery", "crash", "pothole")
IMPACTS = ("crash", "pothole")
CRASH_ABOVE_MPS = 7.0
Details = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault. ``onset_ms`` counts from the run's start, ``severity`` is 0..1."""

    name: str
    vehicle: int
    onset_ms: int
    severity: float
    details: Details


@dataclass(frozen=True, slots=True)
class Burst:
    """An impact for the recorder to judge: acceleration at 1 kHz from ``start_ms`` on, lateral None: none."""

    fault: Fault
    start_ms: int
    accel: Floats
    accel_lat: Floats | None = None
    kind: str = ""


def parse(text: str) -> tuple[str, float]:
    """``overheating=3`` (vehicles) or ``overheating=0.02`` (share of the fleet); raises ConfigError."""
    name, _, amount = text.partition("=")
    if name not in NAMES:
        raise ConfigError(f"--fault {text}: no fault {name!r}; there are {', '.join(NAMES)}")
    try:
        value = float(amount)
    except ValueError:
        value = -1.0
    if not (0 < value < 1 or (value >= 0 and value == int(value))):
        raise ConfigError(
            f"--fault {text}: a count such as {name}=3 or a share such as {name}=0.02 is wanted"
        )
    return name, value


def plan(
    wanted: Sequence[tuple[str, float]],
    machine: Machine,
    rng: np.random.Generator,
    span_ms: int,
) -> list[Fault]:
    """The faults of a run, each on a vehicle of its own, with onsets in the first half of ``span_ms``.

    Raises ConfigError where there are more faults than vehicles that can have them.
    """
    free = np.ones(len(machine.electric), dtype=np.bool_)
    faults: list[Fault] = []
    for name, amount in wanted:
        count = int(amount) if amount >= 1 or amount == 0 else round(amount * len(free))
        able = np.flatnonzero(free & _able(name, machine))
        if count > len(able):
            raise ConfigError(
                f"--fault {name}={amount:g}: only {len(able)} vehicles are left that can have it"
            )
        for vehicle in np.sort(rng.choice(able, count, replace=False)):
            free[vehicle] = False
            onset = int(rng.uniform(0.1, 0.45) * span_ms)
            severity = round(float(rng.uniform(0.6, 1.0)), 2)
            faults.append(Fault(name, int(vehicle), onset, severity, _details(name, severity, rng)))
    return sorted(faults, key=lambda f: (f.onset_ms, f.vehicle))


def _able(name: str, machine: Machine) -> Bools:
    if name in ("overheating", "weak_battery"):
        able: Bools = ~machine.electric
        return able
    return np.ones(len(machine.electric), dtype=np.bool_)


def _details(name: str, severity: float, rng: np.random.Generator) -> Details:
    wheel = WHEELS[int(rng.integers(0, 4))]
    match name:
        case "overheating":
            return {"cooling_blocked": round(0.9 + 0.1 * severity, 3)}
        case "slow_leak":
            return {
                "wheel": wheel,
                "missing_kpa": round(12 + 20 * severity, 1),
                "kpa_per_day": round(8 * severity, 1),
            }
        case "rapid_leak":
            return {"wheel": wheel, "kpa_per_min": round(60 * severity, 1)}
        case "weak_battery":
            return {"capacity_lost": round(0.7 + 0.3 * severity, 2)}
        case "crash":
            return {"share_of_speed": severity, "width_ms": int(rng.integers(80, 151))}
        case _:
            return {"peak_g": round(6 * severity, 1), "width_ms": int(rng.integers(8, 21))}


class Injector:
    """Applies planned faults as their time comes. Drained once a step; deterministic."""

    def __init__(
        self, faults: Sequence[Fault], fleet: Fleet, machine: Machine, rng: np.random.Generator
    ) -> None:
        self._waiting = list(faults)
        self._fleet = fleet
        self._machine = machine
        self._rng = rng
        self.active: list[Fault] = []

    def due(self, now_ms: int) -> Iterator[Fault | Burst]:
        """Faults that begin now: machine defects as Fault, impacts as Burst."""
        if not self._waiting or self._waiting[0].onset_ms > now_ms:
            return
        for planned in [f for f in self._waiting if f.onset_ms <= now_ms]:
            fault = self._on_the_move(planned)
            if fault is not None:
                self._waiting.remove(planned)
                self.active.append(fault)
                yield self._begin(fault, now_ms)

    def codes(self, vehicle: int) -> list[str]:
        """Trouble codes that a vehicle's own diagnosis has set."""
        names = {f.name for f in self.active if f.vehicle == vehicle}
        hot = "overheating" in names and bool(self._machine.state.coolant_c[vehicle] > 112.0)
        return ["P0217"] * hot + ["P0562"] * ("weak_battery" in names)

    def _on_the_move(self, fault: Fault) -> Fault | None:
        """The fault itself; an impact goes to the next sound vehicle that drives, or to None."""
        if fault.name not in IMPACTS:
            return fault
        motion = self._fleet.state
        fit = (motion.v > CRASH_ABOVE_MPS) & ~motion.parked & ~motion.crashed
        fit[[f.vehicle for f in (*self.active, *self._waiting) if f is not fault]] = False
        order = np.roll(np.arange(len(fit)), -fault.vehicle)
        found = order[fit[order]]
        return replace(fault, vehicle=int(found[0])) if len(found) else None

    def _begin(self, fault: Fault, now_ms: int) -> Fault | Burst:
        defects, i, what = self._machine.defects, fault.vehicle, fault.details
        match fault.name:
            case "overheating":
                defects.cooling_blocked[i] = what["cooling_blocked"]
            case "weak_battery":
                defects.battery_weak[i] = what["capacity_lost"]
            case "slow_leak" | "rapid_leak":
                self._leak(fault)
            case "crash":
                return self._crash(fault, now_ms)
            case _:
                return Burst(fault, now_ms, pulse.kerb(what["peak_g"], what["width_ms"]))
        return fault

    def _leak(self, fault: Fault) -> None:
        what, i = fault.details, fault.vehicle
        wheel = WHEELS.index(what["wheel"])
        absolute_kpa = float(self._fleet.specs("placard_kpa")[i]) + 101.3
        per_s = what["kpa_per_day"] / 86_400 if "kpa_per_day" in what else what["kpa_per_min"] / 60
        self._machine.state.tyre_mass[wheel, i] -= what.get("missing_kpa", 0.0) / absolute_kpa
        self._machine.defects.leak_per_s[wheel, i] = per_s / absolute_kpa

    def _crash(self, fault: Fault, now_ms: int) -> Burst:
        """The collision takes speed off in the next step and wrecks the vehicle."""
        motion, i = self._fleet.state, fault.vehicle
        lost_mps = float(motion.v[i]) * fault.details["share_of_speed"]
        motion.crashed[i] = True
        motion.impact_mps[i] = lost_mps
        shape = pulse.haversine(-lost_mps * 3.6, fault.details["width_ms"])
        return Burst(fault, now_ms, pulse.with_ringing(shape, self._rng, float(self._rng.uniform(0.1, 0.2))))
