"""Median and scale of all the others, for each of many values at once; pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MAD_TO_SD: Final = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


def median_of_others(values: Floats) -> Floats:
    """For each value the median of all but itself; there are two values at least."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    ascending = values[order]
    low, high = (len(values) - 2) // 2, (len(values) - 1) // 2
    middle: Floats = (ascending[low + (rank <= low)] + ascending[high + (rank <= high)]) / 2
    return middle


def others(values: Floats) -> tuple[Floats, Floats]:
    """For each value the median of all but itself, and their scale (1.4826 MAD about that median).

    Leaving one out moves the median to one of three places at most, so this is a few sorts and no square.
    """
    medians = median_of_others(values)
    mads = np.empty_like(medians)
    for median in np.unique(medians):
        mine = medians == median
        mads[mine] = median_of_others(np.abs(values - median))[mine]
    return medians, MAD_TO_SD * mads
