"""The event data recorder: its two profiles by the rule, and the record that an event becomes.

Elements follow tables I and II of 49 CFR 563.7 at the resolution of 563.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from edge_simulator.edr.memory import Event
from edge_simulator.edr.pulse import Pulse
from edge_simulator.edr.restraint import AIR_BAGS, FITTED
from edge_simulator.edr.ring import STEPS
from edge_simulator.edr.trigger import POINT_MS, POINTS, Axis, Finding
from edge_simulator.geo import Floats
from infra.contract.frame import SCHEMA
from infra.contract.messages import CHUNK_BYTES, PRE_CRASH, crash_digest

RECORDED_MS = (POINTS - 1) * POINT_MS
BELT_MS = 1000
"""The belt's and the lamp's status is that of 1 s before time zero."""
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


PROFILES = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile("us563_2006", samples=11, dt_ms=500),  # -5.0..0 s at 2 Hz
            Profile("us563_2024", samples=200, dt_ms=100),  # 20 s at 10 Hz
        )
    }
)


@dataclass(frozen=True, slots=True)
class Setup:
    """How a fleet's recorders are set up. ``keep_pulse``: the raw accelerations go into the record too.

    A record larger than ``chunk_bytes`` of JSON is sent in parts.
    """

    profile: Profile = PROFILES["us563_2024"]
    keep_pulse: bool = False
    chunk_bytes: int = CHUNK_BYTES


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
        **_status(profile, table),
        "ignition_cycle": min(scene.ignition_cycle, MAX_IGNITION_CYCLE),
        "multi_event": event.number,
        **_earlier(event),
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
    cut = slice(begin, zero_ms + PULSE_AFTER_MS)
    return {
        "dt_ms": 1,
        "from_ms": begin - zero_ms,
        "long": _rounded(burst.long[cut]),
        "lat": _rounded(burst.lat[cut]),
    }


def _rounded(accel: Floats) -> list[float]:
    steps: list[float] = (np.rint(accel * PULSE_STEPS_PER_MPS2) / PULSE_STEPS_PER_MPS2 + 0.0).tolist()
    return steps


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


def _status(profile: Profile, table: Mapping[str, Floats]) -> dict[str, bool | None]:
    """What held 1 s before time zero; a recorder that slept then does not know."""
    belt = table["driver_belt_on"][-1 - BELT_MS // profile.dt_ms]
    return {
        "belt_on": None if np.isnan(belt) else bool(belt),
        "passenger_belt_on": None,
        "warning_lamp_on": False,
    }


def _earlier(event: Event) -> dict[str, Any]:
    """Event 2 names event 1 and the time since then, to 0.1 s."""
    if event.first is None:
        return {"first_crash_id": None, "event_1_to_2_ms": None}
    since_ms = round((event.zero_ms - event.first.zero_ms) / 100) * 100
    return {"first_crash_id": event.first.crash_id, "event_1_to_2_ms": since_ms}


def _element(name: str, values: Floats, has_engine: bool) -> list[float | bool | None]:
    if name == "engine_rpm" and not has_engine:
        return [None] * len(values)
    kind = int if name in STEPS else bool
    return [None if np.isnan(v) else kind(v) for v in values]
