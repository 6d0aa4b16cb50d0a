"""What journeys are told as; times in ms since 1970, natural keys (vehicle, begin)."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import h3
import msgspec

from stream_jobs.vehicles.frame_features import POWERTRAINS
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.totals import Totals

OPEN, PROVISIONAL, FINAL = "open", "provisional", "final"
PHASES = (OPEN, PROVISIONAL, FINAL)
"""Under way; over because nothing more came; over by what came."""
MS_PER_S = 1000
M_PER_KM = 1000
PER_100_KM = 100_000.0
KMH_PER_MPS = 3.6
OD_RESOLUTION: Final = 7
"""Hexagons of 5.2 km2: origins and destinations."""


class TripRow(msgspec.Struct, frozen=True, tag="trip", gc=False):
    """A row of odograph.trip; ``duration_s`` is from begin to end, ``standing_s`` the part without moving."""

    vehicle_id: str
    started_ms: int
    ended_ms: int
    trip_id: str
    phase: str
    start_lat_deg: float | None
    start_lon_deg: float | None
    end_lat_deg: float | None
    end_lon_deg: float | None
    start_h3_r7: str | None
    end_h3_r7: str | None
    distance_m: float
    unseen_m: float
    odometer_m: float | None
    duration_s: float
    moving_s: float
    standing_s: float
    idle_s: float
    halts: int
    speed_mean_kmh: float | None
    speed_moving_kmh: float | None
    speed_max_kmh: float | None
    speeding_s: float | None
    fuel_l: float | None
    fuel_l_per_100km: float | None
    energy_kwh: float | None
    energy_kwh_per_100km: float | None
    co2_g: float | None
    harsh_brake: int
    harsh_accelerate: int
    harsh_corner: int
    frames: int


class StopRow(msgspec.Struct, frozen=True, tag="stop", gc=False):
    """A row of odograph.trip_stop: the time between two trips; ``ended_ms`` None while it lasts."""

    vehicle_id: str
    began_ms: int
    ended_ms: int | None
    lat_deg: float | None
    lon_deg: float | None
    h3_r7: str | None


class IdleRow(msgspec.Struct, frozen=True, tag="idle", gc=False):
    """A row of odograph.idle_episode: standing with the ignition on."""

    vehicle_id: str
    began_ms: int
    ended_ms: int
    phase: str
    duration_s: float
    fuel_l: float | None
    energy_kwh: float | None
    lat_deg: float | None
    lon_deg: float | None


class HarshRow(msgspec.Struct, frozen=True, tag="harsh", gc=False):
    """A row of odograph.harsh_event; ``speed_kmh`` at its begin, ``grade`` 1 to 3 by ``peak_g`` /
    ``limit_g``.
    """

    vehicle_id: str
    began_ms: int
    ended_ms: int
    kind: str
    grade: int
    peak_g: float
    limit_g: float
    speed_kmh: float
    lat_deg: float | None
    lon_deg: float | None


class Moment(NamedTuple):
    """When and where a trip or a stop begins or ends; degrees, None where not known."""

    at_ms: int
    lat_deg: float | None
    lon_deg: float | None


def stop_row(vehicle_id: str, began: Moment, ended_ms: int | None) -> StopRow:
    """The row of a stop."""
    return StopRow(vehicle_id, began.at_ms, ended_ms, began.lat_deg, began.lon_deg, _hexagon(began))


def trip_row(
    vehicle_id: str, phase: str, start: Moment, end: Moment, t: Totals, limits: JourneyLimits
) -> TripRow:
    """The row of a trip."""
    duration_s, moving_s = max(0, end.at_ms - start.at_ms) / MS_PER_S, t.moving_ms / MS_PER_S
    return TripRow(
        vehicle_id=vehicle_id,
        started_ms=start.at_ms,
        ended_ms=end.at_ms,
        trip_id=hashlib.sha256(f"{vehicle_id}|{start.at_ms}".encode()).hexdigest()[:16],
        phase=phase,
        start_lat_deg=start.lat_deg,
        start_lon_deg=start.lon_deg,
        end_lat_deg=end.lat_deg,
        end_lon_deg=end.lon_deg,
        start_h3_r7=_hexagon(start),
        end_h3_r7=_hexagon(end),
        distance_m=round(t.distance_m, 1),
        unseen_m=round(t.unseen_m, 1),
        odometer_m=_between(t.odometer_from_m, t.odometer_to_m),
        duration_s=duration_s,
        moving_s=moving_s,
        standing_s=max(0.0, round(duration_s - moving_s, 3)),
        idle_s=t.idle_ms / MS_PER_S,
        halts=int(t.halts),
        speed_mean_kmh=_kmh(t.distance_m, duration_s),
        speed_moving_kmh=_kmh(t.distance_m - t.unseen_m, moving_s),
        speed_max_kmh=t.speed_max_kmh,
        speeding_s=None if t.speeding_ms is None else t.speeding_ms / MS_PER_S,
        fuel_l=_rounded(t.fuel_l, 4),
        fuel_l_per_100km=_per_100_km(t.fuel_l, t.distance_m, limits),
        energy_kwh=_rounded(t.energy_kwh, 4),
        energy_kwh_per_100km=_per_100_km(t.energy_kwh, t.distance_m, limits),
        co2_g=_co2_g(t, limits),
        harsh_brake=int(t.harsh_brake),
        harsh_accelerate=int(t.harsh_accelerate),
        harsh_corner=int(t.harsh_corner),
        frames=int(t.frames),
    )


def _hexagon(where: Moment) -> str | None:
    if where.lat_deg is None or where.lon_deg is None:
        return None
    cell: str = h3.latlng_to_cell(where.lat_deg, where.lon_deg, OD_RESOLUTION)
    return cell


def _kmh(distance_m: float, time_s: float) -> float | None:
    return round(distance_m / time_s * KMH_PER_MPS, 2) if time_s > 0 else None


def _per_100_km(amount: float | None, distance_m: float, limits: JourneyLimits) -> float | None:
    if amount is None or distance_m < limits.least_distance_m:
        return None
    return round(amount / distance_m * PER_100_KM, 3)


def _co2_g(t: Totals, limits: JourneyLimits) -> float | None:
    """Out of the exhaust: nothing of an electric vehicle, not known of an unknown powertrain."""
    powertrain = None if t.powertrain is None else POWERTRAINS[int(t.powertrain)]
    if powertrain == "electric":
        return 0.0
    if t.fuel_l is None or powertrain is None:
        return None
    petrol, diesel = limits.co2_g_per_l
    return round(t.fuel_l * (diesel if powertrain == "diesel" else petrol), 1)


def _between(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else last - first


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
