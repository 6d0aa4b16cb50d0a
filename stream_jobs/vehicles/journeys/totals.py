"""What is summed up over the frames of a trip."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_jobs.frames.arrays import Floats
from stream_jobs.vehicles.journeys.motion import first_known, or_zero
from stream_jobs.vehicles.rounds import Round


class Totals(NamedTuple):
    """Sums; what no frame told is None, in an array NaN. ``unseen_m`` is the part of ``distance_m`` that no
    frame saw; ``powertrain``: its place in frame_features.POWERTRAINS.
    """

    frames: float = 0.0
    distance_m: float = 0.0
    unseen_m: float = 0.0
    moving_ms: float = 0.0
    idle_ms: float = 0.0
    speeding_ms: float | None = None
    speed_max_kmh: float | None = None
    fuel_l: float | None = None
    energy_kwh: float | None = None
    halts: float = 0.0
    harsh_brake: float = 0.0
    harsh_accelerate: float = 0.0
    harsh_corner: float = 0.0
    odometer_from_m: float | None = None
    odometer_to_m: float | None = None
    powertrain: float | None = None


def totals_of(numbers: Floats) -> Totals:
    """One row of an array."""
    return Totals._make(None if x != x else x for x in numbers.tolist())  # noqa: PLR0124  NaN is not known


_COLUMNS: Final = np.dtype([(name, np.float64) for name in Totals._fields])
DISTANCE: Final = Totals._fields.index("distance_m")
HALTS: Final = Totals._fields.index("halts")
HARSH: Final = Totals._fields.index("harsh_brake")
"""Columns; of the harsh events the first one, in the order of frame_features.KINDS."""


def add_frames(totals: Floats, frames: Round, moved_m: Floats, unseen_m: Floats) -> None:
    """Add to ``totals`` ([k, totals]) a frame each: its way and the way unseen before it, [k]."""
    t = totals.view(_COLUMNS)[:, 0]
    moving_ms, odometer_m = frames["moving_ms"], frames["odometer_m"]
    standing_ms = or_zero(frames["end_ms"] - frames["t0_ms"] - moving_ms)
    t["frames"] += 1
    t["distance_m"] += moved_m
    t["distance_m"] += unseen_m
    t["unseen_m"] += unseen_m
    t["moving_ms"] += or_zero(moving_ms)
    t["idle_ms"] += np.where(frames["ignition_on"] == 1, standing_ms, 0.0)
    for name in ("speeding_ms", "fuel_l", "energy_kwh"):
        total, more = t[name], frames[name]
        t[name] = first_known(total + more, first_known(total, more))
    t["speed_max_kmh"] = np.fmax(t["speed_max_kmh"], frames["speed_max_kmh"])
    t["odometer_from_m"] = first_known(t["odometer_from_m"], odometer_m)
    t["odometer_to_m"] = first_known(odometer_m, t["odometer_to_m"])
    t["powertrain"] = first_known(frames["powertrain"], t["powertrain"])
