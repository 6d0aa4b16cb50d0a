"""The crash table: pulses of every type and delta-V, and knocks that are no crash, put to a recorder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_simulator.edr import pulse, recorder
from edge_simulator.edr.pulse import Finding, Kind, Pulse
from edge_simulator.geo import G_MPS2, Floats
from infra.contract.messages import TRIGGER_KMH, TRIGGER_MS, Profile, crash_digest, decode_crash

DELTA_VS_KMH = (6.0, 8.0, 10.0, 16.0, 25.0, 40.0, 56.0)
STRIKE = (7.0, 20)  # a stone under the car, km/h and ms: below 8 km/h, and a pretensioner fires
VEHICLE_ID = "1HGCM82633A004352"
ZERO_MS = 1_760_000_000_000
SCENE: dict[str, Any] = {
    "vehicle_id": VEHICLE_ID, "boot_id": 0, "seq": 0, "event_ms": ZERO_MS, "lat_deg": 0.0, "lon_deg": 0.0,
    "has_engine": True, "ignition_cycle": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """The pulses of one type and delta-V; ``wanted`` of them have to pulse.

    ``max_kmh`` and ``max_ms`` are those furthest from 0; ``complete`` counts records that are whole.
    """

    kind: str
    delta_v_kmh: float | None
    cases: int
    wanted: int
    triggered: int
    wrong: int
    peak_g: float
    max_kmh: int | None
    max_ms: float | None
    air_bags: int
    complete: int


def table(profile: Profile, seeds: Sequence[int]) -> list[Line]:
    """Every type at every delta-V, the stone, and every knock, each with all ``seeds``."""
    ring, found = driven(profile), []
    for kind, delta_v_kmh, bursts in _pulses(seeds):
        hits = [_judged(burst, profile, ring) for burst in bursts]
        wanted = [kind == "strike" or (delta_v_kmh is not None and reaches_threshold(b)) for b in bursts]
        triggered = [hit for hit in hits if hit is not None]
        max_kmh, max_ms, _, _ = max(triggered, key=lambda hit: abs(hit[0]), default=(None, None, 0, 0))
        peak_g = max(max(np.abs(b.long).max(), np.abs(b.lat).max()) for b in bursts) / G_MPS2
        found.append(Line(
            kind, delta_v_kmh, len(bursts), sum(wanted), len(triggered),
            sum((hit is not None) != want for hit, want in zip(hits, wanted, strict=True)),
            round(float(peak_g), 1), max_kmh, max_ms, sum(hit[2] for hit in triggered),
            sum(hit[3] for hit in triggered),
        ))  # fmt: skip
    return found


def _pulses(seeds: Sequence[int]) -> Iterator[tuple[str, float | None, list[Pulse]]]:
    for name, kind in pulse.KINDS.items():
        for delta_v_kmh in DELTA_VS_KMH:
            yield name, delta_v_kmh, [drawn(kind, delta_v_kmh, np.random.default_rng(k)) for k in seeds]
    yield "strike", STRIKE[0], [strike(*STRIKE)]
    for name, draw in KNOCKS.items():
        yield name, None, [draw(np.random.default_rng(k)) for k in seeds]


def _judged(burst: Pulse, profile: Profile, ring: recorder.Ring) -> tuple[int, float, bool, bool] | None:
    """What the recorder makes of a pulse: the most on its own axis, km/h and ms, air bag, a whole record.

    Whole: it holds all samples, passes the contract and has its digest. None: nothing triggers.
    """
    finding = judge(burst.long, burst.lat)
    if finding is None:
        return None
    event = recorder.Memory().store("0-0", ZERO_MS, bool(finding.deployed_ms))
    assert event is not None  # an empty memory has room
    record = decode_crash(recorder.record(profile, ring.harvest(0, ZERO_MS), finding, event, **SCENE))
    axis = finding.lat if np.abs(burst.lat).max() > np.abs(burst.long).max() else finding.long
    whole = record["complete"] and record["sha256"] == crash_digest(record)
    return axis.max_kmh, axis.max_ms, record["airbag_deployed"], whole


def drawn(kind: Kind, delta_v_kmh: float, rng: np.random.Generator) -> Pulse:
    """A crash of ``kind`` with a width out of its range."""
    low, high = kind.width_ms
    return pulse.crash(kind, delta_v_kmh, int(rng.integers(low, high + 1)), rng)


def judge(long: Floats, lat: Floats | None = None) -> Finding | None:
    """The first event in a burst, or None."""
    return next(iter(pulse.events(long, lat)), None)


def reaches_threshold(burst: Pulse) -> bool:
    """Whether an axis changes by 8 km/h within 150 ms: every pair of moments, without the recorder's help."""
    speeds = [np.r_[0.0, np.cumsum(axis)] / pulse.SAMPLE_HZ * 3.6 for axis in (burst.long, burst.lat)]
    lags = range(1, TRIGGER_MS + 1)
    largest = max(float(np.abs(speed[lag:] - speed[:-lag]).max()) for speed in speeds for lag in lags)
    return largest >= TRIGGER_KMH - pulse.DUST_KMH


def driven(profile: Profile) -> recorder.Ring:
    """The ring of one vehicle that has driven 50 km/h for as long as it remembers, up to ZERO_MS."""
    ring = recorder.Ring(1, profile.samples, profile.dt_ms)
    numbers = dict.fromkeys(recorder.NUMBERS, np.full(1, 50.0))
    flags = {name: np.array([name in ("driver_belt_on", "ignition_on")]) for name in recorder.FLAGS}
    for back in range(profile.samples + 1, -1, -1):
        ring.record(ZERO_MS - back * profile.dt_ms, numbers | flags)
    return ring


def strike(delta_v_kmh: float, width_ms: int) -> Pulse:
    """A stone under the car: short and sharp; it may fire a pretensioner below any crash's threshold."""
    long = pulse.haversine(-delta_v_kmh, width_ms)
    return Pulse(long, np.zeros(len(long)))


def _pothole(rng: np.random.Generator) -> Pulse:
    long = pulse.kerb(float(rng.uniform(2, 6)), float(rng.uniform(5, 20)))
    return Pulse(long, 0.4 * float(rng.uniform(-1, 1)) * long)


def _kerb_from_the_side(rng: np.random.Generator) -> Pulse:
    lat = pulse.kerb(float(rng.uniform(2, 6)), float(rng.uniform(5, 20))) * float(rng.choice((-1, 1)))
    return Pulse(0.3 * lat, lat)


def _braking(rng: np.random.Generator) -> Pulse:
    """An emergency stop: 0.25 s to full pressure, then 9 to 10.5 m/s2 with the anti-lock's pulsing."""
    n = int(rng.integers(1500, 3000))
    t = np.arange(n) / pulse.SAMPLE_HZ
    held = -float(rng.uniform(9.0, 10.5)) * np.minimum(t / 0.25, 1.0)
    pulsing = 1 + 0.06 * np.sin(2 * np.pi * float(rng.uniform(5, 10)) * t)
    return Pulse(held * pulsing, 0.3 * rng.standard_normal(n))


def _door_slam(rng: np.random.Generator) -> Pulse:
    """A few g that ring out within a tenth of a second."""
    t = np.maximum(np.arange(400) - pulse.BEFORE_MS, 0) / pulse.SAMPLE_HZ
    hz, peak_g = float(rng.uniform(30, 80)), float(rng.uniform(1, 3))
    lat = peak_g * G_MPS2 * np.exp(-t / 0.02) * np.sin(2 * np.pi * hz * t)
    return Pulse(np.zeros(len(lat)), lat)


def _speed_bump(rng: np.random.Generator) -> Pulse:
    """Each axle climbs and descends: swings of up to 0.8 g that take a third of a second."""
    t = np.arange(900) - pulse.BEFORE_MS
    width = float(rng.uniform(200, 350))
    swing = np.where((t >= 0) & (t < 2 * width), np.sin(2 * np.pi * t / width), 0.0)
    long = -float(rng.uniform(0.3, 0.8)) * G_MPS2 * swing
    return Pulse(long, np.zeros(len(long)))


KNOCKS: Mapping[str, Callable[[np.random.Generator], Pulse]] = {
    "pothole": _pothole, "kerb": _kerb_from_the_side, "braking": _braking, "door_slam": _door_slam,
    "speed_bump": _speed_bump,
}  # fmt: skip
"""What must never trigger a recorder, each drawn from a generator."""
