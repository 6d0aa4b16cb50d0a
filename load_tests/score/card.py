"""The whole scorecard of a run out of what really happened and what was found; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from load_tests.score import faults, spans
from load_tests.score.definition import Definition
from load_tests.score.events import Claim, Judged, Truth

CRASHES = ("crash", "multi_crash")


@dataclass(frozen=True, slots=True)
class Happened:
    """What the simulator says of one run, by kind. Faults hold outages of the link too."""

    run_id: str
    end_ms: int
    faults: Sequence[Truth]
    trips: Sequence[Truth]
    stops: Sequence[Truth]
    harsh: Sequence[Truth]
    untrue: Sequence[Truth]  # of vehicles whose data does not tell their own way, or not when
    clones: Sequence[Truth]
    harsh_near: Sequence[Truth] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What the service says of the same vehicles in the same time. None: there is no such table yet."""

    alarms: Sequence[Claim]
    trips: Sequence[Claim] | None
    harsh: Sequence[Claim] | None
    confirmed: Sequence[Claim] | None
    """Crash records with the verdict confirmed."""
    clones: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Card:
    """One run's scorecard. ``unknown`` are rules that raised alerts and that the definition does not name.

    ``flood``: alerts and incidents of all faults together.
    """

    run_id: str
    lines: Sequence[Judged]
    unknown: Sequence[str]
    flood: faults.Flood

    def failed(self, least: float) -> list[str]:
        """Detectors below ``least``."""
        return [line.detector for line in self.lines if not line.passes(least)]


def card(definition: Definition, happened: Happened, found: Found) -> Card:
    """Every detector's line, in the order of the definition; then trips, harsh events, verdicts, clones."""
    under_way = {
        vehicle: [(trip.from_ms, trip.to_ms or happened.end_ms) for trip in trips]
        for vehicle, trips in spans.by_vehicle(happened.trips).items()
    }
    parked = {stop.vehicle_id for stop in happened.stops} - set(under_way)
    scene = faults.Scene(happened.end_ms, under_way | {vehicle: [] for vehicle in parked})
    lines = [
        faults.judge(detector, definition, happened.faults, found.alarms, scene)
        for detector in definition.detectors
    ]
    lines += [
        _trips(definition, happened, found.trips),
        *_harsh(definition, happened, found.harsh),
        _verdicts(definition, happened, found.confirmed),
        _clones(happened, found.clones),
    ]
    unknown = sorted({alarm.what for alarm in found.alarms if not definition.known(alarm.what)})
    return Card(happened.run_id, lines, unknown, faults.flood(definition, happened.faults, found.alarms))


def _trips(definition: Definition, happened: Happened, claims: Sequence[Claim] | None) -> Judged:
    stop_ms, parked_ms = round(definition.trip_stop_s * 1000), round(definition.trip_parked_s * 1000)
    stops = spans.by_vehicle(happened.stops)
    truths = [
        trip
        for vehicle, trips in spans.by_vehicle(happened.trips).items()
        for trip in spans.expected_trips(trips, stops.get(vehicle, []), stop_ms, parked_ms)
    ]
    untrue = {truth.vehicle_id for truth in happened.untrue}

    def excuse(trip: Truth) -> str | None:
        metres = trip.details.get("distance_m")
        if trip.vehicle_id in untrue:
            return "clone or clock"
        if not trip.details["whole"]:
            return "cut by the run"
        return "too short" if metres is not None and metres < definition.trip_least_m else None

    fit = spans.overlap(round(definition.trip_tolerance_s * 1000), definition.trip_overlap)
    line = spans.judge("trips", truths, claims or (), fit, excuse, lambda claim: claim.vehicle_id in untrue)
    return _noted(line, claims)


def _harsh(definition: Definition, happened: Happened, claims: Sequence[Claim] | None) -> list[Judged]:
    """A line a kind. A crash looks like harsh driving and is none; one at a threshold need not be found."""
    tolerance_ms = round(definition.harsh_within_s * 1000)
    untrue = {truth.vehicle_id for truth in happened.untrue}
    hits = spans.by_vehicle([fault for fault in happened.faults if fault.what in CRASHES])
    last_ms = happened.end_ms - round(definition.slack_s * 1000)  # behind it a frame may not be whole

    def explains(claim: Claim) -> bool:
        near = (hit.from_ms - tolerance_ms <= claim.from_ms <= hit.from_ms + tolerance_ms
                for hit in hits.get(claim.vehicle_id, ()))  # fmt: skip
        return claim.vehicle_id in untrue or any(near)

    def excuse(truth: Truth) -> str | None:
        if truth.vehicle_id in untrue:
            return "clone or clock"
        if not truth.details.get("whole", True) or (truth.to_ms or truth.from_ms) > last_ms:
            return "cut by the run"
        peak_g, limit_g = (truth.details.get(key) for key in ("peak_g", "limit_g"))
        at_limit = (
            peak_g is not None and limit_g is not None and peak_g - limit_g < definition.harsh_accuracy_g
        )
        return "at the threshold" if truth in happened.harsh_near or at_limit else None

    told = [*happened.harsh, *happened.harsh_near]
    kinds = sorted({truth.what for truth in told} | {claim.what for claim in claims or ()})
    return [
        _noted(
            spans.judge(
                f"harsh {kind}",
                [truth for truth in told if truth.what == kind],
                [claim for claim in claims or () if claim.what == kind],
                spans.within(tolerance_ms),
                excuse,
                explains,
            ),
            claims,
        )
        for kind in kinds
    ]


def _verdicts(definition: Definition, happened: Happened, claims: Sequence[Claim] | None) -> Judged:
    """Confirmed crash records against crashes: each truth once, whatever its kind."""
    slack_ms = round(definition.slack_s * 1000)
    crashes = [replace(fault, what="crash") for fault in happened.faults if fault.what in CRASHES]
    least = definition.faults["crash"].least

    def excuse(crash: Truth) -> str | None:
        below = any(abs(crash.details.get(key, figure)) < figure for key, figure in least.items())
        return "below the threshold" if below else None

    line = spans.judge("crash verdict", crashes, claims or (), spans.within(slack_ms), excuse)
    return _noted(line, claims)


def _clones(happened: Happened, claims: Sequence[Claim]) -> Judged:
    """By vehicle: which two boots were at work tells no time of its own."""
    line = spans.judge("clones", happened.clones, claims, lambda *_: 1.0, lambda _: None)
    return replace(line, timed=False)


def _noted(line: Judged, claims: Sequence[Claim] | None) -> Judged:
    return replace(line, note="no such table yet") if claims is None else line


def as_rows(found: Card) -> list[dict[str, Any]]:
    """The card as plain values, a row a detector."""
    return [_row(line) for line in found.lines]


def _row(line: Judged) -> dict[str, Any]:
    return {
        "detector": line.detector,
        "truths": line.truths,
        "found": len(line.found),
        "recall": line.recall,
        "claims": line.hits + len(line.false),
        "false": len(line.false),
        "precision": line.precision,
        "explained": line.explained,
        "excluded": dict(line.excluded),
        "delay_p50_s": line.delay_s(50),
        "delay_p95_s": line.delay_s(95),
        "note": line.note,
    }


def details(found: Card) -> list[Mapping[str, Any]]:
    """Every miss and every false claim, for mending."""
    rows: list[Mapping[str, Any]] = []
    for line in found.lines:
        rows += [
            {"detector": line.detector, "case": "missed", "what": t.what, "vehicle_id": t.vehicle_id,
             "from_ms": t.from_ms, "to_ms": t.to_ms, "label": _told(t.details)}
            for t in line.missed
        ]  # fmt: skip
        rows += [
            {"detector": line.detector, "case": "false", "what": c.what, "vehicle_id": c.vehicle_id,
             "from_ms": c.from_ms, "to_ms": c.to_ms, "label": c.label}
            for c in line.false
        ]  # fmt: skip
    return rows


def _told(given: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in given.items() if key not in ("whole", "ended"))
