"""A value against the vehicle's own history: moving mean and variance, or a quantile (P-square)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
from stream_jobs.rules.detect.level import SERIES, add, mean
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import Baseline
from stream_jobs.vehicles.rounds import Round

NAMES_MAX: Final = 24
"""Histories by name that a vehicle has; the one learned longest ago gives way."""
WIDTHS: Final = (1, 2, 4, 8, 16, NAMES_MAX)
"""Places for histories in a record: as many as the vehicle with most names needs."""
SLOTS: Final = ("name_of", "turn", "history")
"""Fields of histories: their names, when each was learned last (0: never), their numbers; [k, width]."""
UNNAMED: Final = ""
QUANTILES: Final = {"p01": 0.01, "p05": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}
CLIP_SD: Final = 3.0
"""A value further off than this moves the mean only so far: one outlier is no history."""
MARKS: Final = 5
MOVING: Final = np.dtype([("taken", "i8"), ("mean", "f8"), ("variance", "f8"), ("at", "f8")])
"""Values taken in, their mean and variance, the time of the last, ms."""
QUANTILE: Final = np.dtype([("taken", "i8"), ("heights", "f8", (MARKS,)), ("places", "f8", (MARKS,))])
"""The P-square method of Jain and Chlamtac (1985): five heights and their places; before, the values."""
Histories = npt.NDArray[Any]


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


def moved(was: Histories, value: Floats, at_ms: Floats, memory_s: float, warm_up: int) -> Histories:
    """MOVING [k] after one more value: plain while warming up, then forgetting with ``memory_s``."""
    new, warm = was["taken"] == 0, (was["taken"] >= warm_up) & (was["taken"] > 0)
    reach = np.where(warm, CLIP_SD * np.sqrt(was["variance"]), 0)
    clipped = np.minimum(np.maximum(value, was["mean"] - reach), was["mean"] + reach)
    value = np.where(reach > 0, clipped, value)
    weight = 1 / (was["taken"] + 1)
    if memory_s > 0:
        passed_s = np.maximum(0, at_ms - was["at"]) / 1000
        weight = np.where(warm, np.maximum(weight, -np.expm1(-passed_s / memory_s)), weight)
    off = np.where(new, 0, value - was["mean"])
    after = np.zeros(len(was), MOVING)
    after["taken"] = was["taken"] + 1
    after["mean"] = np.where(new, value, was["mean"] + weight * off)
    after["variance"] = np.where(new, 0, (1 - weight) * (was["variance"] + weight * off * off))
    after["at"] = np.where(new, at_ms, np.maximum(at_ms, was["at"]))
    return after


def noted(was: Histories, value: Floats, share: float) -> Histories:
    """QUANTILE [k] after one more value."""
    after = was.copy()
    young = np.flatnonzero(was["taken"] < MARKS)
    if young.size:
        heights, taken = was["heights"][young], was["taken"][young]
        heights = np.where(np.arange(MARKS) < taken[:, None], heights, np.inf)
        heights[np.arange(len(young)), taken] = value[young]
        heights = np.sort(heights, axis=1)
        after["heights"][young] = np.where(np.isinf(heights), 0, heights)
        after["places"][young] = np.arange(1.0, MARKS + 1)
    old = np.flatnonzero(was["taken"] >= MARKS)
    if old.size:
        after[old] = _moved_marks(was[old], value[old], share)
    after["taken"] = was["taken"] + 1
    return after


def _moved_marks(was: Histories, value: Floats, share: float) -> Histories:
    after = was.copy()
    q, n = after["heights"], after["places"]
    q[:, 0], q[:, -1] = np.minimum(q[:, 0], value), np.maximum(q[:, -1], value)
    cell = np.clip((q <= value[:, None]).sum(axis=1) - 1, 0, MARKS - 2)
    n += np.arange(MARKS) > cell[:, None]
    for k, part in ((1, share / 2), (2, share), (3, (1 + share) / 2)):
        off = 1 + was["taken"] * part - n[:, k]
        up = (off >= 1) & (n[:, k + 1] - n[:, k] > 1)
        down = (off <= -1) & (n[:, k - 1] - n[:, k] < -1)
        lanes = np.flatnonzero(up | down)
        if lanes.size:
            d = np.where(up[lanes], 1, -1)
            q[lanes, k] = _height(q[lanes], n[lanes], k, d)
            n[lanes, k] += d
    return after


def _height(q: Floats, n: Floats, k: int, d: npt.NDArray[np.int64]) -> Floats:
    """The height of mark k moved a place towards where it should be: by a parabola, else by a line."""
    lane = np.arange(len(q))
    up, down = (
        (q[:, k + 1] - q[:, k]) / (n[:, k + 1] - n[:, k]),
        (q[:, k] - q[:, k - 1]) / (n[:, k] - n[:, k - 1]),
    )
    bend = (n[:, k] - n[:, k - 1] + d) * up + (n[:, k + 1] - n[:, k] - d) * down
    parabola = q[:, k] + d / (n[:, k + 1] - n[:, k - 1]) * bend
    line = q[:, k] + d * (q[lane, k + d] - q[:, k]) / (n[lane, k + d] - n[:, k])
    between = (q[:, k - 1] < parabola) & (parabola < q[:, k + 1])
    return np.where(between, parabola, line)


def quantile(was: Histories, share: float) -> Floats:
    """The quantile now, [k]; there is a value."""
    young = np.minimum(was["taken"] - 1, (share * was["taken"]).astype(np.int64))
    place = np.where(was["taken"] <= MARKS, np.clip(young, 0, MARKS - 1), 2)
    found: Floats = was["heights"][np.arange(len(was)), place]
    return found
