"""What is remembered of one vehicle's trips and stops between two frames."""

from __future__ import annotations

import msgspec

from stream_jobs.vehicles.journeys.places import Place
from stream_jobs.vehicles.journeys.totals import Totals


class Move(msgspec.Struct, array_like=True):
    """What a vehicle does since it stood; ``counted`` once it is long enough."""

    from_ms: int
    distance_m: float = 0.0
    counted: bool = False


class Stay(msgspec.Struct, frozen=True, array_like=True):
    """Where and since when a vehicle stands or creeps, and what the trip was up to then."""

    from_ms: int
    where: Place | None
    totals: Totals


class Trip(msgspec.Struct, array_like=True):
    """A trip, or what may become one (not ``confirmed``); ``told_ms``: when it was last told."""

    start_ms: int
    start: Place | None
    totals: Totals = Totals()
    confirmed: bool = False
    told_ms: int = 0
    provisional: bool = False


class Stop(msgspec.Struct, frozen=True, array_like=True):
    """The stop that a vehicle makes."""

    from_ms: int
    where: Place | None


class TripState(msgspec.Struct, array_like=True):
    """What is remembered of one vehicle's way; ``fixed`` is the last position that a way was measured
    from.
    """

    trip: Trip | None = None
    stay: Stay | None = None
    stop: Stop | None = None
    move: Move | None = None
    moved_ms: int = 0
    off_from_ms: int | None = None
    end_ms: int | None = None
    where: Place | None = None
    fixed: Place | None = None
    odometer_m: float | None = None
    received_ms: int = 0
