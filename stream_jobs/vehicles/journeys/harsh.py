"""Harsh events out of the runs of samples in each frame, across the frames' borders; pure, by vehicle.

A run is samples on end beyond the threshold, wherever frames are cut. From ``harsh_least_ms`` on it is an
event; a run that is one and begins within ``harsh_merge_ms`` of an event's end goes on with it. Runs are
rare: most vehicles remember none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infra.settings.sections import Journeys
from stream_jobs.vehicles.features import G_MPS2, KINDS, RUN
from stream_jobs.vehicles.rows import HarshRow


class Run(msgspec.Struct, array_like=True):
    """Samples on end beyond the threshold, or an event, which may still go on.

    ``peak_mps2`` is a magnitude, ``speed_kmh`` that of the first sample.
    """

    from_ms: int
    to_ms: int
    peak_mps2: float
    speed_kmh: float


class Event(Run):
    """An event that may still go on; ``of_class``: the vehicle's place in CLASSES."""

    lat_deg: float | None
    lon_deg: float | None
    of_class: int


class HarshState(msgspec.Struct, array_like=True):
    """The last run and the open event of each kind (its place in KINDS)."""

    runs: dict[int, Run] = {}
    events: dict[int, Event] = {}

    def __bool__(self) -> bool:
        return bool(self.runs or self.events)


def step(
    state: HarshState, limits: Journeys, vehicle: str, runs: Sequence[float], end_ms: int,
    where: Sequence[float | None], of_class: int,
) -> tuple[list[HarshRow], list[int]]:  # fmt: skip
    """Events of one vehicle that are over, and the kinds of those that began.

    ``runs`` of the next frame: RUN numbers each; ``end_ms``: its end; ``where``: degrees.
    """
    rows: list[HarshRow] = []
    begun: list[int] = []
    for k in range(0, len(runs), RUN):
        kind, from_ms, to_ms = map(int, runs[k : k + 3])
        peak, kmh = runs[k + 3 : k + RUN]
        before = state.runs.get(kind)
        if before is not None and before.to_ms == from_ms:  # no sample lies between them
            from_ms, peak, kmh = before.from_ms, max(before.peak_mps2, peak), before.speed_kmh
        state.runs[kind] = Run(from_ms, to_ms, peak, kmh)
        event = state.events.get(kind)
        if to_ms - from_ms < limits.harsh_least_ms:
            continue
        if event is not None and from_ms - event.to_ms <= limits.harsh_merge_ms:
            event.to_ms, event.peak_mps2 = to_ms, max(event.peak_mps2, peak)
            continue
        if event is not None:
            rows.append(_row(limits, vehicle, kind, event))
        state.events[kind] = Event(from_ms, to_ms, peak, kmh, where[0], where[1], of_class)
        begun.append(kind)
    state.runs = {kind: run for kind, run in state.runs.items() if run.to_ms >= end_ms}
    over = {}
    for kind, event in state.events.items():  # a run under way that began in time may still be merged
        run, last_ms = state.runs.get(kind), event.to_ms + limits.harsh_merge_ms
        if end_ms > last_ms and (run is None or run.from_ms > last_ms):
            over[kind] = event
    state.events = {kind: event for kind, event in state.events.items() if kind not in over}
    return rows + [_row(limits, vehicle, *each) for each in over.items()], begun


def expire(state: HarshState, limits: Journeys, vehicle: str) -> list[HarshRow]:
    """All that is open."""
    events, state.events, state.runs = state.events, {}, {}
    return [_row(limits, vehicle, *each) for each in events.items()]


def _row(limits: Journeys, vehicle: str, kind: int, event: Event) -> HarshRow:
    limit_g = (limits.brake_g, limits.accelerate_g, limits.corner_g)[kind][event.of_class]
    peak_g = event.peak_mps2 / G_MPS2
    return HarshRow(
        vehicle_id=vehicle,
        began_ms=event.from_ms,
        ended_ms=event.to_ms,
        kind=KINDS[kind],
        grade=1 + sum(peak_g >= grade * limit_g for grade in limits.harsh_grades),
        peak_g=round(peak_g, 3),
        limit_g=limit_g,
        speed_kmh=event.speed_kmh,
        lat_deg=event.lat_deg,
        lon_deg=event.lon_deg,
    )
