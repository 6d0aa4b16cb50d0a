"""The crash table: pulses of every type and delta-V, and knocks that are no crash, put to a recorder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edge_simulator.edr import pulse, recorder, trigger
from edge_simulator.edr.pulse import Pulse
from infra.contract.messages import crash_digest, decode_crash

DELTA_VS_KMH = (6.0, 8.0, 10.0, 16.0, 25.0, 40.0, 56.0)
STRIKE = (7.0, 20)  # a stone under the car, km/h and ms: below 8 km/h, and a pretensioner fires
VEHICLE_ID = "1HGCM82633A004352"
ZERO_MS = 1_760_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """The pulses of one type and delta-V; ``wanted`` of them have to trigger.

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


def table(profile: recorder.Profile, seeds: Sequence[int]) -> list[Line]:
    """Every type at every delta-V, the stone, and every knock, each with all ``seeds``."""
    ring, found = driven(profile), []
    for delta_v_kmh, bursts in _pulses(seeds):
        hits = [_judged(burst, profile, ring) for burst in bursts]
        wanted = [b.kind == "strike" or (delta_v_kmh is not None and reaches_threshold(b)) for b in bursts]
        triggered = [hit for hit in hits if hit is not None]
        max_kmh, max_ms, _, _ = max(triggered, key=lambda hit: abs(hit[0]), default=(None, None, 0, 0))
        peak_g = max(max(np.abs(b.long).max(), np.abs(b.lat).max()) for b in bursts) / pulse.G_MPS2
        found.append(Line(
            bursts[0].kind, delta_v_kmh, len(bursts), sum(wanted), len(triggered),
            sum((hit is not None) != want for hit, want in zip(hits, wanted, strict=True)),
            round(float(peak_g), 1), max_kmh, max_ms, sum(hit[2] for hit in triggered),
            sum(hit[3] for hit in triggered),
        ))  # fmt: skip
    return found


def _pulses(seeds: Sequence[int]) -> Iterator[tuple[float | None, list[Pulse]]]:
    for kind in pulse.KINDS.values():
        for delta_v_kmh in DELTA_VS_KMH:
            yield delta_v_kmh, [pulse.drawn(kind, delta_v_kmh, np.random.default_rng(k)) for k in seeds]
    yield STRIKE[0], [pulse.strike(*STRIKE)]
    for draw in pulse.KNOCKS.values():
        yield None, [draw(np.random.default_rng(k)) for k in seeds]


def _judged(
    burst: Pulse, profile: recorder.Profile, ring: recorder.Ring
) -> tuple[int, float, bool, bool] | None:
    """What the recorder makes of a pulse: the most on its own axis, km/h and ms, air bag, a whole record.

    Whole: it holds all samples, passes the contract and has its digest. None: nothing triggers.
    """
    finding = trigger.judge(burst.long, burst.lat)
    if finding is None:
        return None
    event = recorder.Memory().store("0-0", ZERO_MS, bool(finding.deployed_ms))
    assert event is not None  # an empty memory has room
    scene = recorder.Scene(VEHICLE_ID, 0, 0, ZERO_MS, 0.0, 0.0, has_engine=True, ignition_cycle=1)
    record = decode_crash(recorder.record(profile, scene, ring.harvest(0, ZERO_MS), finding, event))
    axis = finding.lat if np.abs(burst.lat).max() > np.abs(burst.long).max() else finding.long
    whole = record["complete"] and record["sha256"] == crash_digest(record)
    return axis.max_kmh, axis.max_ms, record["airbag_deployed"], whole


def reaches_threshold(burst: Pulse) -> bool:
    """Whether an axis changes by 8 km/h within 150 ms: every pair of moments, without the recorder's help."""
    speeds = [np.r_[0.0, np.cumsum(axis)] / pulse.SAMPLE_HZ * 3.6 for axis in (burst.long, burst.lat)]
    lags = range(1, trigger.TRIGGER_MS + 1)
    largest = max(float(np.abs(speed[lag:] - speed[:-lag]).max()) for speed in speeds for lag in lags)
    return largest >= trigger.TRIGGER_KMH - trigger.DUST_KMH


def driven(profile: recorder.Profile) -> recorder.Ring:
    """The ring of one vehicle that has driven 50 km/h for as long as it remembers, up to ZERO_MS."""
    ring = recorder.Ring(1, profile.samples, profile.dt_ms)
    numbers = dict.fromkeys(recorder.NUMBERS, np.full(1, 50.0))
    flags = {name: np.array([name in ("driver_belt_on", "ignition_on")]) for name in recorder.FLAGS}
    for back in range(profile.samples + 1, -1, -1):
        ring.record(ZERO_MS - back * profile.dt_ms, numbers | flags)
    return ring
