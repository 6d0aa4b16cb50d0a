"""One event data recorder: its profiles, the ring of pre-crash samples, the memory of events, and the record.

Elements follow tables I and II of 49 CFR 563.7 at the resolution of 563.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from edge_simulator.edr.pulse import Pulse
from edge_simulator.edr.trigger import AIR_BAGS, FITTED, POINT_MS, POINTS, Axis, Finding
from edge_simulator.geo import Bools, Floats
from infra.contract.frame import SCHEMA
from infra.contract.messages import CHUNK_BYTES, PRE_CRASH, crash_digest

STEPS = MappingProxyType({"speed_kmh": 1, "accelerator_pct": 1, "engine_rpm": 100, "steering_deg": 5})
"""Resolution of the recorded numbers, 49 CFR 563.8; the steering wheel's is 5 deg here."""
MAX_STEPS = MappingProxyType(
    {"speed_kmh": 255, "accelerator_pct": 100, "engine_rpm": 100, "steering_deg": 127}
)
ZERO = MappingProxyType({"speed_kmh": 0, "accelerator_pct": 0, "engine_rpm": 0, "steering_deg": 128})
"""The byte that stands for zero: the steering wheel turns to both sides."""
FLAGS = ("brake_on", "abs_active", "esc_active", "driver_belt_on", "ignition_on")
"""A bit each. Without ignition the recorder sleeps and there is no sample."""

BUFFERS = 4  # events that fit in all; an engineering default
UNLOCKED = 2  # events without a deployment that are kept at most
SET_MS = 5000  # two events that begin within this are one crash

RECORDED_MS = (POINTS - 1) * POINT_MS
BELT_MS = 1000  # the belt's and the lamp's status is that of 1 s before time zero
PULSE_BEFORE_MS = 100
PULSE_AFTER_MS = 500
PULSE_STEPS_PER_MPS2 = 10
MAX_IGNITION_CYCLE = 60_000


@dataclass(frozen=True, slots=True)
class Profile:
    """What is recorded before time zero: ``samples``, ``dt_ms`` apart, the last one at time zero."""

    name: str
    samples: int
    dt_ms: int


PROFILES = MappingProxyType({
    "us563_2006": Profile("us563_2006", samples=11, dt_ms=500),  # -5.0..0 s at 2 Hz
    "us563_2024": Profile("us563_2024", samples=200, dt_ms=100),  # 20 s at 10 Hz
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setup:
    """How a fleet's recorders are set up. ``keep_pulse``: the raw accelerations go into the record too.

    A record larger than ``chunk_bytes`` of JSON is sent in parts.
    """

    profile: Profile = PROFILES["us563_2024"]
    keep_pulse: bool = False
    chunk_bytes: int = CHUNK_BYTES


class Ring:
    """The last pre-crash samples of all vehicles, five bytes each, the oldest overwritten.

    It takes the first sample offered in each interval of ``dt_ms``; samples further apart are held.
    """

    def __init__(self, n_vehicles: int, samples: int, dt_ms: int) -> None:
        self._samples = samples
        self._dt_ms = dt_ms
        slots = samples + 2
        self._numbers = np.zeros((slots, len(STEPS), n_vehicles), dtype=np.uint8)
        self._flags = np.zeros((slots, n_vehicles), dtype=np.uint8)
        self._scratch = np.empty(n_vehicles)
        self._time_ms = np.full(slots, -np.inf)
        self._next = 0
        self._interval: int | None = None

    def due(self, t_ms: float) -> bool:
        """Whether a sample at ``t_ms`` is one to record."""
        return int(t_ms // self._dt_ms) != self._interval

    def record(self, t_ms: float, sample: Mapping[str, Floats | Bools]) -> None:
        """Add one sample of every vehicle: STEPS and FLAGS, [n_vehicles] each."""
        slot = self._next
        for row, (name, step) in zip(self._numbers[slot], STEPS.items(), strict=True):
            self._write(row, name, step, sample[name])
        bits = self._flags[slot]
        bits[:] = sample[FLAGS[0]]
        for k, name in enumerate(FLAGS[1:], start=1):
            bits |= sample[name].view(np.uint8) << np.uint8(k)
        self._time_ms[slot] = t_ms
        self._next = (slot + 1) % len(self._time_ms)
        self._interval = int(t_ms // self._dt_ms)

    def _write(self, row: NDArray[np.uint8], name: str, step: int, values: Floats | Bools) -> None:
        """Whole steps above the byte that stands for zero; the half added turns truncating into rounding."""
        steps, zero, most = self._scratch, ZERO[name], MAX_STEPS[name]
        np.multiply(values, 1 / step, out=steps)
        np.minimum(steps, most, out=steps)
        if zero:  # the others are never below it
            np.maximum(steps, -most, out=steps)
        np.add(steps, zero + 0.5, out=row, casting="unsafe")

    def harvest(self, vehicle: int, zero_ms: float) -> dict[str, Floats]:
        """The samples of a vehicle up to time zero, oldest first, each the last one taken by then.

        Where there is none, or the recorder slept, all elements are NaN.
        """
        order = np.argsort(self._time_ms, kind="stable")
        wanted = zero_ms - self._dt_ms * np.arange(self._samples - 1, -1, -1)
        place = np.searchsorted(self._time_ms[order], wanted + 1e-6, side="right") - 1
        rows = order[np.maximum(place, 0)]
        bits = self._flags[rows, vehicle]
        flags = {name: ((bits >> k) & 1).astype(np.float64) for k, name in enumerate(FLAGS)}
        there = (flags["ignition_on"] > 0) & np.isfinite(self._time_ms[rows])
        numbers = {
            name: (self._numbers[rows, k, vehicle] - float(ZERO[name])) * step
            for k, (name, step) in enumerate(STEPS.items())
        }
        return {name: np.where(there, values, np.nan) for name, values in (numbers | flags).items()}


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event, ``number`` 1 or 2; ``locked`` where a restraint was deployed for good."""

    crash_id: str
    zero_ms: float
    locked: bool
    number: int
    first: Event | None  # event 1, where this is event 2 of the same crash


class Memory:
    """The events of one vehicle, oldest first (49 CFR 563.9). What is locked is never overwritten."""

    def __init__(self) -> None:
        self.events: list[Event] = []

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


@dataclass(frozen=True, slots=True)
class Scene:
    """What the recorder knows of a crash besides ring and pulse. ``power_lost_ms`` counts from time zero."""

    vehicle_id: str
    boot_id: int
    seq: int
    event_ms: int
    lat_deg: float
    lon_deg: float
    has_engine: bool
    ignition_cycle: int
    power_lost_ms: int | None = None


def record(
    profile: Profile, scene: Scene, table: Mapping[str, Floats], finding: Finding, event: Event,
    pulse_mps2: dict[str, Any] | None = None,
) -> bytes:  # fmt: skip
    """The crash message: a sealed record as JSON. ``table`` is the ring's harvest in ``profile``."""
    lost_ms = scene.power_lost_ms
    fired = {k: ms for k, ms in finding.deployed_ms.items() if lost_ms is None or ms <= lost_ms}
    bags = [ms for name, ms in fired.items() if name in AIR_BAGS]
    belt = table["driver_belt_on"][-1 - BELT_MS // profile.dt_ms]
    first = event.first
    since_ms = None if first is None else round((event.zero_ms - first.zero_ms) / 100) * 100
    body = {
        "schema": SCHEMA,
        "vehicle_id": scene.vehicle_id,
        "boot_id": scene.boot_id,
        "seq": scene.seq,
        "crash_id": event.crash_id,
        "event_ms": scene.event_ms,
        "sent_ms": scene.event_ms + RECORDED_MS,
        "profile": profile.name,
        "pre_crash_dt_ms": profile.dt_ms,
        "pre_crash": {name: _element(name, table[name], scene.has_engine) for name in PRE_CRASH},
        **_delta_v(finding, lost_ms),
        "airbag_deployed": bool(bags),
        "airbag_ms": min(bags, default=None),
        "restraints_ms": {restraint.name: fired.get(restraint.name) for restraint in FITTED},
        "belt_on": None if np.isnan(belt) else bool(belt),
        "passenger_belt_on": None,
        "warning_lamp_on": False,
        "ignition_cycle": min(scene.ignition_cycle, MAX_IGNITION_CYCLE),
        "multi_event": event.number,
        "first_crash_id": None if first is None else first.crash_id,
        "event_1_to_2_ms": since_ms,
        "locked": event.locked,
        "complete": lost_ms is None and not bool(np.isnan(table["speed_kmh"]).any()),
        "lat_deg": round(scene.lat_deg, 6),
        "lon_deg": round(scene.lon_deg, 6),
    }
    if pulse_mps2 is not None:
        body["pulse_mps2"] = pulse_mps2
    return orjson.dumps(body | {"sha256": crash_digest(body)})


def raw_pulse(burst: Pulse, from_ms: int, zero_ms: int) -> dict[str, Any]:
    """The burst around an event, from 100 ms before ``from_ms`` to 500 ms after time zero, 0.1 m/s2 steps."""
    begin = max(0, from_ms - PULSE_BEFORE_MS)

    def rounded(accel: Floats) -> list[float]:
        steps = np.rint(accel[begin : zero_ms + PULSE_AFTER_MS] * PULSE_STEPS_PER_MPS2)
        values: list[float] = (steps / PULSE_STEPS_PER_MPS2 + 0.0).tolist()
        return values

    shown = {"long": rounded(burst.long), "lat": rounded(burst.lat)}
    return {"dt_ms": 1, "from_ms": begin - zero_ms, **shown}


def _delta_v(finding: Finding, lost_ms: int | None) -> dict[str, Any]:
    long, lat = (_until(axis, lost_ms) for axis in (finding.long, finding.lat))
    return {
        "delta_v_dt_ms": POINT_MS,
        "delta_v_kmh": list(long.delta_v_kmh),
        "delta_v_lat_kmh": list(lat.delta_v_kmh),
        "delta_v_max_kmh": long.max_kmh,
        "delta_v_max_ms": long.max_ms,
        "delta_v_lat_max_kmh": lat.max_kmh,
        "delta_v_lat_max_ms": lat.max_ms,
    }


def _until(axis: Axis, lost_ms: int | None) -> Axis:
    """What was written before the power went; the maximum is then the largest point written."""
    if lost_ms is None:
        return axis
    points = axis.delta_v_kmh[: max(0, lost_ms // POINT_MS) + 1]
    largest = max(range(len(points)), key=lambda k: abs(points[k]))
    return Axis(points, points[largest], largest * float(POINT_MS))


def _element(name: str, values: Floats, has_engine: bool) -> list[float | bool | None]:
    if name == "engine_rpm" and not has_engine:
        return [None] * len(values)
    kind = int if name in STEPS else bool
    return [None if np.isnan(v) else kind(v) for v in values]
