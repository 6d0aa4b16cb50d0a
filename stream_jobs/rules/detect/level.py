"""A value beyond its limit for some time; the frame's own or its mean over a longer time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect.base import Detections, Detector, Kept, Memory
from stream_jobs.rules.detect.raising import HELD, Judged, Raising, answers, beyond
from stream_jobs.rules.detect.series import SERIES, add, mean
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.vehicles.rounds import Round


@dataclass(frozen=True, slots=True)
class LevelDetector(Detector):
    """Each frame's own value; nothing is remembered while nothing holds."""

    raising: Raising

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return HELD

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

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return ARMING

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


MEAN: Final = np.dtype([("held", HELD), ("series", SERIES)])


@dataclass(frozen=True, slots=True)
class MeanDetector(Detector):
    """The mean over ``mean_ms``, judged whenever a tenth of it is complete.

    A mean needs its whole time, and frames in half of its tenths. A frame without a value does not count;
    where the rule is not looked at at all, it comes to its end.
    """

    raising: Raising
    mean_ms: int
    clear_level: float | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return MEAN

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value) | (said.clears > 0)

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value)

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        kept, known = memory.rows[frames.places], ~np.isnan(said.value)
        series, held = kept["series"], kept["held"]
        complete = add(series, known, frames["end_ms"], said.value, self.mean_ms)
        memory.rows[frames.places] = kept
        memory.on[frames.places] |= known
        if known.all() and not complete.any():
            return []
        average = np.full(len(kept), np.nan)
        average[complete] = mean(series[complete])
        judged = ~np.isnan(average)
        above, limit = self.raising.above, said.limit
        back = limit if self.clear_level is None else np.full(len(limit), self.clear_level)
        holds = np.where(judged, answers(beyond(average, limit, above)), np.where(known, 0, -1))
        clears = np.where(judged, answers(~beyond(average, back, above)), np.where(known, 0, 1))
        now = Judged(
            frames["end_ms"], holds.astype(np.int8), clears.astype(np.int8), average, limit, said.names_of,
            said.armed >= 0,
        )  # fmt: skip
        found = self.raising.step(held, now)
        memory.rows[frames.places] = kept
        return found
