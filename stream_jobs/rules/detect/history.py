"""A vehicle's own history in a few numbers: moving mean and variance, or a quantile (P-square); by column."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Floats

QUANTILES: Final = {"p01": 0.01, "p05": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}
CLIP_SD: Final = 3.0
"""A value further off than this moves the mean only so far: one outlier is no history."""
MARKS: Final = 5
MOVING: Final = np.dtype([("taken", "i8"), ("mean", "f8"), ("variance", "f8"), ("at", "f8")])
"""Values taken in, their mean and variance, the time of the last, ms."""
QUANTILE: Final = np.dtype([("taken", "i8"), ("heights", "f8", (MARKS,)), ("places", "f8", (MARKS,))])
"""The P-square method of Jain and Chlamtac (1985): five heights and their places; before, the values."""
Histories = npt.NDArray[Any]


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
