"""Matching spans of time one to one: trips and harsh events; pure. Times are ms since 1970."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from load_tests.score.events import Claim, Judged, Truth

Kind = TypeVar("Kind", Truth, Claim)
Likeness = Callable[[Truth, Claim], float]
"""How well a claim fits what happened, 0: not at all."""


def one_to_one(truths: Sequence[Truth], claims: Sequence[Claim], likeness: Likeness) -> dict[int, int]:
    """Index of the claim by index of the truth; the best pairs first, each used once. One vehicle's."""
    pairs = [
        (-fit, t, c)
        for t, truth in enumerate(truths)
        for c, claim in enumerate(claims)
        if (fit := likeness(truth, claim)) > 0
    ]
    taken: dict[int, int] = {}
    used: set[int] = set()
    for _, t, c in sorted(pairs):
        if t not in taken and c not in used:
            taken[t] = c
            used.add(c)
    return taken


def judge(
    detector: str, truths: Iterable[Truth], claims: Iterable[Claim], likeness: Likeness,
    excuse: Callable[[Truth], str | None], explains: Callable[[Claim], bool] = lambda _: False,
) -> Judged:  # fmt: skip
    """Every span of truth against every claim of its vehicle.

    ``excuse``: why a truth need not be found; a claim that fits one is explained. ``explains``: whether a
    claim that fits nothing has another cause.
    """
    happened, claimed = by_vehicle(truths), by_vehicle(claims)
    found: list[tuple[Truth, Claim]] = []
    missed: list[Truth] = []
    false: list[Claim] = []
    excluded: Counter[str] = Counter()
    explained = 0
    for vehicle in sorted({*happened, *claimed}):
        ours, theirs = happened.get(vehicle, []), claimed.get(vehicle, [])
        taken = one_to_one(ours, theirs, likeness)
        for t, truth in enumerate(ours):
            why = excuse(truth)
            if why is not None:
                excluded[why] += 1
                explained += t in taken
            elif t in taken:
                found.append((truth, theirs[taken[t]]))
            else:
                missed.append(truth)
        left = [claim for c, claim in enumerate(theirs) if c not in taken.values()]
        false += [claim for claim in left if not explains(claim)]
        explained += sum(explains(claim) for claim in left)
    return Judged(detector, found, missed, len(found), explained, false, excluded)


def overlap(tolerance_ms: int, least: float) -> Likeness:
    """Share of the common span in both, each end forgiven ``tolerance_ms``; 0 below ``least``."""

    def likeness(truth: Truth, claim: Claim) -> float:
        end_ms = truth.from_ms if truth.to_ms is None else truth.to_ms
        whole = max(end_ms, claim.to_ms) - min(truth.from_ms, claim.from_ms)
        common = min(end_ms, claim.to_ms) - max(truth.from_ms, claim.from_ms)
        if common <= 0:
            return 0.0
        off = (abs(truth.from_ms - claim.from_ms), abs(end_ms - claim.to_ms))
        share = 1 - sum(max(0, ms - tolerance_ms) for ms in off) / whole
        return share if share >= least else 0.0

    return likeness


def within(tolerance_ms: int) -> Likeness:
    """Of one kind, and no more than ``tolerance_ms`` between the two spans; the nearer the better."""

    def likeness(truth: Truth, claim: Claim) -> float:
        if truth.what != claim.what:
            return 0.0
        end_ms = truth.from_ms if truth.to_ms is None else truth.to_ms
        gap_ms = max(0, claim.from_ms - end_ms, truth.from_ms - claim.to_ms)
        off_ms = gap_ms + abs(truth.from_ms - claim.from_ms) / 1000
        return 1 / (1 + off_ms) if gap_ms <= tolerance_ms else 0.0

    return likeness


def expected_trips(
    trips: Sequence[Truth], stops: Sequence[Truth], stop_ms: int, parked_ms: int
) -> list[Truth]:
    """Trips as the service has them: parted by a stop of ``stop_ms``, or ``parked_ms`` with the ignition off.

    Truth tells trips from ignition to parking, where the ignition may stay on (``ignition_on``). ``whole`` is
    false where the outer end of a trip was not seen.
    """
    ordered = sorted(trips, key=lambda trip: trip.from_ms)
    joined: list[Truth] = []
    for trip in ordered:
        ends = stop_ms if joined and joined[-1].details.get("ignition_on") else parked_ms
        if joined and trip.from_ms - _end(joined[-1]) < ends:
            joined[-1] = _joined(joined[-1], trip)
        else:
            joined.append(trip)
    long_stops = [stop for stop in stops if _end(stop) - stop.from_ms >= stop_ms]
    return [part for trip in joined for part in _parted(trip, long_stops)]


def _parted(trip: Truth, stops: Sequence[Truth]) -> list[Truth]:
    """The trip between its long stops; what is left of it before the first and after the last counts too."""
    inside = sorted(
        (max(stop.from_ms, trip.from_ms), min(_end(stop), _end(trip)))
        for stop in stops
        if stop.from_ms < _end(trip) and _end(stop) > trip.from_ms
    )
    edges = [(trip.from_ms, trip.from_ms), *inside, (_end(trip), _end(trip))]
    spans = [(a[1], b[0]) for a, b in pairwise(edges) if b[0] > a[1]]
    begun, ended = trip.details.get("begun", True), trip.details.get("ended", True)
    return [
        Truth(
            trip.what, trip.vehicle_id, begin, end, None,
            {"whole": (begun or begin > trip.from_ms) and (ended or end < _end(trip)),
             "distance_m": trip.details.get("distance_m") if len(spans) == 1 else None},
        )
        for begin, end in spans
    ]  # fmt: skip


def _joined(one: Truth, other: Truth) -> Truth:
    metres = [trip.details.get("distance_m") or 0.0 for trip in (one, other)]
    last = {"ended": other.details.get("ended", True), "ignition_on": other.details.get("ignition_on")}
    details = {**one.details, **last, "distance_m": sum(metres)}
    return Truth(one.what, one.vehicle_id, one.from_ms, _end(other), None, details)


def _end(truth: Truth) -> int:
    return truth.from_ms if truth.to_ms is None else truth.to_ms


def by_vehicle(items: Iterable[Kind]) -> dict[str, list[Kind]]:
    """Lists in order of their begin, by vehicle."""
    found: dict[str, list[Kind]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.from_ms):
        found[item.vehicle_id].append(item)
    return found
