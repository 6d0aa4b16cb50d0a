"""Thresholds of the journeys, from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from infra.settings.settings import Settings

MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class JourneyLimits:
    """Distances in m, times in ms, speeds in km/h; harsh thresholds in g by kind, then class."""

    radius_m: float
    end_ms: int
    split_ms: int
    off_ms: int
    least_move_m: float
    halt_ms: int
    idle_ms: int
    report_ms: int
    least_distance_m: float
    noise_m: float
    top_kmh: float
    harsh_g: tuple[tuple[float, ...], ...]
    harsh_least_ms: int
    harsh_merge_ms: int
    grades: tuple[float, ...]
    co2_g_per_l: tuple[float, float]


def journey_limits(settings: Settings) -> JourneyLimits:
    """The thresholds in force."""
    s = settings.journeys
    return JourneyLimits(
        radius_m=s.radius_m,
        end_ms=s.end_s * MS_PER_S,
        split_ms=s.split_s * MS_PER_S,
        off_ms=s.ignition_off_s * MS_PER_S,
        least_move_m=s.least_move_m,
        halt_ms=s.halt_s * MS_PER_S,
        idle_ms=s.idle_s * MS_PER_S,
        report_ms=s.report_s * MS_PER_S,
        least_distance_m=s.consumption_from_m,
        noise_m=s.noise_m,
        top_kmh=s.top_kmh,
        harsh_g=(s.brake_g, s.accelerate_g, s.corner_g),
        harsh_least_ms=s.harsh_least_ms,
        harsh_merge_ms=s.harsh_merge_ms,
        grades=s.harsh_grades,
        co2_g_per_l=s.co2_g_per_l,
    )
