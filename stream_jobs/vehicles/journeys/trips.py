"""Trips and the stops between them, by the times and distances of JourneyLimits; pure, a step a beat.

A trip begins with the first move after standing, and is one when it has come ``radius_m`` away from there. It
ends when the vehicle stands for ``end_ms`` (or for ``off_ms`` with the ignition off); its end is dated
back to when it first stood within the radius of that place. So what is driven within a car park, and what
a queue creeps, is no trip of its own and ends none. Where no frame tells, a vehicle within the radius has
stood, one beyond it has moved. Moves below ``least_move_m`` do not count.
"""

from __future__ import annotations

from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.motion import Way, unseen_m, way_of
from stream_jobs.vehicles.journeys.places import Place, apart_m, place
from stream_jobs.vehicles.journeys.rows import FINAL, OPEN, PROVISIONAL, StopRow, TripRow, stop_row, trip_row
from stream_jobs.vehicles.journeys.totals import with_beat, with_halt
from stream_jobs.vehicles.journeys.trip_state import Move, Stay, Stop, Trip, TripState

SEEN_MS = 1000
"""Frames so far apart still tell all of the time between them."""
BACK_MS = 60_000
"""A clock set back by more begins anew."""
DRIVEN_SHARE = 0.8
"""A position is believed to be so far away only where this share of the distance was driven."""


Rows = list[TripRow | StopRow]


class Trips:
    """The machine for one vehicle; what it remembers is in ``state``."""

    def __init__(self, limits: JourneyLimits, vehicle_id: str, state: TripState) -> None:
        self._limits = limits
        self._vehicle = vehicle_id
        self._state = state

    def step(self, beat: Beat, harsh: tuple[str, ...] = ()) -> Rows:
        """Rows that follow from the next beat; ``harsh`` are the kinds of harsh events that began in it."""
        state = self._state
        rows: Rows = []
        unseen = 0.0
        if state.end_ms is not None:
            gap_ms = beat.t0_ms - state.end_ms
            if gap_ms > self._limits.split_ms or gap_ms < -BACK_MS:
                rows += self._cut()
            elif gap_ms > SEEN_MS:
                unseen = unseen_m(state.where, state.odometer_m, beat, gap_ms, self._limits)
                rows += self._across(beat, unseen)
        rows += self._advance(beat, unseen, harsh)
        self._note(beat)
        return rows

    def due_ms(self) -> int | None:
        """When (receive clock) a trip that nothing more is heard of is told as over, provisionally."""
        trip = self._state.trip
        if trip is None or not trip.confirmed or trip.provisional:
            return None
        return self._state.received_ms + self._limits.end_ms

    def expire(self) -> Rows:
        """The trip as it seems to have ended; what comes later goes on with it."""
        trip = self._state.trip
        if trip is None or not trip.confirmed:
            return []
        trip.provisional = True
        return [self._row(trip, self._standing(), PROVISIONAL)]

    def _across(self, beat: Beat, unseen: float) -> Rows:
        """The time without frames before ``beat``: moved where it is elsewhere now, stood where it is not."""
        state = self._state
        away_m = apart_m(state.where, place(beat.lat_deg, beat.lon_deg))
        state.move = None
        if max(away_m or 0.0, unseen) > self._limits.radius_m and unseen > 0:
            state.moved_ms, state.stay, state.off_from_ms = beat.t0_ms, None, None
            state.where = None if state.trip is None else state.where
            return []
        return self._stand(beat.t0_ms)

    def _advance(self, beat: Beat, unseen: float, harsh: tuple[str, ...]) -> Rows:
        state = self._state
        way = way_of(state.fixed, beat, self._limits)
        if beat.moving_ms is not None or way.moves or state.fixed is None:
            state.fixed = place(beat.lat_deg, beat.lon_deg) or state.fixed
        if way.moves:
            unseen = unseen if state.trip is not None else 0.0
            self._begin(way, beat)
        if state.trip is not None:
            state.trip.provisional = False
            state.trip.totals = with_beat(state.trip.totals, beat, way.distance_m, unseen, harsh)
        rows = self._moved(way, beat) if way.moves else []
        if not way.moves or way.to_ms < beat.end_ms:
            self._halt()
            state.off_from_ms = (state.off_from_ms or beat.t0_ms) if beat.ignition_on is False else None
            state.where = place(beat.lat_deg, beat.lon_deg) or state.where
            rows += self._stand(beat.end_ms)
        return rows + self._told(beat)

    def _begin(self, way: Way, beat: Beat) -> None:
        state = self._state
        if state.move is None:
            state.move = Move(way.from_ms)
        if state.trip is None:
            start = state.where or place(beat.lat_deg, beat.lon_deg)
            state.trip = Trip(way.from_ms, start)

    def _moved(self, way: Way, beat: Beat) -> Rows:
        """A move goes on: it counts from ``least_move_m`` on, leaves a stay, makes a trip."""
        state, limits = self._state, self._limits
        trip, move = state.trip, state.move
        assert trip is not None
        assert move is not None
        move.distance_m += way.distance_m
        if move.distance_m < limits.least_move_m:
            return []
        if not move.counted:
            move.counted = True
            stood_ms = move.from_ms - state.moved_ms
            if state.moved_ms >= trip.start_ms and stood_ms >= limits.halt_ms:
                trip.totals = with_halt(trip.totals)
        state.moved_ms = way.to_ms
        now = place(beat.lat_deg, beat.lon_deg)
        stay = state.stay
        if stay is not None and self._left(stay.where, now, trip.totals.distance_m - stay.totals.distance_m):
            state.stay = None
        if not trip.confirmed and self._left(trip.start, now, trip.totals.distance_m):
            return self._confirm(trip)
        return []

    def _left(self, start: Place | None, now: Place | None, driven_m: float) -> bool:
        """Whether a vehicle that drove so far is out of the radius: a position that jumps is not believed."""
        away_m = apart_m(start, now)
        if away_m is None:
            return driven_m > self._limits.radius_m
        return away_m > self._limits.radius_m and driven_m > DRIVEN_SHARE * self._limits.radius_m

    def _confirm(self, trip: Trip) -> Rows:
        stop, self._state.stop = self._state.stop, None
        trip.confirmed = True
        return [] if stop is None else [stop_row(self._vehicle, stop.from_ms, trip.start_ms, stop.where)]

    def _halt(self) -> None:
        """The vehicle stands; a move too short to count was none."""
        state = self._state
        move, state.move = state.move, None
        trip = state.trip
        short = move is not None and not move.counted
        if short and move is not None and trip is not None and trip.start_ms == move.from_ms:
            state.trip = None

    def _stand(self, until_ms: int) -> Rows:
        """It stands until ``until_ms``; the end of a trip, where that is long enough."""
        state, limits = self._state, self._limits
        if state.trip is None:
            return []
        state.stay = stay = self._standing()
        off_ms = 0 if state.off_from_ms is None else until_ms - max(state.off_from_ms, state.moved_ms)
        if until_ms - state.moved_ms < limits.end_ms and off_ms < limits.off_ms:
            return []
        return self._end(stay)

    def _standing(self) -> Stay:
        state = self._state
        if state.stay is not None:
            return state.stay
        assert state.trip is not None
        return Stay(max(state.moved_ms, state.trip.start_ms), state.where, state.trip.totals)

    def _end(self, stay: Stay) -> Rows:
        state = self._state
        trip, state.trip, state.stay = state.trip, None, None
        if trip is None or not trip.confirmed:
            return []
        state.stop = Stop(stay.from_ms, stay.where)
        return [self._row(trip, stay, FINAL), stop_row(self._vehicle, stay.from_ms, None, stay.where)]

    def _cut(self) -> Rows:
        """Nothing ties what comes to what was."""
        rows = [] if self._state.trip is None else self._end(self._standing())
        self._state.move = self._state.off_from_ms = self._state.where = None
        self._state.fixed = self._state.odometer_m = None
        return rows

    def _told(self, beat: Beat) -> Rows:
        """The trip under way, now and then."""
        trip = self._state.trip
        if trip is None or not trip.confirmed or beat.end_ms - trip.told_ms < self._limits.report_ms:
            return []
        trip.told_ms = beat.end_ms
        now = Stay(self._state.moved_ms, place(beat.lat_deg, beat.lon_deg), trip.totals)
        return [self._row(trip, self._state.stay or now, OPEN)]

    def _row(self, trip: Trip, end: Stay, phase: str) -> TripRow:
        span = (trip.start_ms, end.from_ms)
        return trip_row(self._vehicle, phase, span, (trip.start, end.where), end.totals, self._limits)

    def _note(self, beat: Beat) -> None:
        state = self._state
        here = place(beat.lat_deg, beat.lon_deg)
        state.end_ms, state.received_ms = beat.end_ms, beat.received_ms
        state.where = here or state.where
        if beat.odometer_m is not None:
            state.odometer_m = beat.odometer_m
