"""Alarms against faults: which were found, which missed, which alarms were false; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from load_tests.score.definition import Definition, Detector, Terms
from load_tests.score.events import Claim, Judged, Truth
from load_tests.score.spans import by_vehicle

CODE: Final = "code"
"""Truth of a trouble code: what a fault's own diagnosis says, no fault beside it."""
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Scene:
    """What truth says of the run besides faults: its end, and when each vehicle was under way.

    A vehicle that is not in ``under_way`` is taken to drive all the time.
    """

    end_ms: int
    under_way: Mapping[str, Spans] = field(default_factory=dict)


def judge(
    detector: Detector, definition: Definition, faults: Sequence[Truth], alarms: Sequence[Claim], scene: Scene
) -> Judged:
    """How a detector's alarms (all its rules', one item an alert) fit the faults of the run.

    An alarm is right when it opens while a fault of its kinds is there. It finds every such fault that begins
    before it was last seen. One that opens for another reason is explained or false.
    """
    mine = [alarm for alarm in alarms if definition.detector_of(alarm.what) == detector.id]
    alarmed = by_vehicle(mine)
    excluded: Counter[str] = Counter()
    wanted: list[Truth] = []
    for fault in faults:
        if fault.what in detector.finds:
            why = excuse(fault, definition.faults[fault.what], scene)
            if why is None:
                wanted.append(fault)
            else:
                excluded[why] += 1
    troubles = by_vehicle([fault for fault in faults if fault.what in definition.faults])
    sorted_out = {id(alarm): _kind(alarm, troubles, wanted, detector, definition) for alarm in mine}
    found, missed = [], []
    for fault in wanted:
        right = [a for a in alarmed.get(fault.vehicle_id, []) if sorted_out[id(a)] == "right"]
        first = _first(fault, right, definition)
        if first is None:
            missed.append(fault)
        else:
            found.append((fault, first))
    kinds = Counter(sorted_out.values())
    false = [alarm for alarm in mine if sorted_out[id(alarm)] == "false"]
    return Judged(detector.id, found, missed, kinds["right"], kinds["explained"], false, excluded)


@dataclass(frozen=True, slots=True)
class Flood:
    """How much people are told of what happened: faults that raised anything, its alerts and incidents."""

    faults: int
    incidents: int
    alerts: int


def flood(definition: Definition, faults: Sequence[Truth], alarms: Sequence[Claim]) -> Flood:
    """All alarms that a fault raises, its symptoms and codes too; one without an incident is its own."""
    finds = {detector.id: detector.finds for detector in definition.detectors}
    troubles = by_vehicle([f for f in faults if f.what in definition.faults and f.what != CODE])
    told, incidents, alerts = set[int](), set[tuple[bool, int]](), 0
    for number, alarm in enumerate(alarms):
        detector = definition.detector_of(alarm.what)
        its = [
            fault for fault in troubles.get(alarm.vehicle_id, ())
            if detector is not None and _opens_in(alarm, fault, definition)
            and ({fault.what, CODE} & {*finds[detector]} or detector in definition.faults[fault.what].brings)
        ]  # fmt: skip
        told.update(map(id, its))
        if its:
            alerts += 1
            incidents.add((False, number) if alarm.incident is None else (True, alarm.incident))
    return Flood(len(told), len(incidents), alerts)


def excuse(fault: Truth, terms: Terms, scene: Scene) -> str | None:
    """Why nobody has to find a fault; None where somebody has to.

    Where truth does not tell ``engine_s`` and ``warm_s``, the engine is taken to run, warm, all the time
    under way.
    """
    gone_ms = scene.end_ms if fault.to_ms is None else min(fault.to_ms, scene.end_ms)
    for key, least in terms.least.items():
        if abs(fault.details.get(key, least)) < least:
            return "below the threshold"
    if fault.full_ms is not None and fault.full_ms > gone_ms:
        return "never full"
    if gone_ms - fault.from_ms < terms.wait_s * 1000:
        return "too near the end"
    known = fault.vehicle_id in scene.under_way
    spans = scene.under_way[fault.vehicle_id] if known else ((fault.from_ms, gone_ms),)
    driven_ms = sum(max(0, min(b, gone_ms) - max(a, fault.from_ms)) for a, b in spans)
    ran_ms, warm_ms = (
        min(driven_ms, fault.details.get(key, math.inf) * 1000) for key in ("engine_s", "warm_s")
    )
    parked_ms = gone_ms - fault.from_ms - driven_ms
    before_ms = sum(max(0, min(b, fault.from_ms) - a) for a, b in spans) if known else math.inf
    too_little = {
        "too little driven before it": before_ms < terms.before_s * 1000,
        "too little driven after it": driven_ms < max(terms.road_s, terms.engine_s, terms.warm_s) * 1000,
        "engine ran too little after it": ran_ms < terms.engine_s * 1000 or warm_ms < terms.warm_s * 1000,
        "too little parked after it": parked_ms < terms.parked_s * 1000,
    }
    return next((why for why, short in too_little.items() if short), None)


def _kind(
    alarm: Claim, troubles: Mapping[str, Sequence[Truth]], wanted: Sequence[Truth], detector: Detector,
    definition: Definition,
) -> str:  # fmt: skip
    """``right``, ``explained`` or ``false``."""
    there = [f for f in troubles.get(alarm.vehicle_id, ()) if _opens_in(alarm, f, definition)]
    if any(fault is w for fault in there for w in wanted):
        return "right"
    brought = any(detector.id in definition.faults[fault.what].brings for fault in there)
    excused = any(fault.what in detector.finds for fault in there)
    return "explained" if brought or excused else "false"


def _opens_in(alarm: Claim, fault: Truth, definition: Definition) -> bool:
    slack_ms = definition.slack_s * 1000
    after_ms = definition.faults[fault.what].after_s * 1000 + slack_ms
    ended = fault.to_ms is not None and alarm.from_ms > fault.to_ms + after_ms
    return alarm.from_ms >= fault.from_ms - slack_ms and not ended


def _first(fault: Truth, right: Sequence[Claim], definition: Definition) -> Claim | None:
    """The alarm that finds a fault: the first that opens in it, else one that was open and went on."""
    opened = [alarm for alarm in right if _opens_in(alarm, fault, definition)]
    held = [alarm for alarm in right if alarm.from_ms < fault.from_ms <= alarm.to_ms]
    return min(opened or held, key=lambda alarm: alarm.from_ms, default=None)
