"""What is summed up over the frames of a trip."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.harsh_runs import KINDS


class Totals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Sums; what no frame told is None. ``unseen_m`` is the part of ``distance_m`` that no frame saw."""

    frames: int = 0
    distance_m: float = 0.0
    unseen_m: float = 0.0
    moving_ms: int = 0
    idle_ms: int = 0
    speeding_ms: int | None = None
    speed_max_kmh: float | None = None
    fuel_l: float | None = None
    energy_kwh: float | None = None
    halts: int = 0
    harsh: tuple[int, ...] = (0,) * len(KINDS)
    odometer_from_m: float | None = None
    odometer_to_m: float | None = None
    powertrain: str | None = None


def with_beat(t: Totals, beat: Beat, moved_m: float, unseen_m: float, harsh: tuple[str, ...]) -> Totals:
    """``t`` and a frame: its way ``moved_m``, the way ``unseen_m`` before it, the ``harsh`` events begun
    in it.
    """
    span_ms = beat.end_ms - beat.t0_ms
    moving_ms = beat.moving_ms or 0
    standing_ms = span_ms - moving_ms if beat.moving_ms is not None and beat.ignition_on else 0
    return Totals(
        frames=t.frames + 1,
        distance_m=t.distance_m + moved_m + unseen_m,
        unseen_m=t.unseen_m + unseen_m,
        moving_ms=t.moving_ms + moving_ms,
        idle_ms=t.idle_ms + standing_ms,
        speeding_ms=_plus(t.speeding_ms, beat.speeding_ms),
        speed_max_kmh=_most(t.speed_max_kmh, beat.speed_max_kmh),
        fuel_l=_plus(t.fuel_l, beat.fuel_l),
        energy_kwh=_plus(t.energy_kwh, beat.energy_kwh),
        halts=t.halts,
        harsh=_counted(t.harsh, harsh) if harsh else t.harsh,
        odometer_from_m=beat.odometer_m if t.odometer_from_m is None else t.odometer_from_m,
        odometer_to_m=t.odometer_to_m if beat.odometer_m is None else beat.odometer_m,
        powertrain=beat.powertrain or t.powertrain,
    )


def with_halt(t: Totals) -> Totals:
    """``t`` and a standstill on the way."""
    return msgspec.structs.replace(t, halts=t.halts + 1)


Number = TypeVar("Number", int, float)


def _plus(a: Number | None, b: Number | None) -> Number | None:
    if b is None:
        return a
    return b if a is None else a + b


def _most(a: float | None, b: float | None) -> float | None:
    if b is None:
        return a
    return b if a is None else max(a, b)


def _counted(counts: tuple[int, ...], kinds: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(n + kinds.count(kind) for n, kind in zip(counts, KINDS, strict=True))
