"""The crash table: pulses of every type and delta-V, and knocks that are no crash, put to a recorder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from edge_simulator.edr import pulse, recorder, trigger
from edge_simulator.edr.pulse import Pulse
from infra.contract.messages import crash_digest, decode_crash

DELTA_VS_KMH = (6.0, 8.0, 10.0, 16.0, 25.0, 40.0, 56.0)
STRIKE = (7.0, 20)  # a stone under the car, km/h and ms: below 8 km/h, and a pretensioner fires
VEHICLE_ID = "1HGCM82633A004352"
ZERO_MS = 1_760_000_000_000


class Case(NamedTuple):
    """One pulse and what the recorder made of it. ``wanted``: it has to trigger."""

    kind: str
    delta_v_kmh: float | None
    wanted: bool
    peak_g: float
    triggered: bool = False
    max_kmh: int | None = None
    max_ms: float | None = None
    air_bag: bool = False
    complete: bool = False  # the record holds all samples, passes the contract and has its digest


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
    for burst, delta_v_kmh, wanted in _pulses(seeds):
        sideways = np.abs(burst.lat).max() > np.abs(burst.long).max()
        peak_g = float(np.abs(burst.lat if sideways else burst.long).max()) / pulse.G_MPS2
        finding = trigger.judge(burst.long, burst.lat)
        if finding is None:
            yield Case(burst.kind, delta_v_kmh, wanted, peak_g)
            continue
        event = recorder.Memory().store("0-0", ZERO_MS, bool(finding.deployed_ms))
        assert event is not None  # an empty memory has room
        scene = recorder.Scene(VEHICLE_ID, 0, 0, ZERO_MS, 0.0, 0.0, has_engine=True, ignition_cycle=1)
        record = decode_crash(recorder.record(profile, scene, ring.harvest(0, ZERO_MS), finding, event))
        axis = finding.lat if sideways else finding.long
        whole = record["complete"] and record["sha256"] == crash_digest(record)
        bag = record["airbag_deployed"]
        yield Case(burst.kind, delta_v_kmh, wanted, peak_g, True, axis.max_kmh, axis.max_ms, bag, whole)


def _pulses(seeds: Sequence[int]) -> Iterator[tuple[Pulse, float | None, bool]]:
    for kind in pulse.KINDS.values():
        for delta_v_kmh in DELTA_VS_KMH:
            for seed in seeds:
                burst = pulse.drawn(kind, delta_v_kmh, np.random.default_rng(seed))
                yield burst, delta_v_kmh, reaches_threshold(burst)
    yield pulse.strike(*STRIKE), STRIKE[0], True
    for draw in pulse.KNOCKS.values():
        for seed in seeds:
            yield draw(np.random.default_rng(seed)), None, False


def lines(found: Iterable[Case]) -> list[Line]:
    """The table: cases in their order, those of one type and delta-V together."""
    table: list[Line] = []
    for (kind, delta_v_kmh), group in groupby(found, lambda case: (case.kind, case.delta_v_kmh)):
        alike = list(group)
        furthest = max(alike, key=lambda case: abs(case.max_kmh or 0))
        _, _, wanted, peaks_g, triggered, _, _, bags, complete = zip(*alike, strict=True)
        wrong = sum(case.triggered != case.wanted for case in alike)
        table.append(Line(
            kind, delta_v_kmh, len(alike), sum(wanted), sum(triggered), wrong, round(max(peaks_g), 1),
            furthest.max_kmh, furthest.max_ms, sum(bags), sum(complete),
        ))  # fmt: skip
    return table


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
