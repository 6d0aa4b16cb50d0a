"""Crash records corroborated by telemetry: confirmed, suspect or pothole (README, "Verdicts").

What is due is asked in event time: the vehicle's own time or the fleet's must have passed the event.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from infra.clients.db import sql_of
from infra.contract.frame import Frame
from infra.contract.messages import crash_digest
from infra.contract.signals import M_PER_DEG
from infra.settings.sections import Crash
from stream_jobs.crashes.check import curves, deployed
from stream_jobs.events.rows import Cursor, Row, as_json, insert_rows

SQL: Final = sql_of(__file__)

KMH_PER_MPS: Final = 3.6
AFTER_MS: Final = 40_000  # so long after the event a collapse of the speed belongs to it
CONFIRMED, SUSPECT, POTHOLE = "confirmed", "suspect", "pothole"
LEAST_SIGNS: Final = 2  # so many signs beside the record's own confirm it


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a vehicle; times in ms since 1970. None where no sample tells."""

    vehicle_id: str
    start_ms: int
    end_ms: int
    speed_max_kmh: float | None
    speed_last_kmh: float | None
    distance_m: float | None
    moving_s: float | None
    idle_s: float | None


@dataclass(frozen=True, slots=True)
class CrashContext:
    """What telemetry shows around a record. Answers are True, False or None (not known)."""

    speed_before_kmh: float | None
    speed_after_kmh: float | None  # the largest speed of the slowest whole window within 40 s after the event
    moved_after_m: float | None  # from ``still_from_s`` to ``still_to_s`` after it
    collapsed: bool | None  # its speed
    stands: bool | None  # afterwards
    others_slowed: bool | None  # near the place; how many there were, and their space-mean speed
    others_vehicles_before: int
    others_speed_before_kmh: float | None
    others_vehicles_after: int
    others_speed_after_kmh: float | None


def context(event_ms: int, own: Sequence[Window], others: Sequence[Window], terms: Crash) -> CrashContext:
    """What the windows around an event show; windows of any order, ``others`` within reach of the place."""
    # The last known speed of the last whole window before the event; without one, its own's largest.
    before = next((w.speed_max_kmh for w in own if w.start_ms <= event_ms < w.end_ms), None)
    whole = [w for w in own if w.end_ms <= event_ms and w.speed_last_kmh is not None]
    if whole:
        before = max(whole, key=lambda w: w.start_ms).speed_last_kmh
    soon = [w for w in own if w.start_ms > event_ms and w.end_ms - event_ms <= AFTER_MS]
    after = min((w.speed_max_kmh for w in soon if w.speed_max_kmh is not None), default=None)
    collapsed = None
    if before is not None and after is not None and before >= terms.driving_kmh:  # else no speed to lose
        collapsed = after <= before * terms.collapse_share
    from_ms, to_ms = (event_ms + s * 1000 for s in (terms.still_from_s, terms.still_to_s))
    still = [w for w in own if w.end_ms > from_ms and event_ms < w.start_ms < to_ms]
    distances = [w.distance_m for w in still if w.distance_m is not None]
    moved = sum(distances) if distances else None
    sides = ([w for w in others if w.end_ms <= event_ms], [w for w in others if w.start_ms > event_ms])
    counts = [len({w.vehicle_id for w in side}) for side in sides]
    speeds = [_speed_kmh(side) for side in sides]
    slowed, stands = None, None if moved is None else moved <= terms.still_m
    if min(counts) >= terms.others and speeds[0] is not None and speeds[1] is not None:
        slowed = speeds[1] <= speeds[0] * terms.slowed_share
    return CrashContext(
        before, after, moved, collapsed, stands, slowed, counts[0], speeds[0], counts[1], speeds[1]
    )


def _speed_kmh(windows: Sequence[Window]) -> float | None:
    """Distance over time, standing included; parked vehicles have neither."""
    known = [w for w in windows if w.distance_m is not None]
    metres = sum(w.distance_m or 0.0 for w in known)
    seconds = sum((w.moving_s or 0.0) + (w.idle_s or 0.0) for w in known)
    return metres / seconds * KMH_PER_MPS if seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict, why, and the figures it rests on."""

    verdict: str
    reasons: tuple[str, ...]
    figures: Mapping[str, Any]


def judge(record: Frame, seen: CrashContext, terms: Crash, forged: bool | None = None) -> Verdict:
    """The verdict on a record; ``forged``: its vehicle's signature is not of it.

    Confirmed: a sealed record of a collision, at least two signs beside it, and nothing against it.
    Pothole: no collision by the record, and the vehicle drove on. All else is suspect: a person should look.
    """
    found, fired = curves(record), deployed(record)
    curve = max(found, key=lambda curve: curve.steepest_kmh, default=None)
    sealed = record.get("sha256") == crash_digest(record) and not forged
    triggered = any(curve.triggers for curve in found) if found else None
    # A collision's pulse takes its time and what it takes is gone; a knock swings back at once.
    sustained = curve and curve.rise_ms >= terms.pulse_ms and curve.kept >= terms.kept_share
    pulse = triggered is True and sustained is True
    knock = fired is not True and (triggered is False or sustained is False)
    # Deployment and pulse are judged by two devices on board: together they are as good as two signs.
    seen_signs = sum(sign is True for sign in (seen.collapsed, seen.stands, seen.others_slowed))
    signs = seen_signs + LEAST_SIGNS * (fired is True and pulse)
    drove_on = seen.collapsed is False or seen.stands is False
    if knock and seen.stands is not True and seen.collapsed is not True:
        verdict = POTHOLE
    elif (fired is True or pulse) and sealed and signs >= LEAST_SIGNS and not drove_on:
        verdict = CONFIRMED
    else:
        verdict = SUSPECT
    reasons = [] if sealed else ["the record is not what was sealed: it confirms nothing"]
    if curve is None:
        reasons.append("the record holds no delta-V")
    else:
        reached = "reaches" if triggered else "stays below"
        kind = "a collision's pulse" if sustained else "a knock"
        reasons += [
            f"delta-V {curve.steepest_kmh:g} km/h within 150 ms ({curve.axis}): {reached} the trigger",
            f"{curve.rise_ms:g} ms from a tenth to nine tenths of it, {curve.kept:.0%} left: {kind}",
        ]
    figures = {
        "triggered": triggered, "deployed": fired, "sealed": sealed,
        "delta_v_150ms_kmh": curve and curve.steepest_kmh, "pulse_rise_ms": curve and curve.rise_ms,
        "pulse_kept_share": curve and round(curve.kept, 3),
        **{key: round(each, 2) if type(each) is float else each for key, each in asdict(seen).items()},
    }  # fmt: skip
    return Verdict(verdict, (*reasons, *_reasons(record, fired, seen)), figures)


def _reasons(record: Frame, fired: bool | None, seen: CrashContext) -> Iterator[str]:
    """What restraints, belt and telemetry say, in words."""
    words = {True: "a restraint deployed", False: "no restraint deployed", None: "restraints not known"}
    yield words[fired]
    if type(record.get("belt_on")) is bool:
        yield "driver belted" if record["belt_on"] else "driver not belted"
    words = {True: "its speed collapsed", False: "its speed did not collapse", None: "no collapse to be seen"}
    yield f"{words[seen.collapsed]}: {_kmh(seen.speed_before_kmh)} before, {_kmh(seen.speed_after_kmh)} after"
    if seen.moved_after_m is None:
        yield "nothing is known of the minute after"
    else:
        stood = "it stood still" if seen.stands else "it drove on"
        yield f"{stood}: {seen.moved_after_m:.0f} m half a minute later"
    if seen.others_slowed is None:
        before, after = seen.others_vehicles_before, seen.others_vehicles_after
        yield f"too few others near: {before} before, {after} after"
    else:
        speeds = f"{_kmh(seen.others_speed_before_kmh)} before, {_kmh(seen.others_speed_after_kmh)} after"
        yield f"others {'slowed down' if seen.others_slowed else 'did not slow down'}: {speeds}"


def _kmh(speed: float | None) -> str:
    return "unknown" if speed is None else f"{speed:.0f} km/h"


# Which records are due, by the database ------------------------------------------------------------------

WINDOW_S: Final = 10  # windows reach so far beyond a moment in them
OWN_BEFORE_S: Final = 60 + WINDOW_S
OTHERS_BEFORE_S: Final = 300 + WINDOW_S
OTHERS_AFTER_S: Final = 90
AT_ONCE: Final = 50
LIMITS: Final = {
    "silent_s": 120,  # where the vehicle says nothing any more, the fleet's time must be so much further
    "final_s": 600,  # then the verdict is taken once more: what links hold back has come by then
    "kept_days": 7,  # older records are left alone: repaired windows change nothing there any more
    "at_once": AT_ONCE,
    "own_before_s": OWN_BEFORE_S,
}
OF_RECORD: Final = ("vehicle_id", "boot_id", "crash_id", "event_ms", "basis", "final")
TOGETHER_MS: Final = 60_000  # records of one minute are looked around for at once


def settle(cursor: Cursor, terms: Crash, *, final_too: bool = True) -> list[str]:
    """Give every record that is due its verdict, within the transaction of the cursor; the verdicts.

    ``final_too``: also final verdicts, and those where windows around a record with one were repaired.
    """
    wait_s = terms.still_to_s + WINDOW_S
    rows = cursor.execute(SQL["due"], LIMITS | {"wait_s": wait_s, "final_too": final_too}).fetchall()
    others, verdicts = _others(cursor, rows, terms), []
    for number, row in enumerate(rows):
        cursor.execute(SQL["own"], {**row, "before_s": OWN_BEFORE_S, "after_s": wait_s})
        own = [Window(**found) for found in cursor.fetchall()]
        around = context(row["event_ms"], own, others[number], terms)
        try:
            verdict = judge(orjson.loads(row["record"]), around, terms, row["forged"])
        except Exception as error:  # noqa: BLE001  whatever a record holds, the others get their verdicts
            verdict = Verdict(SUSPECT, (f"it cannot be judged: {type(error).__name__}: {error}",), {})
        stored = {name: row[name] for name in OF_RECORD} | asdict(verdict)
        insert_rows(cursor, "crash_verdict AS v", [stored], SQL["newer"])
        verdicts.append(verdict.verdict)
    return verdicts


def _others(cursor: Cursor, rows: Sequence[Row], terms: Crash) -> Mapping[int, Sequence[Window]]:
    """The windows of other vehicles near each record, by its number among ``rows`` (in order of time)."""
    found: defaultdict[int, list[Window]] = defaultdict(list)
    names = ("vehicle_id", "event_ms", "lat_deg", "lon_deg")
    records = [{"number": n, **{name: row[name] for name in names}} for n, row in enumerate(rows)]
    placed = [one for one in records if one["lat_deg"] is not None and one["lon_deg"] is not None]
    for _, close in itertools.groupby(placed, lambda one: one["event_ms"] // TOGETHER_MS):
        group = list(close)
        latitudes = [one["lat_deg"] for one in group]
        values = {"first_ms": group[0]["event_ms"], "last_ms": group[-1]["event_ms"]}
        values |= {"before_s": OTHERS_BEFORE_S, "after_s": OTHERS_AFTER_S, "records": as_json(group)}
        values |= {"south_deg": min(latitudes), "north_deg": max(latitudes)}
        for row in cursor.execute(SQL["others"], values | {"reach_deg": terms.near_m / M_PER_DEG}):
            found[row.pop("number")].append(Window(**row))
    return found
