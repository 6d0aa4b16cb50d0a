"""What a fault is made of: kinds as data, a planned fault, one that is under way, and its ground truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from edge_simulator.edr.pulse import SAMPLE_HZ, Pulse
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


class Burst(NamedTuple):
    """An impact for the recorder to judge, from ``start_ms`` on."""

    fault: Fault
    start_ms: int
    pulse: Pulse


class Event(NamedTuple):
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


class CodeSet(NamedTuple):
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


Draw = Callable[[float, np.random.Generator], Details]


class Kind(NamedTuple):
    """A kind of fault, and the functions that make it work; what people read of it is the README's table."""

    name: str
    needs: Needs
    takes_s: Span  # from onset to full effect, drawn from this span
    draw: Draw  # the fault's details from its severity
    apply: Callable[[Case], None] | None = None  # puts it at its level; about once a second while it grows
    code: str | None = None
    seen: Callable[[Case], bool | np.bool_] | None = None  # whether the vehicle's own diagnosis notices it
    seen_s: float = 0.0  # the code is set when the diagnosis has noticed it for so long
    latched: bool = True  # a code stays until the repair; otherwise it goes when nothing is noticed
    mend: Callable[[Case], None] | None = None  # what a repair does beyond taking the cause away
    impact: Callable[[Case, np.random.Generator], Pulse] | None = None
    """The burst that the recorder has to judge, of what hits the vehicle."""
    lasts_s: Span | None = None
    """After full effect it ends by itself within this span; None: it stays, unless it came at a rate."""
    on_road: bool = False  # happens only to a vehicle that drives: another one takes it over if need be
    keeps_on: bool = False  # ``apply`` is called each second until the end, not only while the fault grows
    for_good: bool = False  # no repair: it never ends
    least_s: float = 0.0  # it never grows faster than this, however short the run


class Case:
    """A fault under way: its vehicle, its level (0..1), and what the vehicle's own diagnosis knows of it."""

    def __init__(self, fault: Fault, kind: Kind, fleet: Fleet, machine: Machine) -> None:
        self.fault, self.kind, self.details = fault, kind, fault.details
        self.fleet, self.machine = fleet, machine
        self.state, self.defects = machine.state, machine.defects
        self.i = fault.vehicle  # its place in arrays [n]
        self.wheel = WHEELS.index(self.details.get("wheel", WHEELS[0]))  # row in arrays [4, n]
        self.at = (self.wheel, self.i) if "wheel" in self.details else (self.i,)
        self.level = self.before = 0.0  # now, and before that
        self.since_s = 0.0  # time since the onset
        self.noticed_ms: int | None = None
        self.coded = False
        self.reported = False  # its code was set once, and is in the ground truth

    @property
    def running(self) -> bool:
        return bool(self.state.rpm[self.i] > 0)

    @property
    def volts(self) -> float:
        only = slice(self.i, self.i + 1)
        return float(self.machine.battery_v(~self.fleet.state.parked[only], only)[0])

    @property
    def busy(self) -> bool:
        changes = self.level < 1 or self.kind.keeps_on or self.fault.end_ms is not None
        return changes or (self.kind.seen is not None and not (self.coded and self.kind.latched))
