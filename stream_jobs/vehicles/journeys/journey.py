"""All that is told of one vehicle's journeys: harsh events first, because trips count them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.journeys.harsh import HarshEvents, HarshState
from stream_jobs.vehicles.journeys.idling import IdleEpisodes, IdleState
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.rows import HarshRow, IdleRow, StopRow, TripRow
from stream_jobs.vehicles.journeys.trip_state import TripState
from stream_jobs.vehicles.journeys.trips import Trips

Row = TripRow | StopRow | IdleRow | HarshRow


class JourneyState(msgspec.Struct, array_like=True):
    """What is remembered of one vehicle's journeys."""

    trips: TripState = msgspec.field(default_factory=TripState)
    idle: IdleState = msgspec.field(default_factory=IdleState)
    harsh: HarshState = msgspec.field(default_factory=HarshState)


def step(state: JourneyState, beat: Beat, limits: JourneyLimits) -> Iterator[Row]:
    """Rows that follow from the next beat."""
    events, begun = HarshEvents(limits, beat.vehicle_id, state.harsh).step(beat)
    yield from events
    yield from Trips(limits, beat.vehicle_id, state.trips).step(beat, begun)
    yield from IdleEpisodes(limits, beat.vehicle_id, state.idle).step(beat)


def due_ms(state: JourneyState, limits: JourneyLimits) -> int | None:
    """When (receive clock) something is told although nothing more came."""
    moments = [machine.due_ms() for machine in _machines(state, "", limits)]
    return min((moment for moment in moments if moment is not None), default=None)


def expire(state: JourneyState, vehicle_id: str, now_ms: int, limits: JourneyLimits) -> Iterator[Row]:
    """What is told because nothing came up to ``now_ms``."""
    if now_ms <= state.trips.received_ms + limits.end_ms:  # none of them is due sooner after the last beat
        return
    for machine in _machines(state, vehicle_id, limits):
        moment_ms = machine.due_ms()
        if moment_ms is not None and moment_ms < now_ms:
            yield from machine.expire()


def _machines(
    state: JourneyState, vehicle_id: str, limits: JourneyLimits
) -> tuple[HarshEvents, Trips, IdleEpisodes]:
    return (
        HarshEvents(limits, vehicle_id, state.harsh),
        Trips(limits, vehicle_id, state.trips),
        IdleEpisodes(limits, vehicle_id, state.idle),
    )
