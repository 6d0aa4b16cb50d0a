"""Where vehicles are and how far they went in a frame and between two frames; [k] vehicles, numpy.

Speed first, then odometer, then positions. A position is one complex number, latitude and longitude in
degrees, which is NaN where half of it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from infra.settings.sections import Journeys
from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.vehicles.features import PLACE, Round

EARTH_M: Final = 6_371_008.8
SEEN_MS: Final = 1000
"""Frames so far apart still tell all of the time between them."""
_POSITION: Final = [PLACE["lat_deg"], PLACE["lon_deg"]]

Positions = npt.NDArray[np.complex128]
Number = TypeVar("Number", np.float64, np.complex128)


def indices(holds: Flags) -> Ints:
    """Where it holds."""
    return holds.nonzero()[0]


def or_zero(values: Floats) -> Floats:
    """0 where not known."""
    return np.where(np.isnan(values), 0.0, values)


def first_known(values: npt.NDArray[Number], others: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """``values``, and ``others`` where those are not known."""
    return np.where(np.isnan(values), others, values)


def positions(frames: Round) -> Positions:
    """The last known position in each frame, [k]."""
    return frames.frame_features.take(_POSITION, axis=1).view(np.complex128)[:, 0]


def apart_m(a: Positions, b: Positions) -> Floats:
    """Distances as the crow flies, [k]; NaN where a position is not known."""
    mean = np.radians((a.real + b.real) / 2)
    east = np.radians((b.imag - a.imag + 540) % 360 - 180) * _each(math.cos, mean)
    north = np.radians(b.real - a.real)
    return EARTH_M * _each(math.hypot, east, north)


def _each(function: Callable[..., float], *columns: Floats) -> Floats:
    """By Python: numpy's own are not the same to the last bit on every processor, and what the stream and the
    batch layer say is compared.
    """
    found = map(function, *(column.tolist() for column in columns))
    return np.fromiter(found, np.float64, len(columns[0]))


class Ways(NamedTuple):
    """The way of each frame; ``from_ms`` and ``to_ms`` are of its moving part, if it ``moves``."""

    moves: Flags
    from_ms: Floats
    to_ms: Floats
    distance_m: Floats


def ways_of(fixed: Positions, frames: Round, here: Positions, limits: Journeys) -> Ways:
    """By the speed; where no sample tells it, by how far the position is from ``fixed``, noise apart."""
    from_ms, to_ms = frames["moving_from_ms"], frames["moving_to_ms"]
    ways = Ways(~np.isnan(from_ms + to_ms), from_ms, to_ms, or_zero(frames["distance_m"]))
    at = indices(np.isnan(frames["moving_ms"]))
    if not len(at):
        return ways
    t0_ms, end_ms = frames["t0_ms"][at], frames["end_ms"][at]
    away_m = or_zero(apart_m(fixed[at], here[at]))
    moves = (away_m > limits.noise_m) & _possible(away_m, end_ms - t0_ms + limits.end_s * 1000, limits)
    ways = ways._replace(from_ms=from_ms.copy(), to_ms=to_ms.copy())
    ways.moves[at], ways.from_ms[at], ways.to_ms[at] = moves, t0_ms, end_ms
    ways.distance_m[at] = np.where(moves, away_m, 0.0)
    return ways


def unseen_m(away_m: Floats, counted_m: Floats, own_m: Floats, gap_ms: Floats, limits: Journeys) -> Floats:
    """The way in a time without frames: what the odometer counted (``counted_m``, NaN where not known)
    besides the frame after it (``own_m``), else the displacement.

    What no vehicle can drive in that time is a jump of the position, or another odometer: 0.
    """
    counted_m, away_m = counted_m - own_m, away_m - own_m
    counts = (counted_m >= 0) & _possible(counted_m, gap_ms, limits)
    displaced = (away_m > limits.noise_m) & _possible(away_m, gap_ms, limits)
    return np.where(counts, counted_m, np.where(displaced, away_m, 0.0))


def _possible(distance_m: Floats, time_ms: Floats, limits: Journeys) -> Flags:
    possible: Flags = distance_m <= limits.top_kmh * 1000 * time_ms / 3_600_000
    return possible
