"""Confirmed, suspect or pothole: what a crash record and the telemetry around it say together; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from infra.contract.frame import Frame
from infra.contract.messages import crash_digest
from infra.settings.job_sections import Crash
from stream_jobs.crashes.scene import Seen
from stream_jobs.crashes.vault.curves import Curve, curves, deployed

CONFIRMED: Final = "confirmed"
SUSPECT: Final = "suspect"
POTHOLE: Final = "pothole"
WANTED: Final = 2
"""So many signs beside the record's own confirm it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict, why, and the figures it rests on."""

    verdict: str
    reasons: tuple[str, ...]
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Told:
    """What the record itself says; None where it does not."""

    sealed: bool
    triggered: bool | None
    sustained: bool | None
    """A pulse of a collision: it takes its time and what it takes is gone. A knock swings back at once."""
    deployed: bool | None
    strongest: Curve | None


def judge(record: Frame, seen: Seen, terms: Crash) -> Verdict:
    """The verdict on a record.

    Confirmed: a sealed record of a collision, at least two signs beside it, and nothing against it.
    Pothole: no collision by the record, and the vehicle drove on. All else is suspect: a person should look.
    """
    told = _told(record, terms)
    if _is_knock(told) and seen.stands is not True and seen.collapsed is not True:
        verdict = POTHOLE
    elif _collision(told) and told.sealed and _signs(told, seen) >= WANTED and not _drove_on(seen):
        verdict = CONFIRMED
    else:
        verdict = SUSPECT
    reasons = (*_of_record(record, told), *_of_telemetry(seen))
    return Verdict(verdict, reasons, _figures(told, seen))


def _told(record: Frame, terms: Crash) -> _Told:
    found = curves(record)
    strongest = max(found, key=lambda curve: curve.steepest_kmh, default=None)
    sustained = strongest and strongest.rise_ms >= terms.pulse_ms and strongest.kept >= terms.kept_share
    triggered = any(curve.triggers for curve in found) if found else None
    sealed = record.get("sha256") == crash_digest(record)
    return _Told(
        sealed, triggered, None if strongest is None else bool(sustained), deployed(record), strongest
    )


def _is_knock(told: _Told) -> bool:
    """By the record alone: nothing fired, and no axis shows a collision's pulse."""
    return told.deployed is not True and (told.triggered is False or told.sustained is False)


def _collision(told: _Told) -> bool:
    return told.deployed is True or (told.triggered is True and told.sustained is True)


def _signs(told: _Told, seen: Seen) -> int:
    """Deployment and pulse are judged by two devices on board: together they are as good as two signs."""
    both = told.deployed is True and told.triggered is True and told.sustained is True
    return (seen.collapsed is True) + (seen.stands is True) + (seen.others_slowed is True) + WANTED * both


def _drove_on(seen: Seen) -> bool:
    return seen.collapsed is False or seen.stands is False


def _of_record(record: Frame, told: _Told) -> Iterator[str]:
    if not told.sealed:
        yield "the record is not what was sealed: it confirms nothing"
    curve = told.strongest
    if curve is None:
        yield "the record holds no delta-V"
    else:
        reached = "reaches" if told.triggered else "stays below"
        yield f"delta-V {curve.steepest_kmh:g} km/h within 150 ms ({curve.axis}): {reached} the trigger"
        kind = "a collision's pulse" if told.sustained else "a knock"
        yield f"{curve.rise_ms:g} ms from a tenth to nine tenths of it, {curve.kept:.0%} left: {kind}"
    words = {True: "a restraint deployed", False: "no restraint deployed", None: "restraints not known"}
    yield words[told.deployed]
    if type(record.get("belt_on")) is bool:
        yield "driver belted" if record["belt_on"] else "driver not belted"


def _of_telemetry(seen: Seen) -> Iterator[str]:
    before, after = (_kmh(speed) for speed in (seen.speed_before_kmh, seen.speed_after_kmh))
    collapse = {
        True: "its speed collapsed",
        False: "its speed did not collapse",
        None: "no collapse to be seen",
    }
    yield f"{collapse[seen.collapsed]}: {before} before, {after} after"
    if seen.moved_after_m is None:
        yield "nothing is known of the minute after"
    else:
        words = "it stood still" if seen.stands else "it drove on"
        yield f"{words}: {seen.moved_after_m:.0f} m half a minute later"
    traffic = seen.traffic
    if seen.others_slowed is None:
        yield f"too few others near: {traffic.vehicles_before} before, {traffic.vehicles_after} after"
    else:
        speeds = f"{_kmh(traffic.speed_before_kmh)} before, {_kmh(traffic.speed_after_kmh)} after"
        yield f"others {'slowed down' if seen.others_slowed else 'did not slow down'}: {speeds}"


def _figures(told: _Told, seen: Seen) -> dict[str, Any]:
    curve = told.strongest
    return {
        "triggered": told.triggered,
        "deployed": told.deployed,
        "sealed": told.sealed,
        "delta_v_150ms_kmh": None if curve is None else curve.steepest_kmh,
        "pulse_rise_ms": None if curve is None else curve.rise_ms,
        "pulse_kept_share": None if curve is None else round(curve.kept, 3),
        **{key: _rounded(value) for key, value in asdict(seen).items() if key != "traffic"},
        **{f"others_{key}": _rounded(value) for key, value in asdict(seen.traffic).items()},
    }


def _rounded(value: Any) -> Any:
    return round(value, 2) if type(value) is float else value


def _kmh(speed: float | None) -> str:
    return "unknown" if speed is None else f"{speed:.0f} km/h"
