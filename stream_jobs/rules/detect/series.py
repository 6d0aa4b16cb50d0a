"""A value's recent course in few numbers: means by bucket of time, their mean and their slope; pure.

A series has buckets (number, frames, sum of values), oldest first, at most PARTS + 1; the last one is open.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats

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
