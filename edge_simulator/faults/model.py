"""What a fault is made of: kinds as data, a planned fault, and the rows of ground truth it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edge_simulator.edr.pulse import SAMPLE_HZ, Pulse
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
class Burst:
    """An impact for the recorder to judge, from ``start_ms`` on."""

    fault: Fault
    start_ms: int
    pulse: Pulse


@dataclass(frozen=True, slots=True)
class Event:
    """A fault that begins; ``burst`` where something hits the vehicle."""

    fault: Fault
    fault_id: str
    burst: Burst | None = None

    def row(self, vehicle_id: str, start_ms: int) -> dict[str, Any]:
        """The fault's row of ground truth, written once, when it begins. Times are ms since 1970.

        ``full_ms``: the cause is complete from then on; ``to_ms``: it is gone, None where it stays. Both may
        lie after the run's end.
        """
        fault, details = self.fault, self.fault.details
        if self.burst is not None:
            delta_v_kmh = float(self.burst.pulse.long.sum()) / SAMPLE_HZ * 3.6
            details = details | {"delta_v_kmh": round(delta_v_kmh, 1)}
        return {
            "kind": "fault", "fault_id": self.fault_id, "fault": fault.name, "vehicle_id": vehicle_id,
            "from_ms": start_ms + fault.onset_ms, "full_ms": start_ms + fault.full_ms,
            "to_ms": None if fault.end_ms is None else start_ms + fault.end_ms,
            "severity": fault.severity, "details": details,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class CodeSet:
    """A trouble code that a vehicle's own diagnosis has set, for the first time in this fault."""

    fault: Fault
    code: str
    at_ms: int

    def row(self, vehicle_id: str, start_ms: int) -> dict[str, Any]:
        """Its row of ground truth: from ``from_ms`` on, intermittent or permanent, until the repair."""
        end_ms = self.fault.end_ms
        return {
            "kind": "code", "what": "code", "vehicle_id": vehicle_id, "from_ms": start_ms + self.at_ms,
            "to_ms": None if end_ms is None else start_ms + end_ms,
            "details": {"code": self.code, "fault": self.fault.name},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault can act on and look at."""

    fleet: Fleet
    machine: Machine

    def running(self, fault: Fault) -> bool:
        """Whether the vehicle's engine turns."""
        return bool(self.machine.state.rpm[fault.vehicle] > 0)

    def volts(self, fault: Fault) -> float:
        """Voltage of the vehicle's 12 V system."""
        only = slice(fault.vehicle, fault.vehicle + 1)
        return float(self.machine.battery_v(~self.fleet.state.parked[only], only)[0])


Draw = Callable[[float, np.random.Generator], Details]
Apply = Callable[[Scene, Fault, float, float], None]
"""Put the fault at a level (0..1) that was another before. Called about once a second while it grows."""
Mend = Callable[[Scene, Fault], None]
Seen = Callable[[Scene, Fault, float], bool]
"""Whether the vehicle's own diagnosis notices it now, so many seconds after onset."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault, and the functions that make it work; what people read of it is the README's table."""

    name: str
    needs: Needs
    takes_s: Span  # from onset to full effect, drawn from this span
    draw: Draw  # the fault's details from its severity
    apply: Apply | None = None
    mend: Mend | None = None  # what a repair does beyond taking the cause away
    lasts_s: Span | None = None
    """After full effect it ends by itself within this span; None: it stays, unless it came at a rate."""
    code: str | None = None
    seen: Seen | None = None
    seen_s: float = 0.0  # the code is set when the diagnosis has noticed it for so long
    latched: bool = True  # a code stays until the repair; otherwise it goes when nothing is noticed
    on_road: bool = False  # happens only to a vehicle that drives: another one takes it over if need be
    keeps_on: bool = False  # ``apply`` is called each second until the end, not only while the fault grows
    for_good: bool = False  # no repair: it never ends
    least_s: float = 0.0  # it never grows faster than this, however short the run


def able(needs: Needs, machine: Machine) -> Bools:
    """Which vehicles can have it, [n_vehicles]. A hybrid has both an engine and a pack."""
    specs = machine.specs
    engine = specs("engine_l") > 0
    found: dict[Needs, Bools] = {
        "any": np.ones(len(engine), dtype=np.bool_),
        "engine": engine,
        "petrol": engine & ~machine.diesel,
        "diesel": engine & machine.diesel,
        "gears": engine & (specs.gears > 1),
        "pack": specs("motor_kw") > 0,
    }
    return found[needs]


def spread(low: float, high: float, severity: float, decimals: int = 3) -> float:
    """A figure that grows with the severity, rounded to what is worth reporting."""
    return round(low + (high - low) * severity, decimals)


def detail(name: str, low: float, high: float) -> Draw:
    """Draws one detail that grows with the severity."""
    return lambda severity, _: {name: spread(low, high, severity)}


def any_wheel(rng: np.random.Generator) -> str:
    """One of the wheels."""
    return WHEELS[int(rng.integers(0, 4))]


def wheel_row(fault: Fault) -> int:
    """Row of the fault's wheel in arrays [4, n]."""
    return WHEELS.index(fault.details["wheel"])
