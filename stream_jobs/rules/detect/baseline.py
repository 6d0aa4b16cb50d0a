"""A value against the vehicle's own history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect.base import Detections, Detector, Kept, Memory
from stream_jobs.rules.detect.history import MOVING, QUANTILE, QUANTILES, moved, noted, quantile
from stream_jobs.rules.detect.raising import HELD, Judged, Raising, answers, beyond
from stream_jobs.rules.detect.series import SERIES, add, mean
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.kinds import Baseline
from stream_jobs.vehicles.rounds import Round

NAMES_MAX: Final = 24
"""Histories by name that a vehicle has; the one learned longest ago gives way."""
WIDTHS: Final = (1, 2, 4, 8, 16, NAMES_MAX)
"""Places for histories in a record: as many as the vehicle with most names needs."""
SLOTS: Final = ("name_of", "turn", "history")
"""Fields of histories: their names, when each was learned last (0: never), their numbers; [k, width]."""
UNNAMED: Final = ""


@dataclass(frozen=True, slots=True)
class BaselineDetector(Detector):
    """How far a value is from what this vehicle had before; silent until ``warm_up`` values were taken in.

    While the rule is raised nothing is learned: a fault must not become the history.
    """

    raising: Raising
    spec: Baseline
    clear_level: float | None

    def memory(self, count: int, kept: Kept | None = None) -> Memory:
        """See Detector."""
        width = WIDTHS[0] if kept is None else kept.width
        memory = Memory(self._dtype(width), count, width=width)
        if kept is not None:
            memory.load(kept)
        return memory

    def _dtype(self, width: int) -> np.dtype[Any]:
        """The name now and since when (ms), how often it learned, the mean's buckets, histories."""
        history = MOVING if self.spec.against == "mean" else QUANTILE
        series = [("series", SERIES)] if self.spec.mean_s else []
        slots = [("name_of", "i8", (width,)), ("turn", "i8", (width,)), ("history", history, (width,))]
        return np.dtype([("held", HELD), ("name", "i8"), ("since", "f8"), ("turns", "i8"), *series, *slots])

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        places, now_ms = frames.places, frames["end_ms"]
        name = self._named(memory, said)
        own = memory.rows[places]
        other = ~memory.on[places] | (name != own["name"])
        own["name"], own["since"] = name, np.where(other, now_ms, own["since"])
        value = said.value
        if self.spec.mean_s:
            value = self._means(own["series"], other, now_ms, value)
        memory.rows[places], memory.on[places] = own, True
        lanes = np.flatnonzero(~np.isnan(value) & (now_ms - own["since"] >= 1000 * self.spec.steady_s))
        if not lanes.size:
            return []
        found = self._judge(memory, frames.of(lanes), said.of(lanes), value[lanes])
        return [(int(lanes[lane]), each) for lane, each in found]

    def _named(self, memory: Memory, said: RuleEvaluation) -> Ints:
        """The number in ``memory.words`` of what each reading is about."""
        if said.names is None:
            memory.words = memory.words or [UNNAMED]
            return np.zeros(len(said.value), np.int64)
        known = {word: place for place, word in enumerate(memory.words)}
        numbers, words = said.names.numbers, said.names.words
        for number in np.unique(numbers).tolist():
            known.setdefault(words[number], len(known))
        memory.words = [*known]
        return np.array([known.get(word, -1) for word in words], np.int64)[numbers]

    def _means(self, series: Any, other: Flags, now_ms: Floats, value: Floats) -> Floats:
        """The mean where a part of its time is complete, NaN elsewhere."""
        series[other] = np.zeros((), SERIES)
        average = np.full(len(value), np.nan)
        complete = add(series, ~np.isnan(value), now_ms, value, round(1000 * self.spec.mean_s))
        if complete.any():
            average[complete] = mean(series[complete])
        return average

    def _judge(self, memory: Memory, frames: Round, said: RuleEvaluation, value: Floats) -> Detections:
        """Judge and learn values that count."""
        places, now_ms = frames.places, frames["end_ms"]
        own = memory.rows[places]
        lane, slot = np.arange(len(own)), self._slots(own)
        off = np.where((said.holds > 0) & (slot >= 0), self._off(own["history"][lane, slot], value), np.nan)
        judged, held = ~np.isnan(off), own["held"]
        # A frame that the condition does not let judge breaks what was not raised yet, pauses aside.
        breaks = ~judged & (said.holds < 0) & self.raising.waits(held)
        held["on"] &= ~(breaks & (now_ms - held["seen"] > 1000 * self.spec.pause_s))
        above, limit = self.raising.above, said.limit
        back = limit if self.clear_level is None else np.full(len(limit), self.clear_level)
        holds = answers(beyond(off, limit, above))
        clears = answers(~beyond(off, back, above))
        judgement = Judged(now_ms, holds * judged, clears * judged, off, limit, said.names_of)
        found = self.raising.step(held, judgement)
        memory.rows[places] = own
        learns = np.flatnonzero((said.learns > 0) & ~held["on"])
        if learns.size:
            self._learn(memory, places[learns], slot[learns], value[learns], now_ms[learns])
        return found

    def _slots(self, own: Any) -> Ints:
        """Where the history of the name is; -1: nowhere."""
        same = (own["name_of"] == own["name"][:, None]) & (own["turn"] > 0)
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def _learn(self, memory: Memory, places: Ints, slot: Ints, value: Floats, now_ms: Floats) -> None:
        own = memory.rows[places]
        full = (own["turn"] > 0).all(axis=1) & (slot < 0)
        width = own["turn"].shape[1]
        if full.any() and width < NAMES_MAX:
            self._widen(memory, WIDTHS[WIDTHS.index(width) + 1])
            self._learn(memory, places, slot, value, now_ms)
            return
        lane, oldest = np.arange(len(own)), own["turn"].argmin(axis=1)
        fresh, slot = slot < 0, np.where(slot < 0, oldest, slot)
        history = own["history"][lane, slot]
        history[fresh] = np.zeros((), history.dtype)
        if self.spec.against == "mean":
            history = moved(history, value, now_ms, self.spec.memory_s, self.spec.warm_up)
        else:
            history = noted(history, value, QUANTILES[self.spec.against])
        own["turns"] += 1
        own["history"][lane, slot], own["name_of"][lane, slot] = history, own["name"]
        own["turn"][lane, slot] = own["turns"]
        memory.rows[places] = own

    def _widen(self, memory: Memory, width: int) -> None:
        before, memory.width = memory.rows, width
        memory.rows = np.zeros(len(before), self._dtype(width))
        for name in before.dtype.names or ():
            if name in SLOTS:
                memory.rows[name][:, : before[name].shape[1]] = before[name]
            else:
                memory.rows[name] = before[name]

    def _off(self, history: Any, value: Floats) -> Floats:
        """The distance from the history in the rule's measure; NaN before it is warm."""
        spread = np.zeros(len(value))
        if self.spec.against == "mean":
            usual, spread = history["mean"], np.sqrt(history["variance"])
        else:
            usual = quantile(history, QUANTILES[self.spec.against])
        off = value - usual
        if self.spec.by != "difference":
            scale = np.abs(usual) if self.spec.by == "share" else spread
            off = np.divide(off, scale, out=np.full(len(off), np.nan), where=scale > 0)
        warm = (history["taken"] >= self.spec.warm_up) & (history["taken"] > 0)
        return np.where(warm, off, np.nan)
