"""What a kind of fault is made of. The kinds themselves: edge_simulator.faults.fault_table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edge_simulator.geo import Bools
from infra.contract.signals import WHEELS

if TYPE_CHECKING:
    from edge_simulator.motion.fleet import Fleet
    from edge_simulator.vehicle.machine import Machine

Details = dict[str, Any]
Needs = Literal["any", "engine", "petrol", "diesel", "gears", "pack"]
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault, all of it decided before it begins; times count from the run's start.

    ``severity`` 0..1; the cause grows from ``onset_ms`` to ``full_ms`` and is gone at ``end_ms``
    (None: stays).
    """

    name: str
    vehicle: int
    onset_ms: int
    severity: float
    details: Details
    full_ms: int
    end_ms: int | None = None

    def level(self, now_ms: int) -> float:
        """How much of the full effect there is, 0..1."""
        if now_ms >= self.full_ms:
            return 1.0
        return max(0.0, (now_ms - self.onset_ms) / (self.full_ms - self.onset_ms))


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault can act on and look at."""

    fleet: Fleet
    machine: Machine


Draw = Callable[[float, np.random.Generator], Details]
Apply = Callable[[Scene, Fault, float, float], None]
"""Put the fault at a level (0..1) that was another before. Called about once a second while it grows."""
Mend = Callable[[Scene, Fault], None]
Seen = Callable[[Scene, Fault, float], bool]
"""Whether the vehicle's own diagnosis notices it now, so many seconds after onset."""


def nothing(_scene: Scene, _fault: Fault, _level: float, _before: float) -> None:
    """Change nothing."""


def nothing_to_mend(_scene: Scene, _fault: Fault) -> None:
    """Nothing is left behind when the cause is gone."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: data first, then the three functions that make it work, then what people read."""

    name: str
    needs: Needs
    takes_s: Span
    """From onset to full effect, drawn from this span."""
    draw: Draw
    """The fault's details from its severity."""
    changes: str
    law: str
    severity: str
    rule: str
    apply: Apply = nothing
    mend: Mend = nothing_to_mend
    """What a repair does beyond taking the cause away."""
    lasts_s: Span | None = None
    """After full effect it ends by itself within this span; None: it stays, unless it came at a rate."""
    code: str | None = None
    seen: Seen | None = None
    seen_s: float = 0.0
    """The code is set when the diagnosis has noticed it for so long."""
    latched: bool = True
    """A code stays until the repair; otherwise it goes when nothing is noticed."""
    on_road: bool = False
    """Happens only to a vehicle that drives: another one takes it over if need be."""
    keeps_on: bool = False
    """``apply`` is called each second until the end, not only while the fault grows."""
    for_good: bool = False
    """No repair: it never ends."""
    least_s: float = 0.0
    """It never grows faster than this, however short the run."""


def able(needs: Needs, machine: Machine) -> Bools:
    """Which vehicles can have it, [n_vehicles]. A hybrid has both an engine and a pack."""
    sp = machine.specs
    engine = sp("engine_l") > 0
    match needs:
        case "engine":
            found: Bools = engine
        case "petrol":
            found = engine & ~machine.diesel
        case "diesel":
            found = engine & machine.diesel
        case "gears":
            found = engine & (sp.gears > 1)
        case "pack":
            found = sp("motor_kw") > 0
        case _:
            found = np.ones(len(engine), dtype=np.bool_)
    return found


def spread(low: float, high: float, severity: float) -> float:
    """A figure that grows with the severity, rounded to what is worth telling."""
    return round(low + (high - low) * severity, 3)


def towards(value: float, target: float, level: float, before: float) -> float:
    """Where a value is that goes evenly to ``target`` while the level goes from 0 to 1; no way back."""
    if level <= before:
        return value
    return max(value, value + (target - value) * (level - before) / (1 - before))


def any_wheel(rng: np.random.Generator) -> str:
    """One of the wheels."""
    return WHEELS[int(rng.integers(0, 4))]


def wheel_row(fault: Fault) -> int:
    """Row of the fault's wheel in arrays [4, n]."""
    return WHEELS.index(fault.details["wheel"])


def running(scene: Scene, fault: Fault) -> bool:
    """Whether the vehicle's engine turns."""
    return bool(scene.machine.state.rpm[fault.vehicle] > 0)


def ignition(scene: Scene, fault: Fault) -> bool:
    """Whether the ignition is on."""
    return not bool(scene.fleet.state.parked[fault.vehicle])
