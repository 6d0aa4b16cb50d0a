"""Which findings and alerts frames and crash records call for, said once more beside the jobs. Pure.

The rules are the drill's own: often true, so that a kill always hits something. Their conditions stand here
twice, as Spark SQL for the query and in plain Python for the judge.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from infra.contract.signals import BY_NAME

Message = Mapping[str, Any]
VERSION: Final = 1
FAST_KMH: Final = 50.0
LOAD_PCT: Final = 40.0
RUNNING_RPM: Final = 500.0
UNBELIEVED: Final = ("clock_ahead", "clock_unset")
"""What befell a frame that raises nothing."""

RULES: Final = f"""
  - id: drill_fast
    version: {VERSION}
    severity: WARNING
    source: frame
    value: array_max(speed_kmh)
    beyond: above
    limit: {FAST_KMH}
    clear_for_s: CLEAR_FOR_S
    message: Fast
  - id: drill_load
    version: {VERSION}
    severity: WARNING
    source: frame
    condition: array_min(engine_rpm) > {RUNNING_RPM:g}
    value: engine_load_pct
    beyond: above
    limit: {LOAD_PCT}
    clear_for_s: CLEAR_FOR_S
    message: Engine under load
  - id: drill_crash
    version: {VERSION}
    severity: WARNING
    source: crash
    condition: crash_id IS NOT NULL
    value: impact_kmh
    message: A crash record
"""


def rules_text(clear_for_s: float, shipped: str = "rules:\n") -> str:
    """A rules file: those of ``shipped``, then the drill's."""
    return shipped.rstrip("\n") + RULES.replace("CLEAR_FOR_S", f"{clear_for_s:g}")


class Finding(NamedTuple):
    """What makes a finding the same one, and its time [ms since 1970]."""

    alert_id: str
    vehicle_id: str
    rule: str
    event_ms: int


class Raised(NamedTuple):
    """An alert as its table has it: findings and the times of the first and the last one."""

    vehicle_id: str
    rule: str
    findings: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Differences:
    """Of findings by id, and of alerts."""

    expected: int
    missing: int
    phantom: int
    alerts: int
    wrong_alerts: int
    """Alerts that are not there as they should be, or should not be there."""


def fast(frame: Message) -> bool:
    """Some sample above the limit."""
    return max(_samples(frame, "speed_kmh"), default=0.0) > FAST_KMH


def loaded(frame: Message) -> bool:
    """Engine running in every sample that is known, and its load above the limit."""
    rpm, load = _samples(frame, "engine_rpm"), frame.get("engine_load_pct")
    if load is None or not _plausible("engine_load_pct", load):
        return False
    return bool(rpm) and min(rpm) > RUNNING_RPM and load > LOAD_PCT


FRAME_RULES: Final[Mapping[str, Callable[[Message], bool]]] = {"drill_fast": fast, "drill_load": loaded}
CRASH_RULE: Final = "drill_crash"


def _samples(frame: Message, name: str) -> list[float]:
    return [v for v in frame.get(name) or () if v is not None and _plausible(name, v)]


def _plausible(name: str, value: float) -> bool:
    signal = BY_NAME[name]
    return signal.minimum <= value <= signal.maximum


def expected(frames: Iterable[tuple[Message, str]], crashes: Iterable[Message]) -> dict[str, Finding]:
    """Findings by id; ``frames`` with what befell each, in any order and any number of copies.

    A crash record in parts speaks by its part 0; its clock is believed.
    """
    found: dict[str, Finding] = {}
    for frame, flag in frames:
        if flag in UNBELIEVED:
            continue
        event_ms = frame["t0_ms"] + (frame["n"] - 1) * frame["dt_ms"]
        for rule, fires in FRAME_RULES.items():
            if fires(frame):
                _add(found, frame, rule, str(frame["seq"]), event_ms)
    for crash in crashes:
        if crash.get("part", 0) == 0:
            _add(found, crash, CRASH_RULE, crash["crash_id"], crash["event_ms"])
    return found


def _add(found: dict[str, Finding], message: Message, rule: str, identity: str, event_ms: int) -> None:
    vehicle_id = message["vehicle_id"]
    same = "|".join((vehicle_id, rule, str(VERSION), str(message["boot_id"]), identity))
    alert_id = hashlib.sha256(same.encode()).hexdigest()[:32]
    found[alert_id] = Finding(alert_id, vehicle_id, rule, event_ms)


def raised(findings: Iterable[Finding], clear_for_s: float) -> set[Raised]:
    """Alerts: findings of a vehicle and rule no further apart than ``clear_for_s``; of crashes, all."""
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for found in findings:
        times[found.vehicle_id, found.rule].append(found.event_ms)
    alerts = set()
    for (vehicle_id, rule), moments in times.items():
        run: list[int] = []
        for event_ms in sorted(moments):
            if run and rule != CRASH_RULE and event_ms - run[-1] > clear_for_s * 1000:
                alerts.add(Raised(vehicle_id, rule, len(run), run[0], run[-1]))
                run = []
            run.append(event_ms)
        alerts.add(Raised(vehicle_id, rule, len(run), run[0], run[-1]))
    return alerts


def compare(
    wanted: Mapping[str, Finding], stored: Iterable[str], clear_for_s: float, alerts: Iterable[Raised]
) -> Differences:
    """``stored`` are the ids of the table of findings, ``alerts`` the rows of the table of alerts."""
    ids = set(stored)
    due = raised(wanted.values(), clear_for_s)
    return Differences(
        expected=len(wanted),
        missing=len(wanted.keys() - ids),
        phantom=len(ids - wanted.keys()),
        alerts=len(due),
        wrong_alerts=len(due ^ set(alerts)),
    )
