"""A value against the vehicle's own history: moving mean and variance, or a quantile (P-square)."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.rules.detect.base import HELD, Detections, Memory, RaisingDetector, ms
from stream_jobs.rules.detect.level import SERIES, add, mean
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import Baseline, Rule
from stream_jobs.vehicles.features import Features

NAMES_MAX: Final = 24  # histories by name that a vehicle has; the one learned longest ago gives way
UNNAMED: Final = ""
QUANTILES: Final = {"p01": 0.01, "p05": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}
CLIP_SD: Final = 3.0  # a value further off than this moves the mean only so far: one outlier is no history
MARKS: Final = 5
MOVING: Final = np.dtype([("taken", "i8"), ("mean", "f8"), ("variance", "f8"), ("at", "f8")])
"""Values taken in, their mean and variance, the time of the last, ms."""
QUANTILE: Final = np.dtype([("taken", "i8"), ("heights", "f8", (MARKS,)), ("places", "f8", (MARKS,))])
"""The P-square method of Jain and Chlamtac (1985): five heights and their places; before, the values."""
Histories = npt.NDArray[Any]


class BaselineDetector(RaisingDetector[Baseline]):
    """How far a value is from what this vehicle had before; silent until ``warm_up`` values were taken in.

    While the rule is raised nothing is learned: a fault must not become the history.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.gap_ms = max(self.gap_ms, ms(self.spec.pause_s))
        self.dtype = self._dtype(1)

    def _dtype(self, width: int) -> np.dtype[Any]:
        """The name now and since when (ms), how often it learned, the mean's buckets; ``width`` histories, as
        the vehicle with most names needs: their names, when each was learned last (0: never), their numbers.
        """
        history = MOVING if self.spec.against == "mean" else QUANTILE
        series = [("series", SERIES)] if self.spec.mean_s else []
        slots = [("name_of", "i8", (width,)), ("turn", "i8", (width,)), ("history", history, (width,))]
        return np.dtype([("held", HELD), ("name", "i8"), ("since", "f8"), ("turns", "i8"), *series, *slots])

    def step(self, memory: Memory, frames: Features, now: RuleEvaluation) -> Detections:
        places, now_ms, value = frames.vehicle, frames["end_ms"], now.value
        if now.names is None:
            memory.words = memory.words or [UNNAMED]
            name = np.zeros(len(value), np.int64)
        else:  # the number in memory.words of what each frame is about
            number_of = {word: place for place, word in enumerate(memory.words)}
            numbers, words = now.names.numbers[now.at], now.names.words
            for number in np.unique(numbers).tolist():
                number_of.setdefault(words[number], len(number_of))
            memory.words = [*number_of]
            name = np.array([number_of.get(word, -1) for word in words], np.int64)[numbers]
        own = memory.rows[places]
        other = ~memory.on[places] | (name != own["name"])
        own["name"], own["since"] = name, np.where(other, now_ms, own["since"])
        if self.spec.mean_s:  # known where a part of its time is complete
            series, average = own["series"], np.full(len(value), np.nan)
            series[other] = np.zeros((), SERIES)
            complete = add(series, ~np.isnan(value), now_ms, value, round(1000 * self.spec.mean_s))
            if complete.any():
                average[complete] = mean(series[complete])
            value = average
        memory.rows[places], memory.on[places] = own, True
        lanes = np.flatnonzero(~np.isnan(value) & (now_ms - own["since"] >= 1000 * self.spec.steady_s))
        if not lanes.size:
            return []
        found = self._judge(memory, frames.at(lanes), now.of(lanes), value[lanes])
        return [(int(lanes[lane]), each) for lane, each in found]

    def _judge(self, memory: Memory, frames: Features, now: RuleEvaluation, value: Floats) -> Detections:
        places, now_ms = frames.vehicle, frames["end_ms"]
        own = memory.rows[places]
        same = (own["name_of"] == own["name"][:, None]) & (own["turn"] > 0)
        slot = np.where(same.any(axis=1), same.argmax(axis=1), -1)  # of the name's history; -1: it has none
        off = self._off(own["history"][np.arange(len(own)), slot], value)
        off = np.where((now.holds > 0) & (slot >= 0), off, np.nan)
        judged, held = ~np.isnan(off), own["held"]
        # A frame that the condition does not let judge breaks what was not raised yet, pauses aside.
        breaks = ~judged & (now.holds < 0) & self.unraised(held)
        held["on"] &= ~(breaks & (now_ms - held["seen"] > 1000 * self.spec.pause_s))
        found = self.raised(memory, frames, held, self.judged(now, off))
        memory.rows[places] = own
        # What waits to be raised bars its own frames from the history, not those that are learned only.
        barred = held["on"] & ~(self.unraised(held) & (now.holds < 0))
        learns = np.flatnonzero((now.learns > 0) & ~barred)
        if learns.size:
            self._learn(memory, places[learns], slot[learns], value[learns], now_ms[learns])
        return found

    def _learn(self, memory: Memory, places: Ints, slot: Ints, value: Floats, now_ms: Floats) -> None:
        own = memory.rows[places]
        full = (own["turn"] > 0).all(axis=1) & (slot < 0)
        width = own["turn"].shape[1]
        if full.any() and width < NAMES_MAX:
            wider = np.zeros(len(memory.rows), self._dtype(min(2 * width, NAMES_MAX)))
            for name in wider.dtype.names or ():
                wider[name][tuple(map(slice, memory.rows[name].shape))] = memory.rows[name]
            memory.rows, own = wider, wider[places]
        lane, fresh = np.arange(len(own)), slot < 0
        slot = np.where(fresh, own["turn"].argmin(axis=1), slot)
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

    def _off(self, history: Any, value: Floats) -> Floats:
        """The distance from the history in the rule's measure; NaN before it is warm."""
        spread = np.zeros(len(value))
        if self.spec.against == "mean":
            usual, spread = history["mean"], np.sqrt(history["variance"] + self.spec.resolution**2 / 12)
        else:
            usual = quantile(history, QUANTILES[self.spec.against])
        off = value - usual
        if self.spec.by != "difference":
            scale = np.abs(usual) if self.spec.by == "share" else spread
            off = np.divide(off, scale, out=np.full(len(off), np.nan), where=scale > 0)
        return np.where(history["taken"] >= self.spec.warm_up, off, np.nan)


def moved(was: Histories, value: Floats, at_ms: Floats, memory_s: float, warm_up: int) -> Histories:
    """MOVING [k] after one more value: plain while warming up, then forgetting with ``memory_s``."""
    new, warm = was["taken"] == 0, was["taken"] >= warm_up
    reach = np.where(warm, CLIP_SD * np.sqrt(was["variance"]), 0)
    clipped = np.minimum(np.maximum(value, was["mean"] - reach), was["mean"] + reach)
    value = np.where(reach > 0, clipped, value)
    weight = 1 / (was["taken"] + 1)
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
    lane, before, after = np.arange(len(q)), n[:, k] - n[:, k - 1], n[:, k + 1] - n[:, k]
    up, down = (q[:, k + 1] - q[:, k]) / after, (q[:, k] - q[:, k - 1]) / before
    bend = (before + d) * up + (after - d) * down
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
