"""The reduced samples of each frame of a batch, a row of numbers a frame: numpy, no Spark.

A fact is a double, NaN where not known: a frame's facts travel as one array, because a column costs more on
its way to Python and back than what it carries. Whole numbers of the contract stay exact (below 2^53).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Floats, Frames, Ints, Known
from stream_jobs.windows.driving import MOVING_KMH, MS_PER_HOUR, SPEEDING_MARGIN_KMH

HEAD_FACTS: Final = ("boot_id", "seq", "t0_ms", "end_ms", "received_ms", "believed")
"""Facts of every readable frame; the others are known of believed ones only."""
SAMPLE_FACTS: Final = (
    "ignition_on", "lat_deg", "lon_deg", "heading_deg", "speed_kmh", "speed_max_kmh", "distance_m", "fuel_l",
    "energy_kwh", "odometer_m", "moving_ms", "moving_from_ms", "moving_to_ms", "speeding_ms",
)  # fmt: skip
LOOKUP_FACTS: Final = ("vehicle_class", "powertrain")
"""Places in CLASSES and POWERTRAINS."""
FACTS: Final = (*HEAD_FACTS, *SAMPLE_FACTS, *LOOKUP_FACTS)
CLASSES: Final = ("car", "van", "heavy")
POWERTRAINS: Final = ("petrol", "diesel", "hybrid", "electric")

WATTS_PER_KW: Final = 1000
M_PER_KM: Final = 1000
NEVER: Final = np.iinfo(np.int64).max


def sample_facts(frames: Frames) -> dict[str, Floats]:
    """The facts that samples tell, by name; there is at least one frame."""
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


def facts_matrix(columns: Mapping[str, Any], rows: int) -> Floats:
    """``columns`` by the names of FACTS as one row of numbers a frame; NaN where a name is missing."""
    matrix = np.full((rows, len(FACTS)), np.nan)
    for place, name in enumerate(FACTS):
        if name in columns:
            matrix[:, place] = columns[name]
    return matrix
