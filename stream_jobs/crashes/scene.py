"""What telemetry shows around a crash record: the vehicle's own windows and those of others nearby; pure.

Three answers, each True, False or None (not known): did its speed collapse, does it stand still afterwards,
did others slow down in the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.settings.job_sections import Crash

KMH_PER_MPS: Final = 3.6
AFTER_MS: Final = 40_000
"""So long after the event a collapse of the speed belongs to it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a vehicle; times in ms since 1970. None where no sample tells."""

    vehicle_id: str
    start_ms: int
    end_ms: int
    speed_max_kmh: float | None
    speed_last_kmh: float | None
    distance_m: float | None
    moving_s: float | None
    idle_s: float | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Others near the place, before and after: how many vehicles, and their space-mean speed."""

    vehicles_before: int
    speed_before_kmh: float | None
    vehicles_after: int
    speed_after_kmh: float | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the windows show."""

    speed_before_kmh: float | None
    speed_after_kmh: float | None
    """The largest speed of the slowest whole window within 40 s after the event."""
    moved_after_m: float | None
    """Way driven from ``still_from_s`` to ``still_to_s`` after the event."""
    collapsed: bool | None
    stands: bool | None
    traffic: Traffic
    others_slowed: bool | None


def seen(event_ms: int, own: Sequence[Window], others: Sequence[Window], terms: Crash) -> Seen:
    """What the windows around an event show; windows of any order, ``others`` within reach of the place."""
    before = _speed_before(event_ms, own)
    after = _after(event_ms, own)
    speed_after = min((w.speed_max_kmh for w in after if w.speed_max_kmh is not None), default=None)
    ways = [w.distance_m for w in _still_windows(event_ms, own, terms) if w.distance_m is not None]
    moved = sum(ways) if ways else None
    traffic = _traffic(event_ms, others)
    return Seen(
        speed_before_kmh=before,
        speed_after_kmh=speed_after,
        moved_after_m=moved,
        collapsed=_collapsed(before, speed_after, terms),
        stands=None if moved is None else moved <= terms.still_m,
        traffic=traffic,
        others_slowed=_slowed(traffic, terms),
    )


def _speed_before(event_ms: int, own: Sequence[Window]) -> float | None:
    """The last known speed of the last whole window before the event; without one, its own's largest."""
    whole = [w for w in own if w.end_ms <= event_ms and w.speed_last_kmh is not None]
    if whole:
        return max(whole, key=lambda w: w.start_ms).speed_last_kmh
    at = [w for w in own if w.start_ms <= event_ms < w.end_ms]
    return at[0].speed_max_kmh if at else None


def _after(event_ms: int, own: Sequence[Window]) -> list[Window]:
    """The whole windows in which a collapse can show."""
    return [w for w in own if w.start_ms > event_ms and w.end_ms - event_ms <= AFTER_MS]


def _collapsed(before: float | None, after: float | None, terms: Crash) -> bool | None:
    """None where it stood before: what stands has no speed to lose."""
    if before is None or after is None or before < terms.driving_kmh:
        return None
    return after <= before * terms.collapse_share


def _still_windows(event_ms: int, own: Sequence[Window], terms: Crash) -> list[Window]:
    begin_ms, end_ms = event_ms + terms.still_from_s * 1000, event_ms + terms.still_to_s * 1000
    return [w for w in own if w.end_ms > begin_ms and w.start_ms < end_ms and w.start_ms > event_ms]


def _traffic(event_ms: int, others: Sequence[Window]) -> Traffic:
    before = [w for w in others if w.end_ms <= event_ms]
    after = [w for w in others if w.start_ms > event_ms]
    counts = [len({w.vehicle_id for w in part}) for part in (before, after)]
    return Traffic(counts[0], _speed_kmh(before), counts[1], _speed_kmh(after))


def _speed_kmh(windows: Sequence[Window]) -> float | None:
    """Way over time, standing included; parked vehicles have neither."""
    told = [w for w in windows if w.distance_m is not None]
    metres = sum(w.distance_m or 0.0 for w in told)
    seconds = sum((w.moving_s or 0.0) + (w.idle_s or 0.0) for w in told)
    return metres / seconds * KMH_PER_MPS if seconds > 0 else None


def _slowed(traffic: Traffic, terms: Crash) -> bool | None:
    before, after = traffic.speed_before_kmh, traffic.speed_after_kmh
    few = min(traffic.vehicles_before, traffic.vehicles_after) < terms.others
    if few or before is None or after is None:
        return None
    return after <= before * terms.slowed_share
