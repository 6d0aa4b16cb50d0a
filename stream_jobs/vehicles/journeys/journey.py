"""All that is told of vehicles' journeys, a round at a time: harsh events first, because trips count them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

import msgspec
import numpy as np

from infra.settings.sections import Journeys
from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.vehicles.features import Round
from stream_jobs.vehicles.journeys import harsh, idling, trips
from stream_jobs.vehicles.journeys.harsh import HarshState
from stream_jobs.vehicles.journeys.idling import Idling
from stream_jobs.vehicles.journeys.motion import indices, positions
from stream_jobs.vehicles.journeys.trips import Memory, Trips
from stream_jobs.vehicles.rows import MS_PER_S, HarshRow, IdleRow, StopRow, TripRow, degrees

Row = TripRow | StopRow | IdleRow | HarshRow
_FIELDS: Final = np.dtype([*trips.FIELDS, *idling.FIELDS, ("harsh", "?")], align=True)
_WIDTH: Final = _FIELDS.itemsize // 8
"""Numbers of a vehicle; flags lie in some of them, as bytes."""


def _unknown(count: int) -> Floats:
    """Of vehicles of which nothing is known."""
    one = np.zeros(1, _FIELDS)
    for name in _FIELDS.names or ():
        if _FIELDS[name].base != np.bool_:
            one[name] = np.nan
    one["moved_ms"] = one["received_ms"] = 0.0
    return np.tile(one.view(np.float64), (count, 1))


class JourneyMemory(msgspec.Struct, array_like=True):
    """What is remembered of n vehicles' journeys, each at its place: numbers, and in ``harsh`` by place the
    few with harsh events or runs of late (those whose flag ``harsh`` is set).

    The numbers are kept plain, [n, _WIDTH], since numpy copies them 20 times as fast as fields.
    """

    numbers: Floats
    harsh: dict[int, HarshState] = {}

    @classmethod
    def of_unknown(cls, count: int) -> JourneyMemory:
        """Of vehicles of which nothing is known."""
        return cls(_unknown(count))

    def grow(self, count: int) -> None:
        """To ``count`` places, if there are fewer; of the new ones nothing is known."""
        new = count - len(self.numbers)
        if new > 0:
            self.numbers = np.concatenate((self.numbers, _unknown(new)))

    def keep(self, places: Ints) -> None:
        """Only these places stay, in this order."""
        self.numbers = self.numbers.take(places, axis=0)
        stay = enumerate(places.tolist())
        self.harsh = {new: self.harsh[old] for new, old in stay if old in self.harsh}

    def of(self, places: Ints) -> Memory:
        """A copy of what is remembered at ``places``, [k]."""
        memory: Memory = self.numbers.take(places, axis=0).view(_FIELDS)[:, 0]
        return memory

    def put(self, places: Ints, memory: Memory) -> None:
        """What is remembered at ``places`` from now on, [k]."""
        self.numbers[places] = memory.view(np.float64).reshape(-1, _WIDTH)


def step(memory: JourneyMemory, frames: Round, limits: Journeys) -> list[Row]:
    """Rows that follow from the next frame of each vehicle, in the order of what they tell of it."""
    of, here = memory.of(frames.places), positions(frames)
    of["received_ms"] = frames["received_ms"]
    rows: list[Row] = []
    begun: dict[int, list[int]] = {}
    with_runs = compress(range(len(frames.runs)), frames.runs)
    for i in sorted({*with_runs, *indices(of["harsh"]).tolist()}):
        place, of_class = int(frames.places[i]), frames["vehicle_class"][i]
        state = memory.harsh.pop(place, None) or HarshState()
        told, kinds = harsh.step(
            state, limits, frames.vehicle(i), frames.runs[i], int(frames["end_ms"][i]), degrees(here[i]),
            0 if np.isnan(of_class) else int(of_class),
        )  # fmt: skip
        rows += told
        if kinds:
            begun[i] = kinds
        of["harsh"][i] = bool(state)
        if state:
            memory.harsh[place] = state
    rows += Trips(limits, of, frames.vehicle).step(frames, here, begun)
    rows += Idling(limits, of, frames.vehicle).step(frames, here)
    memory.put(frames.places, of)
    return rows


def due_ms(memory: JourneyMemory, places: Ints, limits: Journeys) -> Floats:
    """When (receive clock) something is told although nothing more came, [k]; inf where nothing is."""
    of = memory.of(places)
    due = Trips(limits, of, str).due() | Idling(limits, of, str).due()
    for i in indices(of["harsh"]).tolist():
        due[i] |= bool(memory.harsh[int(places[i])].events)
    return np.where(due, of["received_ms"] + limits.end_s * MS_PER_S, np.inf)


def expire(
    memory: JourneyMemory, places: Ints, now_ms: Floats, vehicles: Sequence[str], limits: Journeys
) -> list[Row]:
    """What is told because nothing came up to ``now_ms`` ([k]); ``vehicles``: ids by place."""
    of = memory.of(places)
    silent = of["received_ms"] + limits.end_s * MS_PER_S < now_ms
    if not silent.any():
        return []

    def vehicle(i: int) -> str:
        return vehicles[int(places[i])]

    rows: list[Row] = []
    for i in indices(silent & of["harsh"]).tolist():
        if memory.harsh[int(places[i])].events:
            rows += harsh.expire(memory.harsh.pop(int(places[i])), limits, vehicle(i))
            of["harsh"][i] = False
    under_way, idle = Trips(limits, of, vehicle), Idling(limits, of, vehicle)
    rows += under_way.expire(indices(silent & under_way.due()))
    rows += idle.expire(indices(silent & idle.due()))
    memory.put(places, of)
    return rows
