"""All that is told of vehicles' journeys, a round at a time: harsh events first, because trips count them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final

import msgspec
import numpy as np

from infra.settings.job_sections import Journeys
from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.vehicles.features import Round
from stream_jobs.vehicles.journeys import idling, trips
from stream_jobs.vehicles.journeys.harsh import HarshEvents, HarshState
from stream_jobs.vehicles.journeys.idling import Idling
from stream_jobs.vehicles.journeys.motion import Positions, indices, positions
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


class _Packed(msgspec.Struct, array_like=True):
    numbers: bytes
    harsh: dict[int, HarshState]


_PACKED: Final = msgspec.msgpack.Decoder(_Packed)


class JourneyMemory:
    """What is remembered of n vehicles' journeys, each at its place: numbers, and by place the few with harsh
    events or runs of late (those whose flag ``harsh`` is set).

    The numbers are kept plain, [n, _WIDTH], since numpy copies them 20 times as fast as fields.
    """

    def __init__(self, count: int = 0) -> None:
        self._numbers = _unknown(count)
        self._harsh: dict[int, HarshState] = {}

    def grow(self, count: int) -> None:
        """To ``count`` places, if there are fewer; of the new ones nothing is known."""
        new = count - len(self._numbers)
        if new > 0:
            self._numbers = np.concatenate((self._numbers, _unknown(new)))

    def keep(self, places: Ints) -> None:
        """Only these places stay, in this order."""
        self._numbers = self._numbers.take(places, axis=0)
        states = enumerate(map(self._harsh.get, places.tolist()))
        self._harsh = {place: state for place, state in states if state is not None}

    def dump(self) -> bytes:
        """All of it as bytes."""
        return msgspec.msgpack.encode(_Packed(self._numbers.tobytes(), self._harsh))

    @classmethod
    def load(cls, body: bytes) -> JourneyMemory:
        """What ``dump`` made bytes of."""
        packed, memory = _PACKED.decode(body), cls()
        memory._numbers = np.frombuffer(packed.numbers).reshape(-1, _WIDTH).copy()
        memory._harsh = packed.harsh
        return memory

    def of(self, places: Ints) -> Memory:
        """A copy of what is remembered at ``places``, [k]."""
        memory: Memory = self._numbers.take(places, axis=0).view(_FIELDS)[:, 0]
        return memory

    def put(self, places: Ints, memory: Memory) -> None:
        """What is remembered at ``places`` from now on, [k]."""
        self._numbers[places] = memory.view(np.float64).reshape(-1, _WIDTH)

    def harsh(self, place: int) -> HarshState:
        """What is remembered of harsh events there."""
        return self._harsh.get(place) or HarshState()

    def put_harsh(self, place: int, state: HarshState) -> None:
        """What is remembered of harsh events there from now on."""
        self._harsh.pop(place, None)
        if state:
            self._harsh[place] = state


def step(memory: JourneyMemory, frames: Round, limits: Journeys) -> list[Row]:
    """Rows that follow from the next frame of each vehicle, in the order of what they tell of it."""
    of, vehicle = memory.of(frames.places), _ids(frames.places, frames.vehicles)
    here = positions(frames)
    of["received_ms"] = frames["received_ms"]
    events, begun = _harsh_events(memory, of, frames, here, limits)
    rows: list[Row] = [
        *events,
        *Trips(limits, of, vehicle).step(frames, here, begun),
        *Idling(limits, of, vehicle).step(frames, here),
    ]
    memory.put(frames.places, of)
    return rows


def due_ms(memory: JourneyMemory, places: Ints, limits: Journeys) -> Floats:
    """When (receive clock) something is told although nothing more came, [k]; inf where nothing is."""
    of = memory.of(places)
    due = Trips(limits, of, str).due() | Idling(limits, of, str).due()
    for i in indices(of["harsh"]).tolist():
        due[i] |= bool(memory.harsh(int(places[i])).events)
    return np.where(due, of["received_ms"] + limits.end_s * MS_PER_S, np.inf)


def expire(
    memory: JourneyMemory, places: Ints, now_ms: Floats, vehicles: Sequence[str], limits: Journeys
) -> list[Row]:
    """What is told because nothing came up to ``now_ms`` ([k]); ``vehicles``: ids by place."""
    of, vehicle = memory.of(places), _ids(places, vehicles)
    silent = of["received_ms"] + limits.end_s * MS_PER_S < now_ms
    if not silent.any():
        return []
    rows: list[Row] = []
    for i in indices(silent & of["harsh"]).tolist():
        state = memory.harsh(int(places[i]))
        if state.events:
            rows += HarshEvents(limits, vehicle(i), state).expire()
            memory.put_harsh(int(places[i]), state)
            of["harsh"][i] = False
    under_way, idle = Trips(limits, of, vehicle), Idling(limits, of, vehicle)
    rows += under_way.expire(indices(silent & under_way.due()))
    rows += idle.expire(indices(silent & idle.due()))
    memory.put(places, of)
    return rows


def _harsh_events(
    memory: JourneyMemory, of: Memory, frames: Round, here: Positions, limits: Journeys
) -> tuple[list[HarshRow], dict[int, list[int]]]:
    """Events that are over, and by index the kinds of those that began."""
    rows: list[HarshRow] = []
    begun: dict[int, list[int]] = {}
    with_runs = compress(range(len(frames.runs)), frames.runs)
    for i in sorted({*with_runs, *indices(of["harsh"]).tolist()}):
        place, of_class = int(frames.places[i]), frames["vehicle_class"][i]
        state = memory.harsh(place)
        told, kinds = HarshEvents(limits, frames.vehicles[place], state).step(
            frames.runs[i],
            int(frames["end_ms"][i]),
            degrees(here[i]),
            0 if np.isnan(of_class) else int(of_class),
        )
        rows += told
        if kinds:
            begun[i] = kinds
        memory.put_harsh(place, state)
        of["harsh"][i] = bool(state)
    return rows, begun


def _ids(places: Ints, vehicles: Sequence[str]) -> Callable[[int], str]:
    """The id of a vehicle by its index in ``places``."""
    return lambda i: vehicles[places[i]]
