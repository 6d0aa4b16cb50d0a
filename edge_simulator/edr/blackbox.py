"""The event data recorders of a fleet: they sample with the physics, judge impacts, and seal records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge_simulator import faults
from edge_simulator.edr import recorder, trigger
from edge_simulator.edr.pulse import Pulse
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry.instruments import Instruments
from infra.contract.messages import split_crash

FIRST_CYCLE = 1000  # ignition cycle of the first vehicle at the run's start


@dataclass(frozen=True, slots=True)
class Sealed:
    """A record that is due at ``due_ms`` (device clock): one message, or its parts in order."""

    vehicle: int
    due_ms: int
    payloads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Pending:
    """An event found in a burst that has not happened yet; ``zero_ms`` counts from the run's start."""

    vehicle: int
    zero_ms: int
    finding: trigger.Finding
    pulse: Pulse
    shown_from_ms: int
    power_lost_ms: int | None


class BlackBoxes:
    """One recorder a vehicle. ``h_ms`` is the length of a physics step."""

    def __init__(
        self, vehicle_ids: Sequence[str], fleet: Fleet, instruments: Instruments, has_engine: Sequence[bool],
        h_ms: float, setup: recorder.Setup,
    ) -> None:  # fmt: skip
        self._ids = vehicle_ids
        self._fleet = fleet
        self._instruments = instruments
        self._has_engine = has_engine
        self._h_ms = max(1, round(h_ms))
        self._setup = setup
        self._ring = recorder.Ring(len(vehicle_ids), setup.profile.samples, setup.profile.dt_ms)
        self._seq: defaultdict[int, int] = defaultdict(int)
        self._spent: defaultdict[int, set[str]] = defaultdict(set)
        self._pending: list[_Pending] = []
        self.memories: defaultdict[int, recorder.Memory] = defaultdict(recorder.Memory)  # by vehicle

    def sample(self, now_ms: int) -> None:
        """Feed the rings at the profile's rate; called after each physics step."""
        if self._ring.due(now_ms):
            self._ring.record(now_ms, self._instruments.pre_crash())

    def process_impact(self, burst: faults.Burst) -> None:
        """An impact in the step that ended at ``burst.start_ms``; a recorder without ignition sleeps."""
        i = burst.fault.vehicle
        if not self._fleet.ignition_on()[i]:
            return
        found = trigger.events(burst.pulse.long, burst.pulse.lat, self._spent[i])
        if not found:
            return
        # Time zero of the first event lies within the step; what follows keeps its distance.
        begin_ms = burst.start_ms - self._h_ms + found[0].zero_ms % self._h_ms - found[0].zero_ms
        lost_ms = burst.fault.details.get("power_lost_ms")
        for finding in found:
            self._spent[i].update(finding.deployed_ms)
            at_ms = begin_ms + finding.zero_ms
            self._pending.append(_Pending(i, at_ms, finding, burst.pulse, found[0].zero_ms, lost_ms))

    def sealed(self, now_ms: int, start_ms: int) -> Iterator[Sealed]:
        """Records of the events up to ``now_ms``, to be asked for before that moment is sampled.

        ``start_ms`` is the run's start on the device's clock.
        """
        if not self._pending:
            return
        ready = [event for event in self._pending if event.zero_ms <= now_ms]
        self._pending = [event for event in self._pending if event.zero_ms > now_ms]
        for event in ready:
            record = self._seal(event, start_ms)
            if record is not None:
                due_ms = start_ms + event.zero_ms + recorder.RECORDED_MS
                yield Sealed(event.vehicle, due_ms, tuple(split_crash(record, self._setup.chunk_bytes)))

    def _seal(self, found: _Pending, start_ms: int) -> bytes | None:
        """The record, None where the memory has no room for the event."""
        i, motion, finding = found.vehicle, self._fleet.state, found.finding
        crash_id = f"{start_ms}-{self._seq[i]}"
        event = self.memories[i].store(crash_id, found.zero_ms, bool(finding.deployed_ms))
        if event is None:
            return None
        scene = recorder.Scene(
            vehicle_id=self._ids[i], boot_id=start_ms, seq=self._seq[i], event_ms=start_ms + found.zero_ms,
            lat_deg=float(motion.lat[i]), lon_deg=float(motion.lon[i]), has_engine=self._has_engine[i],
            ignition_cycle=FIRST_CYCLE + i, power_lost_ms=found.power_lost_ms,
        )  # fmt: skip
        self._seq[i] += 1
        raw = None
        if self._setup.keep_pulse:
            raw = recorder.raw_pulse(found.pulse, found.shown_from_ms, finding.zero_ms)
        table = self._ring.harvest(i, found.zero_ms)
        return recorder.record(self._setup.profile, scene, table, finding, event, raw)
