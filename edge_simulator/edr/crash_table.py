"""The crash table: pulses of every type and delta-V, and knocks that are no crash, put to a recorder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from edge_simulator.edr import pulse, recorder, trigger
from edge_simulator.edr.pulse import Pulse
from edge_simulator.edr.recorder import FLAGS, STEPS, Memory, Ring
from edge_simulator.geo import Floats
from infra.contract.messages import crash_digest, decode_crash

DELTA_VS_KMH = (6.0, 8.0, 10.0, 16.0, 25.0, 40.0, 56.0)
STRIKE = (7.0, 20)
"""A stone under the car, km/h and ms: below 8 km/h, and a pretensioner fires."""
VEHICLE_ID = "1HGCM82633A004352"
ZERO_MS = 1_760_000_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """One pulse and what the recorder made of it. ``wanted``: it has to trigger."""

    kind: str
    delta_v_kmh: float | None
    wanted: bool
    triggered: bool
    peak_g: float
    max_kmh: int | None
    max_ms: float | None
    air_bag: bool
    complete: bool
    """The record holds all samples, passes the contract and has its digest."""


@dataclass(frozen=True, slots=True)
class Line:
    """The cases of one type and delta-V; ``max_kmh`` and ``max_ms`` are those furthest from 0."""

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


def cases(profile: recorder.Profile, seeds: Sequence[int]) -> Iterator[Case]:
    """Every type at every delta-V, the stone, and every knock, each with all ``seeds``."""
    ring = driven(profile)
    for kind in pulse.KINDS.values():
        for delta_v_kmh in DELTA_VS_KMH:
            for seed in seeds:
                burst = pulse.drawn(kind, delta_v_kmh, np.random.default_rng(seed))
                yield _case(burst, delta_v_kmh, reaches_threshold(burst), profile, ring)
    yield _case(pulse.strike(*STRIKE), STRIKE[0], True, profile, ring)
    for draw in pulse.KNOCKS.values():
        for seed in seeds:
            yield _case(draw(np.random.default_rng(seed)), None, False, profile, ring)


def lines(found: Iterable[Case]) -> list[Line]:
    """The table: cases in their order, those of one type and delta-V together."""
    return [
        _line(kind, delta_v_kmh, list(group))
        for (kind, delta_v_kmh), group in groupby(found, lambda case: (case.kind, case.delta_v_kmh))
    ]


def reaches_threshold(burst: Pulse) -> bool:
    """Whether an axis changes by 8 km/h within 150 ms: every pair of moments, without the recorder's help."""
    return any(_largest_kmh(axis) >= trigger.TRIGGER_KMH - 1e-9 for axis in (burst.long, burst.lat))


def _largest_kmh(accel: Floats) -> float:
    speed = np.concatenate([[0.0], np.cumsum(accel)]) / pulse.SAMPLE_HZ * 3.6
    return max(float(np.abs(speed[lag:] - speed[:-lag]).max()) for lag in range(1, trigger.TRIGGER_MS + 1))


def driven(profile: recorder.Profile) -> Ring:
    """The ring of one vehicle that has driven 50 km/h for as long as it remembers, up to ZERO_MS."""
    ring = Ring(1, profile.samples, profile.dt_ms)
    numbers = dict.fromkeys(STEPS, np.full(1, 50.0))
    flags = {name: np.array([name in ("driver_belt_on", "ignition_on")]) for name in FLAGS}
    for back in range(profile.samples + 1, -1, -1):
        ring.record(ZERO_MS - back * profile.dt_ms, numbers | flags)
    return ring


def _case(
    burst: Pulse, delta_v_kmh: float | None, wanted: bool, profile: recorder.Profile, ring: Ring
) -> Case:
    own = burst.lat if np.abs(burst.lat).max() > np.abs(burst.long).max() else burst.long
    peak_g = float(np.abs(own).max()) / pulse.G_MPS2
    finding = trigger.judge(burst.long, burst.lat)
    if finding is None:
        return Case(burst.kind, delta_v_kmh, wanted, False, peak_g, None, None, False, False)
    event = Memory().store("0-0", ZERO_MS, bool(finding.deployed_ms))
    assert event is not None  # an empty memory has room
    scene = recorder.Scene(VEHICLE_ID, 0, 0, ZERO_MS, 0.0, 0.0, has_engine=True, ignition_cycle=1)
    record = decode_crash(recorder.record(profile, scene, ring.harvest(0, ZERO_MS), finding, event))
    axis = finding.lat if own is burst.lat else finding.long
    whole = record["complete"] and record["sha256"] == crash_digest(record)
    return Case(
        burst.kind, delta_v_kmh, wanted, True, peak_g, axis.max_kmh, axis.max_ms,
        record["airbag_deployed"], whole,
    )  # fmt: skip


def _line(kind: str, delta_v_kmh: float | None, found: Sequence[Case]) -> Line:
    furthest = max(found, key=lambda case: abs(case.max_kmh or 0))
    return Line(
        kind=kind,
        delta_v_kmh=delta_v_kmh,
        cases=len(found),
        wanted=sum(case.wanted for case in found),
        triggered=sum(case.triggered for case in found),
        wrong=sum(case.triggered != case.wanted for case in found),
        peak_g=round(max(case.peak_g for case in found), 1),
        max_kmh=furthest.max_kmh,
        max_ms=furthest.max_ms,
        air_bags=sum(case.air_bag for case in found),
        complete=sum(case.complete for case in found),
    )
