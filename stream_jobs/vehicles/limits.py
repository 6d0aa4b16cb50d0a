"""The settings of this query in the units of its parts."""

from __future__ import annotations

from infra.settings.settings import Settings
from stream_jobs.vehicles.core import CoreLimits
from stream_jobs.vehicles.frame_features import HarshLimits
from stream_jobs.vehicles.journeys.limits import journey_limits
from stream_jobs.vehicles.sequencer import Patience

MS_PER_S = 1000
MS_PER_H = 3_600_000


def core_limits(settings: Settings) -> CoreLimits:
    """What the core must know."""
    jobs = settings.jobs
    patience = Patience(jobs.lateness_s * MS_PER_S, jobs.reorder_buffer_frames)
    return CoreLimits(patience, jobs.state_ttl_h * MS_PER_H, journey_limits(settings))


def harsh_limits(settings: Settings) -> HarshLimits:
    """Thresholds and gates of harsh driving."""
    limits = settings.journeys
    least_g = tuple(tuple(row) for row in (limits.brake_g, limits.accelerate_g, limits.corner_g))
    gates = (limits.harsh_gate_kmh, limits.harsh_gate_kmh, limits.corner_gate_kmh)
    return HarshLimits(least_g, gates)
