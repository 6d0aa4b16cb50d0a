"""The reduced samples of each frame of a batch, a row of numbers a frame: numpy, no Spark.

A feature is a double, NaN where not known: a frame's features travel as one array, because a column costs
more on its way to Python and back than what it carries. Whole numbers of the contract stay exact
(below 2^53).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Floats, Frames, Ints, Known
from stream_jobs.windows.vehicle import MOVING_KMH, MS_PER_HOUR, SPEEDING_MARGIN_KMH

HEAD_FEATURES: Final = ("boot_id", "seq", "t0_ms", "end_ms", "received_ms", "believed")
"""Features of every readable frame; the others are known of believed ones only."""
SAMPLE_FEATURES: Final = (
    "ignition_on", "lat_deg", "lon_deg", "heading_deg", "speed_kmh", "speed_max_kmh", "distance_m", "fuel_l",
    "energy_kwh", "odometer_m", "moving_ms", "moving_from_ms", "moving_to_ms", "speeding_ms",
)  # fmt: skip
LOOKUP_FEATURES: Final = ("vehicle_class", "powertrain")
"""Places in CLASSES and POWERTRAINS."""
FRAME_FEATURES: Final = (*HEAD_FEATURES, *SAMPLE_FEATURES, *LOOKUP_FEATURES)
CLASSES: Final = ("car", "van", "heavy")
POWERTRAINS: Final = ("petrol", "diesel", "hybrid", "electric")

WATTS_PER_KW: Final = 1000
M_PER_KM: Final = 1000
NEVER: Final = np.iinfo(np.int64).max


def sample_features(frames: Frames) -> dict[str, Floats]:
    """The features that samples tell, by name; there is at least one frame."""
    begins = np.flatnonzero(frames.index == 0)
    fast, slow, span_ms = frames.fast, frames.slow, frames.dt_ms * frames.n
    speed, ms = fast["speed_kmh"], frames.sample_ms
    moves = speed.values >= _steps(MOVING_KMH, "speed_kmh")
    known = {
        "ignition_on": slow["ignition_on"],
        "moving_ms": _sum(np.where(moves, ms, 0), speed.known, begins),
        "moving_from_ms": _first(frames.event_ms, speed.known & moves, begins),
        "moving_to_ms": _latest(frames.event_ms + ms, speed.known & moves, begins),
        "speeding_ms": _speeding(frames, begins),
    }
    scaled = {name: _scaled(_last(fast[name], begins), name) for name in _LAST}
    metres = _scaled(_sum(speed.values * ms, speed.known, begins), "speed_kmh")
    return {
        **{name: _float(value) for name, value in known.items()},
        **scaled,
        "speed_max_kmh": _scaled(_largest(speed, begins), "speed_kmh"),
        "distance_m": metres / MS_PER_HOUR * M_PER_KM,
        "fuel_l": _scaled(slow["fuel_rate_lph"], "fuel_rate_lph") * span_ms / MS_PER_HOUR,
        "energy_kwh": _watts(slow) * span_ms / MS_PER_HOUR / WATTS_PER_KW,
        "odometer_m": _scaled(slow["odometer_m"], "odometer_m"),
    }


_LAST: Final = ("lat_deg", "lon_deg", "heading_deg", "speed_kmh")


def _watts(slow: Mapping[str, Known]) -> Floats:
    """Power out of the pack, by frame."""
    names = ("pack_voltage_v", "pack_current_a")
    voltage, current = (_scaled(slow[name], name) for name in names)
    return voltage * current


def _speeding(frames: Frames, begins: Ints) -> Known:
    speed, limit = frames.fast["speed_kmh"], frames.on_samples("speed_limit_kmh")
    margin = _steps(SPEEDING_MARGIN_KMH, "speed_limit_kmh")
    finer = BY_NAME["speed_kmh"].steps_per_unit // BY_NAME["speed_limit_kmh"].steps_per_unit
    above = speed.values > (limit.values + margin) * finer
    return _sum(np.where(above, frames.sample_ms, 0), speed.known & limit.known, begins)


def _steps(value: float, signal: str) -> int:
    return round(value * BY_NAME[signal].steps_per_unit)


def _scaled(value: Known, signal: str) -> Floats:
    return _float(value) / BY_NAME[signal].steps_per_unit


def _float(value: Known) -> Floats:
    """As doubles, NaN where not known."""
    return np.where(value.known, value.values.astype(np.float64), np.nan)


def _any(holds: Flags, begins: Ints) -> Flags:
    found: Flags = np.logical_or.reduceat(holds, begins)
    return found


def _sum(values: Ints, known: Flags, begins: Ints) -> Known:
    return Known(np.add.reduceat(np.where(known, values, 0), begins), _any(known, begins))


def _first(times: Ints, holds: Flags, begins: Ints) -> Known:
    return Known(np.minimum.reduceat(np.where(holds, times, NEVER), begins), _any(holds, begins))


def _latest(times: Ints, holds: Flags, begins: Ints) -> Known:
    return Known(np.maximum.reduceat(np.where(holds, times, 0), begins), _any(holds, begins))


def _largest(value: Known, begins: Ints) -> Known:
    return _latest(value.values, value.known, begins)


def _last(value: Known, begins: Ints) -> Known:
    """The last value that is there."""
    place = np.maximum.reduceat(np.where(value.known, np.arange(len(value.values)), -1), begins)
    return Known(value.values[place], place >= 0)


def feature_matrix(columns: Mapping[str, Any], rows: int) -> Floats:
    """``columns`` by the names of FRAME_FEATURES as a row of numbers a frame; NaN where a name is missing."""
    matrix = np.full((rows, len(FRAME_FEATURES)), np.nan)
    for place, name in enumerate(FRAME_FEATURES):
        if name in columns:
            matrix[:, place] = columns[name]
    return matrix


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
