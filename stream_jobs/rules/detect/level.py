"""A value against a limit: each frame's own, one that stays the same, its mean or slope over a longer time.

A series is a value's course in few numbers: means by bucket of time (number, frames, sum of values), oldest
first, at most PARTS + 1; the last one is open.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect import base
from stream_jobs.rules.detect.base import PARTS
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import PER_S, Level, Rule, Slope, Unchanged
from stream_jobs.vehicles.features import Features

HALF: Final = PARTS // 2  # of the buckets of a mean so many must have frames
COVERED: Final = 0.7  # a slope is taken over at least this share of its span
MAD_TO_SD: Final = 1.4826  # a normal distribution's standard deviation over its median absolute deviation
_BUCKETS: Final = (PARTS + 1,)
SERIES: Final = np.dtype(
    [("count", "i8"), ("number", "i8", _BUCKETS), ("frames", "i8", _BUCKETS), ("total", "f8", _BUCKETS)]
)
"""``count`` buckets; 0 in the rest."""
Series = npt.NDArray[Any]  # SERIES, [k]
_PLACES: Final = np.arange(PARTS + 1)
LEAST: Final = 2  # complete buckets of a slope that stay, however old: frames may be rare


class LevelDetector(base.RaisingDetector[Level]):
    """Each frame's own value; nothing is remembered while nothing holds."""

    dtype = base.HELD

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        return (now.holds != 0) | (now.clears > 0), now.holds > 0

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        held = memory.rows[frames.vehicle]
        found = self.raised(memory, frames, held, now)
        memory.rows[frames.vehicle], memory.on[frames.vehicle] = held, held["on"]
        return found

    def waits(self, memory: base.Memory, places: Ints) -> Flags:
        return self.unraised(memory.rows[places])

    def later(self, memory: base.Memory, places: Ints, pause_ms: Floats) -> None:
        held = memory.rows[places]
        held["since"] += pause_ms
        held["seen"] += pause_ms - 1  # the frame that ends the pause comes after it
        held["bad"] = held["seen"]
        memory.rows[places] = held


ARMING: Final = np.dtype([("armed", "f8"), ("seen", "f8"), ("off", "f8")])
"""How long it has been armed, the last frame, since when it is not (NaN: it is); ms."""


class ArmedDetector(base.Detector[Any]):
    """Raised only once something (`while`) has held for so long; where it does not hold, the rule is over.

    A pause of up to ``pause_ms`` does not begin that time anew, but does not count either; nor does a gap. So
    with the time that a level has to last: an engine that a hybrid needs for half a minute now and then would
    never be too cold for four minutes on end.
    """

    dtype = ARMING

    def __init__(self, rule: Rule, inner: base.Detector[Any]) -> None:
        super().__init__(rule)
        self.armed_for_ms, self.pause_ms = base.ms(rule.armed_for_s), base.ms(rule.armed_pause_s)
        self.gap_ms, self.inner = base.ms(rule.gap_s), inner

    def memory(self, count: int, kept: base.Kept | None) -> base.Memory:
        """See Detector."""
        found = super().memory(count, kept)
        found.inner = self.inner.memory(count, kept and kept.inner)
        return found

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        """See Detector: what is not armed and was not leaves nothing."""
        return now.armed != 0, now.armed > 0

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        inside = memory.inner
        assert inside is not None
        was, known = memory.rows[frames.vehicle], memory.on[frames.vehicle]
        lanes = np.flatnonzero(~(known & (frames["end_ms"] < was["seen"])))
        frames, now, was, known = frames.at(lanes), now.of(lanes), was[lanes], known[lanes]
        places, armed = frames.vehicle, now.armed > 0
        arming = self._arming(was, known, frames["end_ms"], armed)
        # What waited before a pause goes on where the pause was short, and begins anew where it was not.
        back = known & armed & ~np.isnan(was["off"])
        if back.any():
            waited = np.flatnonzero(back & self.inner.waits(inside, places))
            away_ms = (frames["end_ms"] - was["off"])[waited]
            short, long = waited[away_ms <= self.pause_ms], places[waited[away_ms > self.pause_ms]]
            self.inner.later(inside, places[short], away_ms[away_ms <= self.pause_ms])
            inside.on[long], inside.rows[long] = False, np.zeros((), inside.rows.dtype)
        waits = ~armed & (arming["armed"] > 0) & self.inner.waits(inside, places)
        now = replace(
            now,
            holds=np.where(armed, now.holds, -1).astype(np.int8),
            clears=np.where(armed, now.clears, 1).astype(np.int8),
            value=np.where(armed, now.value, np.nan),
            armed=base.answers(arming["armed"] >= self.armed_for_ms),
        )
        # An armed frame that says nothing counts as little as without `while`; one not armed ends the rule.
        relevant, starts = self.inner.wakes(now)
        asked = np.flatnonzero(~waits & (starts | (inside.on[places] & (relevant | ~armed))))
        found = self.inner.step(inside, frames.at(asked), now.of(asked)) if asked.size else []
        memory.rows[places] = arming
        memory.on[places] = inside.on[places] | (arming["armed"] > 0) | np.isnan(arming["off"])
        return [(int(lanes[asked[lane]]), each) for lane, each in found]

    def _arming(self, was: Any, known: Flags, now_ms: Floats, armed: Flags) -> Any:
        """ARMING after a frame; ``known``: that there was one before."""
        now = np.zeros(len(was), ARMING)
        was_off, passed_ms = ~np.isnan(was["off"]), now_ms - was["seen"]
        off_ms = np.where(known, np.where(was_off, was["off"], was["seen"]), now_ms)
        counts = armed & known & ~was_off & (passed_ms <= self.gap_ms)
        lasts = counts | (known & (now_ms - off_ms <= self.pause_ms))
        now["armed"] = np.where(lasts, was["armed"] + counts * passed_ms, 0)
        now["seen"], now["off"] = now_ms, np.where(armed, np.nan, off_ms)
        return now


MOVES: Final = 2.0  # steps of its sensor by which a value must have been moved before standing still is wrong
SAME: Final = np.dtype([
    ("held", base.HELD), ("value", "f8"), ("step", "f8"), ("frames", "i8"), ("since", "f8"), ("seen", "f8"),
    ("mean", "f8"), ("course", base.TURNING), ("turns", "i8"), ("rests", "i8"), ("rest", "f8"),
])  # fmt: skip
"""The value, the least step it ever made (0: none yet), its frames on end, since when, the last of them; what
it follows: its lagged mean, the course of that mean's logarithm since the value came, how often it turned and
how often it was 0 for ``rest_s``, and for how many ms it has been 0.
"""


class UnchangedDetector(base.RaisingDetector[Unchanged]):
    """The same value in ``frames`` frames on end and for ``raise_for_s``; a longer gap begins anew.

    Frames and time count where the condition holds; another value begins anew wherever it is seen. Where the
    rule says what moves the value, only after ``swings`` of it that are large enough, not all of them rests:
    what is blocked from cooling rests too.
    """

    dtype = SAME

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        same, now_ms = memory.rows[frames.vehicle], frames["end_ms"]
        counts = now.holds > 0
        other = ~memory.on[frames.vehicle] | (now.value != same["value"])
        passed_ms = np.where(memory.on[frames.vehicle], now_ms - same["seen"], np.inf)
        other |= passed_ms > self.gap_ms
        moved, least = np.abs(now.value - same["value"]), same["step"]
        steps = (moved > 0) & (passed_ms <= self.gap_ms) & ((least == 0) | (moved < least))
        same["step"] = np.where(steps, moved, least)
        same["value"], same["seen"] = now.value, now_ms
        same["since"] = np.where(other, now_ms, same["since"] + np.where(counts, 0.0, passed_ms))
        same["frames"] = np.where(other, 0, same["frames"]) + counts
        spec, same_ms = self.spec, now_ms - same["since"]
        fine = (same["step"] > 0) & (same["step"] < (spec.resolution or 0.0)) & (spec.fine_for_s is not None)
        still_ms = 1000 * np.where(fine, spec.fine_for_s or 0.0, spec.raise_for_s)
        holds = counts & (same["frames"] >= spec.frames) & (same_ms >= still_ms)
        if spec.follows is not None:
            holds &= self._swung(same, passed_ms, other, np.where(counts, now.limit, np.nan))
        held, judged = same["held"], counts | other
        now = replace(now, holds=base.answers(holds) * judged, clears=base.answers(other) * judged)
        found = self.raised(memory, frames, held, now)
        memory.rows[frames.vehicle], memory.on[frames.vehicle] = same, True
        return [(lane, replace(each, limit=None)) for lane, each in found]

    def _swung(self, same: Any, passed_ms: Floats, other: Flags, follows: Floats) -> Flags:
        """Whether what it follows has turned, or rested, often enough since the value came; in place."""
        spec, known, rests = self.spec, follows > 0, (follows == 0) & ~other
        lag_ms = passed_ms + same["rest"]
        weight = np.where(same["mean"] > 0, -np.expm1(-lag_ms / (1000 * spec.lag_s)), 1.0)
        same["mean"] = np.where(known, same["mean"] + weight * (follows - same["mean"]), same["mean"])
        rest_ms = np.where(rests, lag_ms, np.where(known | other, 0.0, same["rest"]))
        rested = np.where(rests, rest_ms // (1000 * spec.rest_s) - same["rest"] // (1000 * spec.rest_s), 0)
        same["rest"] = rest_ms
        known &= same["mean"] > 0
        course, log = same["course"], np.log(same["mean"], out=np.zeros(len(known)), where=known)
        course["turning"], course["falls"] = np.where(other, log, course["turning"]), course["falls"] & ~other
        step = np.where(same["step"] > 0, same["step"], spec.resolution or 0.0)
        turned = base.turned(course, log, MOVES * step / spec.per_fold, known)
        same["turns"] = np.where(other, 0, same["turns"] + turned)
        same["rests"] = np.where(other, 0, same["rests"] + rested)
        swung: Flags = (same["turns"] > 0) & (same["turns"] + same["rests"] >= spec.swings)
        return swung


COURSE: Final = np.dtype([("held", base.HELD), ("series", SERIES)])


class CourseDetector(base.RaisingDetector[Level | Slope]):
    """The mean over ``span_ms``, or with ``per_s`` the slope, judged whenever a tenth of it is complete.

    A mean needs its whole time, and frames in half of its tenths. Where fewer have any (a parked vehicle
    sends a frame a minute, a hybrid's engine runs now and then), it is one of the last ten tenths that have.
    A slope holds when it is beyond the limit by ``sure`` standard errors. A gap longer than ``anew_ms``
    begins a new series. A frame without a value does not count; where the rule is not looked at at all, it
    comes to its end.
    """

    dtype = COURSE

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.per_s: float | None = None
        if isinstance(self.spec, Slope):
            self.per_s, self.sure = PER_S[self.spec.per], self.spec.sure
            self.span_ms, self.least = base.ms(self.spec.span_s), LEAST
        else:
            self.span_ms, self.least = base.ms(self.spec.mean_s), PARTS
        self.anew_ms = max(self.gap_ms, self.span_ms)

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        known = ~np.isnan(now.value)
        return known | (now.clears > 0), known

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        places, now_ms, is_slope = frames.vehicle, frames["end_ms"], self.per_s is not None
        rows, known = memory.rows[places], ~np.isnan(now.value)
        series, held = rows["series"], rows["held"]
        last = series["number"][np.arange(len(rows)), np.maximum(series["count"] - 1, 0)]
        gap = known & (series["count"] > 0) & (now_ms - last * self.span_ms // PARTS > self.anew_ms)
        series[gap] = np.zeros((), SERIES)
        complete = add(series, known, now_ms, now.value, self.span_ms, self.least)
        memory.rows[places] = rows
        memory.on[places] |= known
        if known.all() and not complete.any():
            return []
        value, off = np.full(len(rows), np.nan), np.zeros(len(rows))
        if self.per_s is None:
            value[complete] = mean(series[complete])
        else:
            steep, error = slope(series[complete], self.span_ms)
            value[complete], off[complete] = steep * self.per_s, self.sure * error * self.per_s
        now = self.judged(now, value, off)
        now = replace(now, holds=np.where(known, now.holds, -1), clears=np.where(known, now.clears, 1))
        found = self.raised(memory, frames, held, now)
        if is_slope:  # the course of a rule that is not looked at begins anew
            series[~known] = np.zeros((), SERIES)
            memory.on[places[~known]] = held["on"][~known]
        memory.rows[places] = rows
        return found


def add(series: Series, which: Flags, at_ms: Floats, value: Floats, span_ms: int, least: int = 0) -> Flags:
    """Add a value to those series ``which`` [k], in place; where a bucket was complete by it.

    Older buckets than the span go, except the last ``least`` complete ones.
    """
    number = at_ms.astype(np.int64) * PARTS // span_ms
    count = series["count"]
    lane = np.arange(len(series))
    last = np.maximum(count - 1, 0)
    same = which & (count > 0) & (number <= series["number"][lane, last])
    at = lane[same], last[same]
    series["frames"][at] += 1
    series["total"][at] += value[same]
    complete: Flags = which & ~same & (count > 0)
    new = np.flatnonzero(which & ~same)
    if new.size:
        s, number = series[new], number[new]
        old = (s["count"][:, None] > _PLACES) & (number[:, None] - s["number"] > PARTS)
        gone = np.minimum(old.sum(axis=1), np.maximum(s["count"] - least, 0))
        left = (s["count"] - gone)[:, None]
        from_place = np.minimum(_PLACES + gone[:, None], PARTS)
        after = np.zeros(len(s), SERIES)
        for name in ("number", "frames", "total"):
            after[name] = np.where(left > _PLACES, np.take_along_axis(s[name], from_place, 1), 0)
        at = np.arange(len(s)), left[:, 0]
        after["number"][at], after["frames"][at], after["total"][at] = number, 1, value[new]
        after["count"] = left[:, 0] + 1
        series[new] = after
    return complete


def mean(series: Series) -> Floats:
    """The mean over the complete buckets, those of its time or, if these are too few, PARTS older ones too.

    [k]; NaN before they span the whole time.
    """
    count = series["count"]
    now = series["number"][np.arange(len(series)), count - 1]
    complete = (count[:, None] - 1) > _PLACES
    recent = complete & (now[:, None] - series["number"] <= PARTS)
    enough = recent.sum(axis=1) >= HALF
    whole = (enough | (count > PARTS)) & (now - series["number"][:, 0] >= PARTS)
    which = np.where(enough[:, None], recent, complete)
    frames = np.where(which, series["frames"], 0).sum(axis=1)
    total = np.where(which, series["total"], 0.0).sum(axis=1)
    return np.where(whole, total / np.maximum(frames, 1), np.nan)


def slope(series: Series, span_ms: int) -> tuple[Floats, Floats]:
    """Change of the value per second and its standard error, over complete buckets (Theil and Sen); [k].

    Of pairs of buckets those at least a third as far apart as the first and the last: where frames come
    densely after rare ones, as of a vehicle that drives off, the others would tell of noise and of no slope.
    NaN where they cover too little of the span. The error is 0 where two points leave none to estimate.
    """
    steep, error = np.full(len(series), np.nan), np.full(len(series), np.nan)
    points = series["count"] - 1
    for number in range(2, PARTS + 1):
        lanes = np.flatnonzero(points == number)
        if not lanes.size:
            continue
        s = series[lanes]
        at_s = s["number"][:, :number] * span_ms / PARTS / 1000
        value = s["total"][:, :number] / s["frames"][:, :number]
        first, second = np.triu_indices(number, 1)
        apart_s = at_s[:, second] - at_s[:, first]
        far = 3 * apart_s >= (at_s[:, -1] - at_s[:, 0])[:, None]
        steepness = _median(np.where(far, (value[:, second] - value[:, first]) / apart_s, np.nan))
        rests = value - steepness[:, None] * at_s
        off = _median(np.abs(rests - _median(rests)[:, None]))
        width = np.sqrt(((at_s - at_s.mean(axis=1)[:, None]) ** 2).sum(axis=1))
        covered = (at_s[:, -1] - at_s[:, 0]) * 1000 >= COVERED * span_ms
        steep[lanes] = np.where(covered, steepness, np.nan)
        error[lanes] = np.where(covered, MAD_TO_SD * off / width, np.nan)
    return steep, error


def _median(values: Floats) -> Floats:
    """Of what is known (not NaN) of each row; numpy's own costs ten times as much where rows are short."""
    ordered, count = np.sort(values, axis=1), (~np.isnan(values)).sum(axis=1)
    lane = np.arange(len(values))
    middle: Floats = (ordered[lane, (count - 1) // 2] + ordered[lane, count // 2]) / 2
    return middle
