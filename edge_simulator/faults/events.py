"""What an injector tells of: faults that begin, what hits the vehicle, codes that are set; rows of truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edge_simulator.edr.pulse import SAMPLE_HZ
from edge_simulator.faults.fault_kind import Fault
from edge_simulator.geo import Floats


@dataclass(frozen=True, slots=True)
class Burst:
    """An impact for the recorder to judge: acceleration at 1 kHz from ``start_ms`` on, lateral None: none."""

    fault: Fault
    start_ms: int
    accel: Floats
    accel_lat: Floats | None = None
    kind: str = ""

    @property
    def delta_v_kmh(self) -> float:
        """The change of speed along the vehicle that it brings in all, km/h."""
        return round(float(self.accel.sum()) / SAMPLE_HZ * 3.6, 1)


@dataclass(frozen=True, slots=True)
class Event:
    """A fault that begins; ``burst`` where something hits the vehicle."""

    fault: Fault
    fault_id: str
    burst: Burst | None = None

    def row(self, vehicle_id: str, start_ms: int) -> dict[str, Any]:
        """The fault's row of ground truth: all of it, written once, when it begins.

        Times are ms since 1970. ``full_ms``: the cause is complete from then on; ``to_ms``: it is gone from
        then on, None where it stays. Both are decided at the begin and may lie after the run's end.
        """
        fault = self.fault
        felt = {} if self.burst is None else {"delta_v_kmh": self.burst.delta_v_kmh}
        return {
            "kind": "fault", "fault_id": self.fault_id, "fault": fault.name, "vehicle_id": vehicle_id,
            "from_ms": start_ms + fault.onset_ms, "full_ms": start_ms + fault.full_ms,
            "to_ms": None if fault.end_ms is None else start_ms + fault.end_ms,
            "severity": fault.severity, "details": fault.details | felt,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Coded:
    """A trouble code that a vehicle's own diagnosis has set, for the first time in this fault."""

    fault: Fault
    code: str
    at_ms: int

    def row(self, vehicle_id: str, start_ms: int) -> dict[str, Any]:
        """Its row of ground truth: there from ``from_ms`` on, now and then or for good, to the repair."""
        end_ms = self.fault.end_ms
        return {
            "kind": "code", "what": "code", "vehicle_id": vehicle_id, "from_ms": start_ms + self.at_ms,
            "to_ms": None if end_ms is None else start_ms + end_ms,
            "details": {"code": self.code, "fault": self.fault.name},
        }  # fmt: skip
