"""A value against a limit: each frame's own, one that stays the same, its mean or slope over a longer time.

A series is a value's course in few numbers: means by bucket of time (number, frames, sum of values), oldest
first, at most PARTS + 1; the last one is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect.base import (
    HELD,
    Detections,
    Detector,
    Judged,
    Kept,
    Memory,
    Raising,
    answers,
    beyond,
)
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.vehicles.rounds import Round

PARTS: Final = 10
"""Buckets of a span."""
LEAST_SHARE: Final = 0.5
"""Of the buckets of a mean so many must have frames."""
COVERED: Final = 0.7
"""A slope is taken over at least this share of its span."""
MAD_TO_SD: Final = 1.4826
SERIES: Final = np.dtype(
    [
        ("count", "i8"),
        ("number", "i8", (PARTS + 1,)),
        ("frames", "i8", (PARTS + 1,)),
        ("total", "f8", (PARTS + 1,)),
    ]
)
"""``count`` buckets; 0 in the rest."""
Series = npt.NDArray[Any]
"""SERIES, [k]."""
_PLACES: Final = np.arange(PARTS + 1)
LEAST: Final = 2
"""Complete buckets of a slope that stay however old they are: frames may be rarer than the span is long."""


@dataclass(frozen=True, slots=True)
class LevelDetector(Detector):
    """Each frame's own value; nothing is remembered while nothing holds."""

    raising: Raising

    dtype: ClassVar = HELD

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        told: Flags = (said.holds != 0) | (said.clears > 0)
        return told

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        holds: Flags = said.holds > 0
        return holds

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        held = memory.rows[frames.places]
        ready = said.armed >= 0
        judged = Judged(
            frames["end_ms"], said.holds, said.clears, said.value, said.limit, said.names_of, ready
        )
        found = self.raising.step(held, judged)
        memory.rows[frames.places], memory.on[frames.places] = held, held["on"]
        return found

    def waits(self, memory: Memory, places: Ints) -> Flags:
        """See Detector."""
        return self.raising.waits(memory.rows[places])

    def later(self, memory: Memory, places: Ints, pause_ms: Floats) -> None:
        """See Detector."""
        self.raising.later(memory.rows, places, pause_ms)


ARMING: Final = np.dtype([("armed", "f8"), ("seen", "f8"), ("off", "f8")])
"""How long it has been armed, the last frame, since when it is not (NaN: it is); ms."""


@dataclass(frozen=True, slots=True)
class ArmedDetector(Detector):
    """Raised only once something (`while`) has held for so long; where it does not hold, the rule is over.

    A pause of up to ``pause_ms`` does not begin that time anew, but does not count either; nor does a gap. So
    with the time that a level has to last: an engine that a hybrid needs for half a minute now and then would
    never be too cold for four minutes on end.
    """

    armed_for_ms: int
    pause_ms: int
    gap_ms: int
    inner: Detector

    dtype: ClassVar = ARMING

    def memory(self, count: int, kept: Kept | None = None) -> Memory:
        """See Detector."""
        memory = Memory(ARMING, count, self.inner.memory(count))
        if kept is not None:
            memory.load(kept)
        return memory

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        known: Flags = said.armed != 0
        return known

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector: what is not armed and was not leaves nothing."""
        armed: Flags = said.armed > 0
        return armed

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        inside = memory.inner
        assert inside is not None
        before, known = memory.rows[frames.places], memory.on[frames.places]
        lanes = np.flatnonzero(~(known & (frames["end_ms"] < before["seen"])))
        frames, said, before, known = frames.of(lanes), said.of(lanes), before[lanes], known[lanes]
        places, armed = frames.places, said.armed > 0
        now = self._arming(before, known, frames["end_ms"], armed)
        self._after_pause(inside, frames, before, known & armed)
        waits = ~armed & (now["armed"] > 0) & self.inner.waits(inside, places)
        said = replace(
            said,
            holds=np.where(armed, said.holds, -1).astype(np.int8),
            clears=np.where(armed, said.clears, 1).astype(np.int8),
            value=np.where(armed, said.value, np.nan),
            armed=answers(now["armed"] >= self.armed_for_ms),
        )
        asked = ~waits & (inside.on[places] | self.inner.starts(said))
        inner_lanes = np.flatnonzero(asked)
        found = (
            self.inner.step(inside, frames.of(inner_lanes), said.of(inner_lanes)) if inner_lanes.size else []
        )
        memory.rows[places] = now
        memory.on[places] = inside.on[places] | (now["armed"] > 0) | np.isnan(now["off"])
        return [(int(lanes[inner_lanes[lane]]), each) for lane, each in found]

    def _arming(self, was: Any, known: Flags, now_ms: Floats, armed: Flags) -> Any:
        """ARMING after a frame; ``known``: that there was one before."""
        now = np.zeros(len(was), ARMING)
        now["seen"] = now_ms
        was_off = ~np.isnan(was["off"])
        passed_ms = now_ms - was["seen"]
        away_ms = np.where(was_off, now_ms - was["off"], passed_ms)
        whole = ~was_off & (passed_ms <= self.gap_ms)
        goes_on = known & (whole | (away_ms <= self.pause_ms))
        off_ms = np.where(known, np.where(was_off, was["off"], was["seen"]), now_ms)
        lasts = known & (now_ms - off_ms <= self.pause_ms)
        counted = np.where(armed, was["armed"] + whole * passed_ms, was["armed"])
        now["armed"] = np.where(np.where(armed, goes_on, lasts), counted, 0)
        now["off"] = np.where(armed, np.nan, off_ms)
        return now

    def _after_pause(self, inside: Memory, frames: Round, was: Any, back: Flags) -> None:
        """What waited before a pause goes on where the pause was short, and begins anew where it was not."""
        back = back & ~np.isnan(was["off"])
        if not back.any():
            return
        lanes = np.flatnonzero(back & self.inner.waits(inside, frames.places))
        away_ms = (frames["end_ms"] - was["off"])[lanes]
        places, short = frames.places[lanes], away_ms <= self.pause_ms
        self.inner.later(inside, places[short], away_ms[short])
        inside.forget(places[~short])


SAME: Final = np.dtype([("held", HELD), ("value", "f8"), ("frames", "i8"), ("since", "f8"), ("seen", "f8")])
"""The value, its frames on end, since when, the last of them."""


@dataclass(frozen=True, slots=True)
class UnchangedDetector(Detector):
    """The same value in ``frames`` frames on end and for ``unchanged_ms``; a longer gap begins anew."""

    raising: Raising
    frames: int
    unchanged_ms: int

    dtype: ClassVar = SAME

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        same, now_ms = memory.rows[frames.places], frames["end_ms"]
        other = ~memory.on[frames.places] | (said.value != same["value"])
        other |= now_ms - same["seen"] > self.raising.gap_ms
        same["value"], same["seen"] = said.value, now_ms
        same["since"] = np.where(other, now_ms, same["since"])
        same["frames"] = np.where(other, 1, same["frames"] + 1)
        holds = (same["frames"] >= self.frames) & (now_ms - same["since"] >= self.unchanged_ms)
        held = same["held"]
        now = Judged(
            now_ms, answers(holds), answers(same["frames"] == 1), said.value,
            np.full(len(same), np.nan), said.names_of,
        )  # fmt: skip
        found = self.raising.step(held, now)
        memory.rows[frames.places], memory.on[frames.places] = same, True
        return found


COURSE: Final = np.dtype([("held", HELD), ("series", SERIES)])


@dataclass(frozen=True, slots=True)
class CourseDetector(Detector):
    """The mean over ``span_ms``, or with ``per_s`` the slope, judged whenever a tenth of it is complete.

    A mean needs its whole time, and frames in half of its tenths. A slope holds when it is beyond the limit
    by ``sure`` standard errors, and a gap longer than ``gap_ms`` begins a new series. A frame without a value
    does not count; where the rule is not looked at at all, it comes to its end.
    """

    raising: Raising
    span_ms: int
    clear_level: float | None
    per_s: float | None = None
    sure: float = 0.0
    gap_ms: int = 0
    dtype: ClassVar = COURSE

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value) | (said.clears > 0)

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value)

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        places, now_ms, is_slope = frames.places, frames["end_ms"], self.per_s is not None
        rows, known = memory.rows[places], ~np.isnan(said.value)
        series, held = rows["series"], rows["held"]
        if is_slope:
            last = series["number"][np.arange(len(rows)), np.maximum(series["count"] - 1, 0)]
            gap = known & (series["count"] > 0) & (now_ms - last * self.span_ms // PARTS > self.gap_ms)
            series[gap] = np.zeros((), SERIES)
        complete = add(series, known, now_ms, said.value, self.span_ms, LEAST if is_slope else 0)
        memory.rows[places] = rows
        memory.on[places] |= known
        if known.all() and not complete.any():
            return []
        value, off = np.full(len(rows), np.nan), np.zeros(len(rows))
        value[complete], off[complete] = self._measured(series[complete])
        above, limit, judged = self.raising.above, said.limit, ~np.isnan(value)
        back = limit if self.clear_level is None else np.full(len(limit), self.clear_level)
        holds = beyond(value - off if above else value + off, limit, above)
        now = Judged(
            now_ms,
            np.where(judged, answers(holds), np.where(known, 0, -1)).astype(np.int8),
            np.where(judged, answers(~beyond(value, back, above)), np.where(known, 0, 1)).astype(np.int8),
            value, limit, said.names_of, True if is_slope else said.armed >= 0,
        )  # fmt: skip
        found = self.raising.step(held, now)
        if is_slope:  # the course of a rule that is not looked at begins anew
            series[~known] = np.zeros((), SERIES)
            memory.on[places[~known]] = held["on"][~known]
        memory.rows[places] = rows
        return found

    def _measured(self, series: Series) -> tuple[Floats, Floats]:
        """Means or slopes, NaN where there is none yet, and by how much they must be beyond the limit."""
        if self.per_s is None:
            return mean(series), np.zeros(len(series))
        steep, error = slope(series, self.span_ms)
        return steep * self.per_s, self.sure * error * self.per_s


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
        series[new] = _with_bucket(series[new], number[new], value[new], least)
    return complete


def _with_bucket(s: Series, number: npt.NDArray[np.int64], value: Floats, least: int) -> Series:
    count = s["count"]
    there = count[:, None] > _PLACES
    gone = (there & (number[:, None] - s["number"] > PARTS)).sum(axis=1)
    gone = np.minimum(gone, np.maximum(count - least, 0))
    from_place = np.minimum(_PLACES + gone[:, None], PARTS)
    left = (count - gone)[:, None]
    after = np.zeros(len(s), SERIES)
    for name in ("number", "frames", "total"):
        after[name] = np.where(left > _PLACES, np.take_along_axis(s[name], from_place, 1), 0)
    at = np.arange(len(s)), left[:, 0]
    after["number"][at], after["frames"][at], after["total"][at] = number, 1, value
    after["count"] = left[:, 0] + 1
    return after


def mean(series: Series) -> Floats:
    """The mean over the complete buckets; NaN before they span the whole time. [k]."""
    count = series["count"]
    now = series["number"][np.arange(len(series)), count - 1]
    complete = (count[:, None] - 1) > _PLACES
    whole = (count - 1 >= LEAST_SHARE * PARTS) & (now - series["number"][:, 0] >= PARTS)
    frames = np.where(complete, series["frames"], 0).sum(axis=1)
    total = np.where(complete, series["total"], 0.0).sum(axis=1)
    return np.where(whole, total / np.maximum(frames, 1), np.nan)


def slope(series: Series, span_ms: int) -> tuple[Floats, Floats]:
    """Change of the value per second and its standard error, over complete buckets (Theil and Sen); [k].

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
        steepness, off = _theil_sen(at_s, value)
        covered = (at_s[:, -1] - at_s[:, 0]) * 1000 >= COVERED * span_ms
        steep[lanes], error[lanes] = np.where(covered, (steepness, off), np.nan)
    return steep, error


def _theil_sen(at_s: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Slope and its standard error of points [k, n]."""
    first, second = np.triu_indices(at_s.shape[1], 1)
    steepness = np.median((value[:, second] - value[:, first]) / (at_s[:, second] - at_s[:, first]), axis=1)
    rests = value - steepness[:, None] * at_s
    off = np.abs(rests - np.median(rests, axis=1)[:, None])
    width = np.sqrt(((at_s - at_s.mean(axis=1)[:, None]) ** 2).sum(axis=1))
    return steepness, MAD_TO_SD * np.median(off, axis=1) / width
