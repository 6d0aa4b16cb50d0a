"""Is a crash record whole and plausible, and what its delta-V curves say; pure.

Tables I and II of 49 CFR 563.7, ranges and steps of 563.8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from infra.contract import messages
from infra.contract.frame import Frame, shown
from infra.contract.messages import DELTA_V_MS, DELTA_V_POINTS, PRE_CRASH, PROFILES, TRIGGER_KMH, TRIGGER_MS


class _Element(NamedTuple):
    """Range and step of a number."""

    low: float
    high: float
    step: float

    def fault(self, value: Any) -> str | None:
        found = _number(value)
        if found is None:
            return "shape"
        if not self.low <= found <= self.high:
            return "range"
        return None if found % self.step == 0 else "step"


_NUMBERS: Final = {
    "delta_v_max_kmh": _Element(-100, 100, 1),
    "delta_v_max_ms": _Element(0, 300, 2.5),
    "ignition_cycle": _Element(0, 60_000, 1),
    "multi_event": _Element(1, 2, 1),
}  # fmt: skip
_FLAGS: Final = ("belt_on", "warning_lamp_on", "airbag_deployed", "complete")
_PRE_CRASH: Final = {
    "speed_kmh": _Element(0, 255, 1),
    "accelerator_pct": _Element(0, 100, 1),
    "engine_rpm": _Element(0, 10_000, 100),
    "steering_deg": _Element(-780, 780, 5),
}  # fmt: skip
# The others of the pre-crash table are of table II: where fitted, so all their samples may be null.
_TABLE_I: Final = ("speed_kmh", "accelerator_pct", "brake_on")
_DELTA_V: Final = _Element(-100, 100, 1)
_SET_MS: Final = _Element(0, 5000, 100)
_PEAK_KMH: Final = 1.0  # the maximum and the largest point are rounded each on their own
ROUNDING_KMH: Final = 1.0  # points are whole km/h: a difference of two is off by less than this
# What may have gone by before time zero, which a lateral impact begins late by definition.
BEFORE_ZERO_KMH: Final = {"long": 0.0, "lat": 1.0}
RISE: Final = (0.1, 0.9)


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing wrong."""

    element: str
    fault: str  # missing, count, step, range, shape, contradiction, trigger, digest or profile
    detail: str


def defects(record: Frame) -> list[Defect]:
    """All that is wrong, in a fixed order; none: the record is whole and plausible.

    A record that says itself that it is not complete may lack samples and points, and that is a defect.
    """
    found = [*_pre_crash(record), *_delta_v(record), *_status(record)]
    if record.get("complete") is not True:
        found.insert(0, Defect("complete", "missing", "the recorder says that not all was recorded"))
    if record.get("sha256") != messages.crash_digest(record):
        found.insert(0, Defect("sha256", "digest", "the record is not what was sealed"))
    # The event must be one: 8 km/h within 150 ms on an axis, or a deployment.
    axes = curves(record)
    if axes and deployed(record) is not True and not any(curve.triggers for curve in axes):
        steepest = max(curve.steepest_kmh for curve in axes)
        detail = f"{steepest:g} km/h in {TRIGGER_MS} ms, {TRIGGER_KMH:g} wanted, and nothing deployed"
        found.append(Defect("delta_v_kmh", "trigger", detail))
    return found


def profile_of(record: Frame) -> str:
    """The record's profile as it is stored: what is no text as a dead letter would show it."""
    profile = record.get("profile")
    return profile if type(profile) is str else shown(profile)


def _pre_crash(record: Frame) -> Iterator[Defect]:
    shape = PROFILES.get(profile_of(record))
    if shape is None:
        yield Defect("profile", "profile", f"{record.get('profile')!r} is none of {', '.join(PROFILES)}")
    elif record.get("pre_crash_dt_ms") != shape.dt_ms:
        yield Defect("pre_crash_dt_ms", "step", f"{record.get('pre_crash_dt_ms')!r}, {shape.dt_ms} ms wanted")
    table = record.get("pre_crash")
    for name in PRE_CRASH:
        column, of = table.get(name) if type(table) is dict else None, f"pre_crash.{name}"
        if type(column) is not list:
            yield Defect(of, "missing", "no samples")
            continue
        if shape is not None and len(column) != shape.samples:
            yield Defect(of, "count", f"{len(column)} samples, {shape.samples} wanted")
        there = [value for value in column if value is not None]
        absent, fitted = len(column) - len(there), name in _TABLE_I or there
        if absent and fitted and record.get("complete") is True:
            yield Defect(of, "contradiction", f"{absent} samples are null in a complete record")
        element = _PRE_CRASH.get(name)
        faults = [element.fault(v) if element else None if type(v) is bool else "shape" for v in there]
        if wrong := [(fault, value) for fault, value in zip(faults, there, strict=True) if fault]:
            yield Defect(of, wrong[0][0], f"{len(wrong)} samples, the first is {wrong[0][1]!r}")


def _delta_v(record: Frame) -> Iterator[Defect]:
    if record.get("delta_v_dt_ms") != DELTA_V_MS:
        yield Defect("delta_v_dt_ms", "step", f"{record.get('delta_v_dt_ms')!r}, {DELTA_V_MS} ms wanted")
    for name, required in (("delta_v_kmh", True), ("delta_v_lat_kmh", False)):
        if record.get(name) is None and not required:
            continue
        points = _numbers(record.get(name))
        if points is None:
            yield Defect(name, "missing" if record.get(name) is None else "shape", "no array of numbers")
            continue
        if len(points) != DELTA_V_POINTS:
            yield Defect(name, "count", f"{len(points)} points, {DELTA_V_POINTS} wanted")
        if wrong := [(fault, point) for point in points if (fault := _DELTA_V.fault(point)) is not None]:
            yield Defect(name, wrong[0][0], f"{len(wrong)} points, the first is {wrong[0][1]:g}")
    largest, points = _number(record.get("delta_v_max_kmh")), _numbers(record.get("delta_v_kmh"))
    if largest is not None and points and abs(largest) < max(map(abs, points)) - _PEAK_KMH:
        detail = f"{largest:g}, but a point is {max(points, key=abs):g}"
        yield Defect("delta_v_max_kmh", "contradiction", detail)


def _status(record: Frame) -> Iterator[Defect]:
    for name, element in _NUMBERS.items():
        fault = "missing" if record.get(name) is None else element.fault(record[name])
        if fault is not None:
            detail = f"{record.get(name)!r}, {element.low:g} to {element.high:g} by {element.step:g}"
            yield Defect(name, fault, detail)
    for name in _FLAGS:
        if type(record.get(name)) is not bool:
            yield Defect(name, "missing" if record.get(name) is None else "shape", f"{record.get(name)!r}")
    if record.get("airbag_deployed") is True and _number(record.get("airbag_ms")) is None:
        yield Defect("airbag_ms", "missing", "an air bag deployed, but not when")
    if record.get("multi_event") == 2 and _SET_MS.fault(record.get("event_1_to_2_ms")) is not None:
        detail = f"event 2, {record.get('event_1_to_2_ms')!r} ms after event 1"
        yield Defect("event_1_to_2_ms", "missing", detail)


def _numbers(value: Any) -> list[float] | None:
    """An array of numbers, else None."""
    if type(value) is not list or any(_number(v) is None for v in value):
        return None
    return [float(v) for v in value]


def _number(value: Any) -> float | None:
    """A number, else None: true and false are none."""
    return float(value) if type(value) in (int, float) else None


def deployed(record: Frame) -> bool | None:
    """Whether an air bag or another restraint that does not reverse fired; None where nothing tells."""
    restraints = record.get("restraints_ms")
    fired = type(restraints) is dict and any(_number(ms) is not None for ms in restraints.values())
    if fired or record.get("airbag_deployed") is True or record.get("locked") is True:
        return True
    return False if record.get("airbag_deployed") is False else None


@dataclass(frozen=True, slots=True)
class Curve:
    """One axis, km/h. ``steepest_kmh``: the largest change within 150 ms. ``rise_ms``: from a tenth to nine
    tenths of the peak. ``kept``: the share of the peak that is left at the end.
    """

    axis: str
    steepest_kmh: float
    rise_ms: float
    kept: float

    @property
    def triggers(self) -> bool:
        """Whether it reaches 8 km/h within 150 ms, as far as its resolution can tell."""
        return self.steepest_kmh >= TRIGGER_KMH - ROUNDING_KMH - BEFORE_ZERO_KMH[self.axis]


def curves(record: Frame) -> list[Curve]:
    """The axes that a record has a curve of; none where it holds no numbers.

    Of points closer than the rule's, which is a defect, no more than its number of points are looked at at
    once: their number is the sender's.
    """
    dt_ms = _number(record.get("delta_v_dt_ms")) or DELTA_V_MS
    lag, found = max(1, int(min(TRIGGER_MS // dt_ms, DELTA_V_POINTS))), []
    for axis, key in (("long", "delta_v_kmh"), ("lat", "delta_v_lat_kmh")):
        points = _numbers(record.get(key))
        if not points:
            continue
        steepest = max(abs(x - point) for k, point in enumerate(points) for x in points[k : k + lag + 1])
        peak, rise_ms, kept = max(points, key=abs), 0.0, 0.0
        if peak != 0:
            shares = [point / peak for point in points]
            begin, end = (next(k for k, share in enumerate(shares) if share >= level) for level in RISE)
            rise_ms, kept = (end - begin) * dt_ms, shares[-1]
        found.append(Curve(axis, steepest, rise_ms, kept))
    return found
