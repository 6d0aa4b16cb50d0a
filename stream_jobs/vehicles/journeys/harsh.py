"""Harsh events out of the runs of samples in each frame, across the frames' borders; pure, by vehicle.

A run is samples on end beyond the threshold, wherever frames are cut. From ``harsh_least_ms`` on it is an
event; a run that is one and begins within ``harsh_merge_ms`` of an event's end goes on with it. Runs are
rare: most vehicles remember none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stream_jobs.vehicles.frame_features import G_MPS2, KINDS, RUN
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.rows import HarshRow


class Run(msgspec.Struct, array_like=True):
    """Samples on end beyond the threshold, or an event, which may still go on.

    ``peak_mps2`` is a magnitude, ``speed_kmh`` that of the first sample.
    """

    from_ms: int
    to_ms: int
    peak_mps2: float
    speed_kmh: float


class Event(Run):
    """An event that may still go on; ``of_class``: the vehicle's place in frame_features.CLASSES."""

    lat_deg: float | None
    lon_deg: float | None
    of_class: int


class HarshState(msgspec.Struct, array_like=True):
    """The last run and the open event of each kind (its place in frame_features.KINDS)."""

    runs: dict[int, Run] = {}
    events: dict[int, Event] = {}

    def __bool__(self) -> bool:
        return bool(self.runs or self.events)


class HarshEvents:
    """The machine for one vehicle; what it remembers is in ``state``."""

    def __init__(self, limits: JourneyLimits, vehicle_id: str, state: HarshState) -> None:
        self._limits = limits
        self._vehicle = vehicle_id
        self._state = state

    def step(
        self, runs: Sequence[float], end_ms: int, where: Sequence[float | None], of_class: int
    ) -> tuple[list[HarshRow], list[int]]:
        """Events that are over, and the kinds of those that began.

        ``runs`` of the next frame: frame_features.RUN numbers each; ``end_ms``: its end; ``where``: degrees.
        """
        state = self._state
        rows: list[HarshRow] = []
        begun: list[int] = []
        for k in range(0, len(runs), RUN):
            kind = int(runs[k])
            run = self._joined(kind, Run(int(runs[k + 1]), int(runs[k + 2]), runs[k + 3], runs[k + 4]))
            state.runs[kind] = run
            if run.to_ms - run.from_ms < self._limits.harsh_least_ms or self._goes_on(kind, run):
                continue
            if kind in state.events:
                rows.append(self._row(kind, state.events[kind]))
            first = (run.from_ms, run.to_ms, run.peak_mps2, run.speed_kmh)
            state.events[kind] = Event(*first, where[0], where[1], of_class)
            begun.append(kind)
        return rows + self._over(end_ms), begun

    def expire(self) -> list[HarshRow]:
        """All that is open."""
        events, self._state.events, self._state.runs = self._state.events, {}, {}
        return [self._row(kind, event) for kind, event in events.items()]

    def _joined(self, kind: int, run: Run) -> Run:
        """The run with the one before, where no sample lies between them."""
        before = self._state.runs.get(kind)
        if before is None or before.to_ms != run.from_ms:
            return run
        return Run(before.from_ms, run.to_ms, max(before.peak_mps2, run.peak_mps2), before.speed_kmh)

    def _goes_on(self, kind: int, run: Run) -> bool:
        """Whether the open event goes on with the run."""
        event = self._state.events.get(kind)
        if event is None or run.from_ms - event.to_ms > self._limits.harsh_merge_ms:
            return False
        event.to_ms = run.to_ms
        event.peak_mps2 = max(event.peak_mps2, run.peak_mps2)
        return True

    def _over(self, now_ms: int) -> list[HarshRow]:
        """Events that nothing can be merged into any more; runs that nothing can join any more."""
        state = self._state
        state.runs = {kind: run for kind, run in state.runs.items() if run.to_ms >= now_ms}
        over = {kind: event for kind, event in state.events.items() if self._closed(kind, event, now_ms)}
        state.events = {kind: event for kind, event in state.events.items() if kind not in over}
        return [self._row(kind, event) for kind, event in over.items()]

    def _closed(self, kind: int, event: Event, now_ms: int) -> bool:
        """A run under way that began in time may still become part of the event."""
        merge_ms = self._limits.harsh_merge_ms
        run = self._state.runs.get(kind)
        waits = run is not None and run.from_ms - event.to_ms <= merge_ms
        return now_ms - event.to_ms > merge_ms and not waits

    def _row(self, kind: int, event: Event) -> HarshRow:
        limit_g = self._limits.harsh_g[kind][event.of_class]
        peak_g = event.peak_mps2 / G_MPS2
        return HarshRow(
            vehicle_id=self._vehicle,
            began_ms=event.from_ms,
            ended_ms=event.to_ms,
            kind=KINDS[kind],
            grade=1 + sum(peak_g >= grade * limit_g for grade in self._limits.grades),
            peak_g=round(peak_g, 3),
            limit_g=limit_g,
            speed_kmh=event.speed_kmh,
            lat_deg=event.lat_deg,
            lon_deg=event.lon_deg,
        )
