"""Runs of samples beyond the thresholds of harsh driving, frame by frame: numpy, no memory.

What is an event is decided by whoever sees the runs of neighbouring frames, see harsh.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Floats, Frames, Ints, Known
from stream_jobs.vehicles.facts import CLASSES

KINDS: Final = ("brake", "accelerate", "corner")
G_MPS2: Final = 9.80665
RUN: Final = 5
"""Numbers of a run: kind, begin, end, peak (m/s^2), speed (km/h)."""


@dataclass(frozen=True, slots=True)
class HarshLimits:
    """Thresholds in g by kind and class (rows as KINDS, columns as CLASSES), gates in km/h by kind."""

    least_g: tuple[tuple[float, ...], ...]
    gate_kmh: tuple[float, ...]


def harsh_runs(frames: Frames, vehicle_class: Floats, limits: HarshLimits) -> list[list[float]]:
    """The runs of each frame, RUN numbers each; of an unknown class (NaN) as if it were a car.

    The limits of a class are the same at every sample, so runs do not depend on what the frame before said.
    """
    of_class = np.where(np.isnan(vehicle_class), CLASSES.index("car"), vehicle_class).astype(np.int64)
    found: list[list[float]] = [[] for _ in range(len(frames.n))]
    speed = frames.fast["speed_kmh"]
    for kind, (name, sign) in enumerate(_SIGNALS):
        accel = frames.fast[name]
        strength = _strength(accel, name, sign)
        least = G_MPS2 * np.array(limits.least_g[kind])[of_class][frames.of_sample]
        gate = limits.gate_kmh[kind] * BY_NAME["speed_kmh"].steps_per_unit
        beyond = accel.known & speed.known & (strength > least) & (speed.values > gate)
        if beyond.any():
            _collect(found, frames, beyond, strength, kind)
    return found


_SIGNALS: Final = (("accel_long_mps2", -1), ("accel_long_mps2", 1), ("accel_lat_mps2", 0))
"""Signal of each kind and the sign that its events have; 0: either."""


def _strength(accel: Known, name: str, sign: int) -> Floats:
    steps = np.abs(accel.values) if sign == 0 else sign * accel.values
    return steps / BY_NAME[name].steps_per_unit


def _collect(found: list[list[float]], frames: Frames, beyond: Flags, strength: Floats, kind: int) -> None:
    """Append each run of samples that are ``beyond`` to the runs of its frame."""
    places = np.flatnonzero(beyond)
    new = (np.diff(places, prepend=-2) != 1) | (frames.index[places] == 0)
    firsts = places[new]
    lasts = places[np.append(np.flatnonzero(new)[1:] - 1, len(places) - 1)]
    peaks = np.maximum.reduceat(strength[places], np.flatnonzero(new))
    ends: Ints = frames.event_ms[lasts] + frames.sample_ms[lasts]
    speed = frames.fast["speed_kmh"].values[firsts] / BY_NAME["speed_kmh"].steps_per_unit
    rows = zip(frames.of_sample[firsts], frames.event_ms[firsts], ends, peaks, speed, strict=True)
    for frame, begin, end, peak, kmh in rows:
        found[frame] += [float(kind), float(begin), float(end), float(peak), float(kmh)]
