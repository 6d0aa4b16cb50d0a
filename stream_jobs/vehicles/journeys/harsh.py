"""Harsh events out of the runs of samples in each frame, across the frames' borders; pure.

A run is samples on end beyond the threshold, wherever frames are cut. From ``harsh_least_ms`` on it is an
event; a run that is one and begins within ``harsh_merge_ms`` of an event's end goes on with it.
"""

from __future__ import annotations

import msgspec

from stream_jobs.vehicles.beat import Beat, HarshRun
from stream_jobs.vehicles.facts import CLASSES
from stream_jobs.vehicles.harsh_runs import G_MPS2, KINDS
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.places import Place, place
from stream_jobs.vehicles.journeys.rows import HarshRow, degrees


class Event(msgspec.Struct, array_like=True):
    """An event that may still go on."""

    from_ms: int
    to_ms: int
    peak_mps2: float
    speed_kmh: float
    where: Place | None
    vehicle_class: str | None


class HarshState(msgspec.Struct, array_like=True):
    """The last run and the open event of each kind."""

    runs: dict[str, HarshRun] = {}
    events: dict[str, Event] = {}
    received_ms: int = 0


class HarshEvents:
    """The machine for one vehicle; what it remembers is in ``state``."""

    def __init__(self, limits: JourneyLimits, vehicle_id: str, state: HarshState) -> None:
        self._limits = limits
        self._vehicle = vehicle_id
        self._state = state

    def step(self, beat: Beat) -> tuple[list[HarshRow], tuple[str, ...]]:
        """Events that are over, and the kinds of those that began."""
        state = self._state
        state.received_ms = beat.received_ms
        if not beat.harsh and not state.events and not state.runs:
            return [], ()
        rows: list[HarshRow] = []
        begun: list[str] = []
        for piece in beat.harsh:
            run = self._joined(piece)
            state.runs[run.what] = run
            if run.to_ms - run.from_ms >= self._limits.harsh_least_ms:
                rows += self._count(run, beat, begun)
        rows += self._over(beat.end_ms)
        return rows, tuple(begun)

    def due_ms(self) -> int | None:
        """When (receive clock) open events are told although nothing more came."""
        return self._state.received_ms + self._limits.end_ms if self._state.events else None

    def expire(self) -> list[HarshRow]:
        """All that is open."""
        events, self._state.events, self._state.runs = self._state.events, {}, {}
        return [self._row(kind, event) for kind, event in events.items()]

    def _joined(self, run: HarshRun) -> HarshRun:
        """The run with the one before, where no sample lies between them."""
        before = self._state.runs.get(run.what)
        if before is None or before.to_ms != run.from_ms:
            return run
        peak = max(before.peak_mps2, run.peak_mps2)
        return HarshRun(run.what, before.from_ms, run.to_ms, peak, before.speed_kmh)

    def _count(self, run: HarshRun, beat: Beat, begun: list[str]) -> list[HarshRow]:
        state = self._state
        event = state.events.get(run.what)
        if event is not None and run.from_ms - event.to_ms <= self._limits.harsh_merge_ms:
            event.to_ms = run.to_ms
            event.peak_mps2 = max(event.peak_mps2, run.peak_mps2)
            return []
        where = place(beat.lat_deg, beat.lon_deg)
        state.events[run.what] = Event(
            run.from_ms, run.to_ms, run.peak_mps2, run.speed_kmh, where, beat.vehicle_class
        )
        begun.append(run.what)
        return [] if event is None else [self._row(run.what, event)]

    def _over(self, now_ms: int) -> list[HarshRow]:
        """Events that nothing can be merged into any more; runs that nothing can join any more."""
        state = self._state
        state.runs = {kind: run for kind, run in state.runs.items() if run.to_ms >= now_ms}
        over = {kind: event for kind, event in state.events.items() if self._closed(kind, event, now_ms)}
        state.events = {kind: event for kind, event in state.events.items() if kind not in over}
        return [self._row(kind, event) for kind, event in over.items()]

    def _closed(self, kind: str, event: Event, now_ms: int) -> bool:
        """A run under way that began in time may still become part of the event."""
        merge_ms = self._limits.harsh_merge_ms
        run = self._state.runs.get(kind)
        waits = run is not None and run.from_ms - event.to_ms <= merge_ms
        return now_ms - event.to_ms > merge_ms and not waits

    def _row(self, kind: str, event: Event) -> HarshRow:
        limit_g = self._limits.harsh_g[KINDS.index(kind)][CLASSES.index(event.vehicle_class or CLASSES[0])]
        peak_g = event.peak_mps2 / G_MPS2
        return HarshRow(
            vehicle_id=self._vehicle,
            began_ms=event.from_ms,
            ended_ms=event.to_ms,
            kind=kind,
            grade=1 + sum(peak_g >= grade * limit_g for grade in self._limits.grades),
            peak_g=round(peak_g, 3),
            limit_g=limit_g,
            speed_kmh=event.speed_kmh,
            lat_deg=degrees(event.where)[0],
            lon_deg=degrees(event.where)[1],
        )
