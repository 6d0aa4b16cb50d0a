"""How far a vehicle went in a frame and between two frames: speed first, then odometer, then positions."""

from __future__ import annotations

from dataclasses import dataclass

from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.places import Place, apart_m, place

MS_PER_H = 3_600_000
M_PER_KM = 1000


@dataclass(frozen=True, slots=True)
class Way:
    """The way of one frame; ``from_ms`` and ``to_ms`` are of its moving part."""

    moves: bool
    from_ms: int
    to_ms: int
    distance_m: float


def way_of(fixed: Place | None, beat: Beat, limits: JourneyLimits) -> Way:
    """By the speed; where no sample tells it, by how far the position is from ``fixed``, noise apart."""
    if beat.moving_ms is not None:
        if beat.moving_from_ms is None or beat.moving_to_ms is None:
            return Way(False, beat.t0_ms, beat.t0_ms, beat.distance_m or 0.0)
        return Way(True, beat.moving_from_ms, beat.moving_to_ms, beat.distance_m or 0.0)
    away_m = apart_m(fixed, place(beat.lat_deg, beat.lon_deg)) or 0.0
    moves = away_m > limits.noise_m and _possible(away_m, beat.end_ms - beat.t0_ms + limits.end_ms, limits)
    return Way(moves, beat.t0_ms, beat.end_ms, away_m if moves else 0.0)


def unseen_m(
    where: Place | None, odometer_m: float | None, beat: Beat, gap_ms: int, limits: JourneyLimits
) -> float:
    """The way in a time without frames: what the odometer counted besides this frame, else the displacement.

    What no vehicle can drive in that time is a jump of the position, or another odometer: 0.
    """
    own_m = beat.distance_m or 0.0
    if odometer_m is not None and beat.odometer_m is not None:
        counted_m = beat.odometer_m - odometer_m - own_m
        if counted_m >= 0 and _possible(counted_m, gap_ms, limits):
            return counted_m
    away_m = (apart_m(where, place(beat.lat_deg, beat.lon_deg)) or 0.0) - own_m
    return away_m if away_m > limits.noise_m and _possible(away_m, gap_ms, limits) else 0.0


def _possible(distance_m: float, time_ms: int, limits: JourneyLimits) -> bool:
    return distance_m <= limits.top_kmh * M_PER_KM * time_ms / MS_PER_H
