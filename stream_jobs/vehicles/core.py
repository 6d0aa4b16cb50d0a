"""Everything that is remembered of one vehicle, and what follows from its next frame; pure.

The stream and the batch layer both go through here: ``Core.take`` for records as they come, ``Core.step`` for
frames that are in order already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stream_jobs.vehicles.alert_rows import alert_row
from stream_jobs.vehicles.beat import Beat, Found, Stored
from stream_jobs.vehicles.journeys import journey
from stream_jobs.vehicles.journeys.journey import JourneyState
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.lookout import Lookout
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.rows import BehindRow, Row
from stream_jobs.vehicles.said import reading
from stream_jobs.vehicles.sequencer import Arrival, Order, Patience, Sequencer


class VehicleState(msgspec.Struct, array_like=True):
    """One vehicle's memory: ``clock_ms`` is the newest receipt, ``last`` the newest beat, of
    which a checkpoint keeps neither what rules say nor harsh runs.

    ``dues`` are the moments (receive clock) at which detectors want to be asked, in the order of the rules.
    """

    order: Order
    memories: list[Stored]
    dues: list[int | None]
    journey: JourneyState
    clock_ms: int = 0
    last: Beat | None = None


@dataclass(frozen=True, slots=True)
class CoreLimits:
    """How long an order is waited for, and how long a silent vehicle is remembered (receive clock)."""

    patience: Patience
    forget_ms: int
    journey: JourneyLimits


class Core:
    """The pure core for vehicles of one query; it remembers nothing itself."""

    def __init__(self, limits: CoreLimits, detection: Detection) -> None:
        self._limits = limits
        self._detection = detection
        self._unordered = tuple(k for k, each in enumerate(detection.detectors) if each.unordered)
        self._timed = tuple(k for k, each in enumerate(detection.detectors) if each.timed)
        self._lookout = Lookout(detection.detectors)

    def new(self) -> VehicleState:
        """The memory of a vehicle never seen."""
        count = len(self._detection.rules)
        return VehicleState(Order(), [None] * count, [None] * count, JourneyState())

    def take(self, state: VehicleState, arrivals: Iterable[Arrival]) -> Iterator[Row]:
        """Rows that follow from records of one vehicle, in the order of the log."""
        sequencer = Sequencer(state.order, self._limits.patience)
        for arrival in arrivals:
            state.clock_ms = max(state.clock_ms, arrival.received_ms)
            if arrival.beat is not None:
                yield from self.arrived(state, arrival.beat)
            for beat in sequencer.take(arrival):
                yield from self.step(state, beat)
        if sequencer.behind:
            yield _behind(sequencer.behind)

    def arrived(self, state: VehicleState, beat: Beat) -> Iterator[Row]:
        """Rows of detectors that look at frames as they arrive, whatever their order; copies are harmless."""
        for place in self._unordered if beat.said.codes else ():
            detector = self._detection.detectors[place]
            state.memories[place], found = detector.step(
                state.memories[place], beat, reading(beat.said, place)
            )
            yield from self._rows(place, found, beat)

    def step(self, state: VehicleState, beat: Beat) -> Iterator[Row]:
        """Rows that follow from the next frame in order."""
        yield from self._wake(state, beat.received_ms)
        yield from journey.step(state.journey, beat, self._limits.journey)
        yield from self._detect(state, beat)
        state.last = beat

    def expire(self, state: VehicleState, now_ms: int) -> Iterator[Row]:
        """Rows that follow from nothing having come up to ``now_ms`` of the receive clock."""
        sequencer = Sequencer(state.order, self._limits.patience)
        for beat in sequencer.expire(now_ms):
            yield from self.step(state, beat)
        yield from self._wake(state, now_ms)

    def due_ms(self, state: VehicleState) -> int:
        """When ``expire`` is to be called unless a record comes before."""
        held_ms = Sequencer(state.order, self._limits.patience).due_ms()
        trips_ms = journey.due_ms(state.journey, self._limits.journey)
        moments = [m for m in (held_ms, trips_ms, *state.dues) if m is not None]
        return min(moments, default=state.clock_ms + self._limits.forget_ms)

    def forgotten(self, state: VehicleState, now_ms: int) -> bool:
        """Whether a vehicle has been silent for so long that its memory may go."""
        return state.clock_ms + self._limits.forget_ms <= now_ms

    def _detect(self, state: VehicleState, beat: Beat) -> Iterator[Row]:
        detectors, memories = self._detection.detectors, state.memories
        for place, anyhow in self._lookout.places(beat.said.codes):
            memory = memories[place]
            if memory is None and not anyhow:
                continue
            after, found = detectors[place].step(memory, beat, reading(beat.said, place))
            if after is not memory:
                memories[place] = after
                if place in self._timed:
                    state.dues[place] = detectors[place].due_ms(after)
            if found:
                yield from self._rows(place, found, beat)

    def _wake(self, state: VehicleState, now_ms: int) -> Iterator[Row]:
        """Ask the detectors whose moment came before ``now_ms``, each at its moment."""
        last = state.last
        if last is None:
            return
        yield from journey.expire(state.journey, last.vehicle_id, now_ms, self._limits.journey)
        for place in self._timed:
            due_ms = state.dues[place]
            while due_ms is not None and due_ms < now_ms:
                detector = self._detection.detectors[place]
                memory = state.memories[place]
                assert memory is not None  # nothing is due without one
                state.memories[place], found = detector.expire(memory, due_ms)
                yield from self._rows(place, found, last, due_ms)
                later_ms = detector.due_ms(state.memories[place])
                due_ms = later_ms if later_ms is not None and later_ms > due_ms else None
            state.dues[place] = due_ms

    def _rows(
        self, place: int, found: Sequence[Found], beat: Beat, received_ms: int | None = None
    ) -> Iterator[Row]:
        return (alert_row(self._detection.rules[place], each, beat, received_ms) for each in found)


def _behind(beats: Sequence[Beat]) -> BehindRow:
    return BehindRow(
        vehicle_id=beats[0].vehicle_id,
        from_ms=min(beat.t0_ms for beat in beats),
        to_ms=max(beat.end_ms for beat in beats),
        received_ms=max(beat.received_ms for beat in beats),
        frames=len(beats),
    )
