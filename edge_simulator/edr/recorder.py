"""The event data recorders of a fleet: pre-crash samples, the memory of events, and the records they seal.

Elements follow tables I and II of 49 CFR 563.7 at the resolution of 563.8.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Field

from edge_simulator.edr.pulse import FITTED, Finding, Pulse, events
from edge_simulator.geo import Bools, Floats
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry.instruments import Instruments
from infra.contract import messages
from infra.contract.frame import SCHEMA, Frame
from infra.contract.messages import DELTA_V_MS, PRE_CRASH, PROFILES, Profile

NUMBERS: Mapping[str, tuple[int, int, int]] = {
    "speed_kmh": (1, 255, 0), "accelerator_pct": (1, 100, 0), "engine_rpm": (100, 100, 0),
    "steering_deg": (5, 127, 128),
}  # fmt: skip
"""Resolution of the recorded numbers (49 CFR 563.8; the steering wheel's is 5 deg here), the most steps, and
the byte that stands for zero: the steering wheel turns to both sides."""
FLAGS = ("brake_on", "abs_active", "esc_active", "driver_belt_on", "ignition_on")
"""A bit each. Without ignition the recorder sleeps and there is no sample."""

BUFFERS = 4  # events that fit in all; an engineering default
UNLOCKED = 2  # events without a deployment that are kept at most
SET_MS = 5000  # two events that begin within this are one crash
RECORDED_MS = (messages.DELTA_V_POINTS - 1) * DELTA_V_MS
BELT_MS = 1000  # the belt's and the lamp's status is that of 1 s before time zero
PULSE_BEFORE_MS = 100
PULSE_AFTER_MS = 500
PULSE_STEPS_PER_MPS2 = 10
FIRST_CYCLE = 1000  # ignition cycle of the first vehicle at the run's start
MAX_IGNITION_CYCLE = 60_000


class Setup(BaseModel, frozen=True, extra="forbid"):
    """How a fleet's recorders are set up. ``keep_pulse``: the raw accelerations go into the record too.

    A record larger than ``chunk_bytes`` of JSON is sent in parts.
    """

    profile: Literal["us563_2006", "us563_2024"] = "us563_2024"
    keep_pulse: bool = False
    chunk_bytes: int | None = Field(None, ge=messages.MIN_CHUNK_BYTES)  # None: as the settings have it


class Ring:
    """The last pre-crash samples of all vehicles, five bytes each, the oldest overwritten.

    It takes the first sample offered in each interval of ``dt_ms``; samples further apart are held.
    """

    def __init__(self, n_vehicles: int, samples: int, dt_ms: int) -> None:
        self._back_ms = dt_ms * np.arange(samples - 1, -1, -1)
        self._dt_ms = dt_ms
        slots = samples + 2
        self._numbers = np.zeros((slots, len(NUMBERS), n_vehicles), dtype=np.uint8)
        self._flags = np.zeros((slots, n_vehicles), dtype=np.uint8)
        self._scratch = np.empty(n_vehicles)
        self._time_ms = np.full(slots, -np.inf)
        self._next = 0
        self._interval: int | None = None

    def due(self, t_ms: float) -> bool:
        """Whether a sample at ``t_ms`` is one to record."""
        return int(t_ms // self._dt_ms) != self._interval

    def record(self, t_ms: float, sample: Mapping[str, Floats | Bools]) -> None:
        """Add one sample of every vehicle: NUMBERS and FLAGS, [n_vehicles] each."""
        slot, steps = self._next, self._scratch
        for row, (name, (step, most, zero)) in zip(self._numbers[slot], NUMBERS.items(), strict=True):
            np.multiply(sample[name], 1 / step, out=steps)
            np.minimum(steps, most, out=steps)
            if zero:  # the others are never below it
                np.maximum(steps, -most, out=steps)
            np.add(steps, zero + 0.5, out=row, casting="unsafe")  # the half turns truncating into rounding
        bits = self._flags[slot]
        bits[:] = sample[FLAGS[0]]
        for k, name in enumerate(FLAGS[1:], start=1):
            bits |= sample[name].view(np.uint8) << np.uint8(k)
        self._time_ms[slot] = t_ms
        self._next = (slot + 1) % len(self._time_ms)
        self._interval = int(t_ms // self._dt_ms)

    def harvest(self, vehicle: int, zero_ms: float) -> dict[str, Floats]:
        """The samples of a vehicle up to time zero, oldest first, each the last one taken by then.

        Where there is none, or the recorder slept, all elements are NaN.
        """
        order = np.argsort(self._time_ms, kind="stable")
        place = np.searchsorted(self._time_ms[order], zero_ms - self._back_ms + 1e-6, side="right") - 1
        rows = order[np.maximum(place, 0)]
        bits = self._flags[rows, vehicle]
        table = {name: ((bits >> k) & 1).astype(np.float64) for k, name in enumerate(FLAGS)}
        there = (table["ignition_on"] > 0) & np.isfinite(self._time_ms[rows])
        for k, (name, (step, _, zero)) in enumerate(NUMBERS.items()):
            table[name] = (self._numbers[rows, k, vehicle] - float(zero)) * step
        return {name: np.where(there, values, np.nan) for name, values in table.items()}


class Event(NamedTuple):
    """A recorded event, ``number`` 1 or 2; ``locked`` where a restraint was deployed for good."""

    crash_id: str
    zero_ms: float
    locked: bool
    number: int
    first: Event | None  # event 1, where this is event 2 of the same crash


@dataclass(slots=True)
class Memory:
    """The events of one vehicle, oldest first (49 CFR 563.9). What is locked is never overwritten."""

    events: list[Event] = field(default_factory=list)
    spent: set[str] = field(default_factory=set)  # restraints that have fired
    sealed: int = 0  # records

    def store(self, crash_id: str, zero_ms: float, locked: bool) -> Event | None:
        """Keep an event; None where there is no room, or where it is a crash's third without deployment.

        The oldest event without a deployment goes when a third such event comes, and when all is full.
        """
        firsts = [e for e in self.events if e.number == 1 and zero_ms - e.zero_ms <= SET_MS]
        first = firsts[-1] if firsts else None
        if first is not None and not locked and any(event.first is first for event in self.events):
            return None
        free = [event for event in self.events if not event.locked]
        full = len(self.events) >= BUFFERS or (not locked and len(free) >= UNLOCKED)
        if full and free:
            self.events.remove(free[0])
        if len(self.events) >= BUFFERS:
            return None
        event = Event(crash_id, zero_ms, locked, 1 if first is None else 2, first)
        self.events.append(event)
        return event


def record(
    profile: Profile, table: Mapping[str, Floats], finding: Finding, event: Event, *,
    vehicle_id: str, boot_id: int, seq: int, event_ms: int, lat_deg: float, lon_deg: float, has_engine: bool,
    ignition_cycle: int, pulse_mps2: dict[str, Any] | None = None,
    sign: Callable[[Frame], bytes] | None = None,
) -> bytes:  # fmt: skip
    """The crash message: a sealed record as JSON. ``table`` is the ring's harvest in ``profile``."""
    first, fired, long, lat = event.first, finding.deployed_ms, finding.long, finding.lat
    bags = [fired[restraint.name] for restraint in FITTED if restraint.air_bag and restraint.name in fired]
    belt = table["driver_belt_on"][-1 - BELT_MS // profile.dt_ms]
    pre_crash = {
        name: [None if np.isnan(v) else (int if name in NUMBERS else bool)(v) for v in table[name]]
        for name in PRE_CRASH
    }
    if not has_engine:
        pre_crash["engine_rpm"] = [None] * profile.samples
    body = {
        "schema": SCHEMA,
        "vehicle_id": vehicle_id,
        "boot_id": boot_id,
        "seq": seq,
        "crash_id": event.crash_id,
        "event_ms": event_ms,
        "sent_ms": event_ms + RECORDED_MS,
        "profile": profile.name,
        "pre_crash_dt_ms": profile.dt_ms,
        "pre_crash": pre_crash,
        "delta_v_dt_ms": DELTA_V_MS,
        "delta_v_kmh": list(long.delta_v_kmh),
        "delta_v_lat_kmh": list(lat.delta_v_kmh),
        "delta_v_max_kmh": long.max_kmh,
        "delta_v_max_ms": long.max_ms,
        "delta_v_lat_max_kmh": lat.max_kmh,
        "delta_v_lat_max_ms": lat.max_ms,
        "airbag_deployed": bool(bags),
        "airbag_ms": min(bags, default=None),
        "restraints_ms": {restraint.name: fired.get(restraint.name) for restraint in FITTED},
        "belt_on": None if np.isnan(belt) else bool(belt),
        "passenger_belt_on": None,
        "warning_lamp_on": False,
        "ignition_cycle": min(ignition_cycle, MAX_IGNITION_CYCLE),
        "multi_event": event.number,
        "first_crash_id": None if first is None else first.crash_id,
        "event_1_to_2_ms": None if first is None else round((event.zero_ms - first.zero_ms) / 100) * 100,
        "locked": event.locked,
        "complete": not bool(np.isnan(table["speed_kmh"]).any()),
        "lat_deg": round(lat_deg, 6),
        "lon_deg": round(lon_deg, 6),
    }
    if pulse_mps2 is not None:
        body["pulse_mps2"] = pulse_mps2
    if sign is not None:
        return sign(body)
    return orjson.dumps(body | {"sha256": messages.crash_digest(body)})


def raw_pulse(felt: Pulse, from_ms: int, zero_ms: int) -> dict[str, Any]:
    """The pulse around an event, from 100 ms before ``from_ms`` to 500 ms after time zero, 0.1 m/s2 steps."""
    begin = max(0, from_ms - PULSE_BEFORE_MS)
    shown = np.stack([felt.long, felt.lat])[:, begin : zero_ms + PULSE_AFTER_MS]
    long, lat = (np.rint(shown * PULSE_STEPS_PER_MPS2) / PULSE_STEPS_PER_MPS2 + 0.0).tolist()
    return {"dt_ms": 1, "from_ms": begin - zero_ms, "long": long, "lat": lat}


class Sealed(NamedTuple):
    """A record that is due at ``due_ms`` (device clock): one message, or its parts in order."""

    vehicle: int
    due_ms: int
    payloads: tuple[bytes, ...]


class BlackBoxes:
    """One recorder a vehicle. ``h_ms``: the length of a physics step; ``sign`` None: records go unsigned."""

    def __init__(
        self, vehicle_ids: Sequence[str], fleet: Fleet, instruments: Instruments, h_ms: float, setup: Setup,
        sign: Callable[[Frame], bytes] | None = None,
    ) -> None:  # fmt: skip
        self._ids, self._fleet, self._instruments, self._setup = vehicle_ids, fleet, instruments, setup
        self._has_engine = fleet.specs("engine_l") > 0
        self._h_ms = max(1, round(h_ms))
        self._profile, self._sign = PROFILES[setup.profile], sign
        self._ring = Ring(len(vehicle_ids), self._profile.samples, self._profile.dt_ms)
        self._pending: list[tuple[int, Finding, int, dict[str, Any] | None]] = []
        """Events found: time zero, ms from the run's start, the vehicle, and what is kept of the pulse."""
        self.memories: defaultdict[int, Memory] = defaultdict(Memory)  # by vehicle

    def sample(self, now_ms: int) -> None:
        """Feed the ring at the profile's rate; called after each physics step."""
        if self._ring.due(now_ms):
            self._ring.record(now_ms, self._instruments.pre_crash())

    def process_impact(self, vehicle: int, felt: Pulse, now_ms: int) -> None:
        """An impact in the step that ended at ``now_ms``; a recorder without ignition sleeps."""
        if not self._fleet.ignition_on()[vehicle]:
            return
        spent = self.memories[vehicle].spent
        found = events(felt.long, felt.lat, spent)
        for finding in found:
            spent.update(finding.deployed_ms)
            # Time zero of the first event lies within the step; what follows keeps its distance.
            first_ms = found[0].zero_ms
            begin_ms = now_ms - self._h_ms + first_ms % self._h_ms - first_ms
            raw = raw_pulse(felt, first_ms, finding.zero_ms) if self._setup.keep_pulse else None
            self._pending.append((begin_ms + finding.zero_ms, finding, vehicle, raw))

    def sealed(self, now_ms: int, start_ms: int, boot_id: int) -> Iterator[Sealed]:
        """Records of the events up to ``now_ms``, to be asked for before that moment is sampled.

        ``start_ms`` is the run's start on the device's clock. An event that the memory has no room for has
        no record.
        """
        ready = [event for event in self._pending if event[0] <= now_ms]
        self._pending = [event for event in self._pending if event[0] > now_ms]
        for zero_ms, finding, i, raw in ready:
            memory, motion = self.memories[i], self._fleet.state
            event = memory.store(f"{boot_id}-{memory.sealed}", zero_ms, bool(finding.deployed_ms))
            if event is None:
                continue
            event_ms, chunk_bytes = start_ms + zero_ms, self._setup.chunk_bytes or messages.CHUNK_BYTES
            sealed = record(
                self._profile, self._ring.harvest(i, zero_ms), finding, event,
                vehicle_id=self._ids[i], boot_id=boot_id, seq=memory.sealed, event_ms=event_ms,
                lat_deg=float(motion.lat[i]), lon_deg=float(motion.lon[i]),
                has_engine=bool(self._has_engine[i]), ignition_cycle=FIRST_CYCLE + i,
                pulse_mps2=raw, sign=self._sign,
            )  # fmt: skip
            memory.sealed += 1
            yield Sealed(i, event_ms + RECORDED_MS, tuple(messages.split_crash(sealed, chunk_bytes)))
