"""What a delta-V curve of a crash record says: trigger, length of the pulse, what is left of it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.contract.frame import Frame

TRIGGER_KMH: Final = 8.0
TRIGGER_MS: Final = 150
ROUNDING_KMH: Final = 1.0
"""Points are whole km/h: a difference of two is off by less than this."""
BEFORE_ZERO_KMH: Final = {"long": 0.0, "lat": 1.0}
"""What may have gone by before time zero, which a lateral impact begins late by definition."""
RISE: Final = (0.1, 0.9)
POINT_MS: Final = 10


@dataclass(frozen=True, slots=True)
class Curve:
    """One axis, km/h. ``steepest_kmh``: the largest change within 150 ms. ``rise_ms``: from a tenth to nine
    tenths of the peak. ``kept``: the share of the peak that is left at the end.
    """

    axis: str
    points: int
    peak_kmh: float
    steepest_kmh: float
    rise_ms: float
    kept: float

    @property
    def triggers(self) -> bool:
        """Whether it reaches 8 km/h within 150 ms, as far as its resolution can tell."""
        return self.steepest_kmh >= TRIGGER_KMH - ROUNDING_KMH - BEFORE_ZERO_KMH[self.axis]


def curves(record: Frame) -> list[Curve]:
    """The axes that a record has a curve of; none where it holds no numbers."""
    named = (("long", "delta_v_kmh"), ("lat", "delta_v_lat_kmh"))
    dt_ms = number(record.get("delta_v_dt_ms")) or POINT_MS
    found = [(axis, numbers(record.get(key))) for axis, key in named]
    return [_curve(axis, points, dt_ms) for axis, points in found if points]


def deployed(record: Frame) -> bool | None:
    """Whether an air bag or another restraint that does not reverse fired; None where nothing tells."""
    restraints = record.get("restraints_ms")
    fired = type(restraints) is dict and any(number(ms) is not None for ms in restraints.values())
    if fired or record.get("airbag_deployed") is True or record.get("locked") is True:
        return True
    return False if record.get("airbag_deployed") is False else None


def numbers(value: Any) -> list[float] | None:
    """An array of numbers, else None."""
    if type(value) is not list or any(number(v) is None for v in value):
        return None
    return [float(v) for v in value]


def number(value: Any) -> float | None:
    """A number, else None: true and false are none."""
    return float(value) if type(value) in (int, float) else None


def _curve(axis: str, points: Sequence[float], dt_ms: float) -> Curve:
    peak = max(points, key=abs)
    lag = max(1, int(TRIGGER_MS // dt_ms))
    steepest = max(
        (
            abs(points[j] - points[i])
            for i in range(len(points))
            for j in range(i, min(i + lag, len(points) - 1) + 1)
        ),
        default=0.0,
    )
    if peak == 0:
        return Curve(axis, len(points), 0.0, steepest, 0.0, 0.0)
    sized = [point / peak for point in points]
    begin, end = (next(k for k, share in enumerate(sized) if share >= level) for level in RISE)
    return Curve(axis, len(points), peak, steepest, (end - begin) * dt_ms, sized[-1])
