"""All that is told of vehicles' journeys, a round at a time: trips, idling, harsh events; pure.

Harsh events come first, out of the runs of samples in each frame, because trips count them.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

import msgspec
import numpy as np

from infra.settings.sections import Journeys
from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.vehicles import rows
from stream_jobs.vehicles.features import G_MPS2, KINDS, RUN, Features
from stream_jobs.vehicles.journeys import trips

Row = rows.TripRow | rows.StopRow | rows.IdleRow | rows.HarshRow


class HarshRun(msgspec.Struct, array_like=True):
    """Samples on end beyond the threshold, or an event, which may still go on and knows where it was.

    ``peak_mps2`` is a magnitude, ``speed_kmh`` that of the first sample; ``of_class``: the vehicle's place in
    CLASSES.
    """

    from_ms: int
    to_ms: int
    peak_mps2: float
    speed_kmh: float
    lat_deg: float | None = None
    lon_deg: float | None = None
    of_class: int = 0


class HarshState(msgspec.Struct, array_like=True):
    """The last run and the open event of each kind (its place in KINDS).

    A run is samples on end beyond the threshold, wherever frames are cut. From ``harsh_least_ms`` on it is an
    event; a run that is one and begins within ``harsh_merge_ms`` of an event's end goes on with it. Runs are
    rare: most vehicles remember none.
    """

    runs: dict[int, HarshRun] = {}
    events: dict[int, HarshRun] = {}

    def __bool__(self) -> bool:
        return bool(self.runs or self.events)

    def step(
        self, limits: Journeys, frames: Features, i: int, here: complex
    ) -> tuple[list[rows.HarshRow], trips.Harsh]:
        """Events of a vehicle that are over, and those that began, by its frame ``i``; ``here``: where."""
        found, begun = list[rows.HarshRow](), list[tuple[int, int]]()
        vehicle, runs, end_ms = frames.id_of(i), frames.runs[i], frames["end_ms"][i]
        of_class = int(np.nan_to_num(frames["vehicle_class"][i]))  # unknown: as if it were a car
        for k in range(0, len(runs), RUN):
            kind, from_ms, to_ms = map(int, runs[k : k + 3])
            peak, kmh = runs[k + 3 : k + RUN]
            before = self.runs.get(kind)
            if before is not None and before.to_ms == from_ms:  # no sample lies between them
                from_ms, peak, kmh = before.from_ms, max(before.peak_mps2, peak), before.speed_kmh
            self.runs[kind] = HarshRun(from_ms, to_ms, peak, kmh)
            event = self.events.get(kind)
            if to_ms - from_ms < limits.harsh_least_ms:
                continue
            if event is not None and from_ms - event.to_ms <= limits.harsh_merge_ms:
                event.to_ms, event.peak_mps2 = to_ms, max(event.peak_mps2, peak)
                continue
            if event is not None:
                found.append(_harsh_row(limits, vehicle, kind, event))
            self.events[kind] = HarshRun(from_ms, to_ms, peak, kmh, *rows.degrees(here), of_class)
            begun.append((i, kind))
        self.runs = {kind: run for kind, run in self.runs.items() if run.to_ms >= end_ms}
        for kind, event in [*self.events.items()]:  # a run under way that began in time may still be merged
            run, last_ms = self.runs.get(kind), event.to_ms + limits.harsh_merge_ms
            if end_ms > last_ms and (run is None or run.from_ms > last_ms):
                found.append(_harsh_row(limits, vehicle, kind, self.events.pop(kind)))
        return found, begun


def _harsh_row(limits: Journeys, vehicle: str, kind: int, event: HarshRun) -> rows.HarshRow:
    limit_g = (limits.brake_g, limits.accelerate_g, limits.corner_g)[kind][event.of_class]
    peak_g = event.peak_mps2 / G_MPS2
    grade = 1 + sum(peak_g >= share * limit_g for share in limits.harsh_grades)
    return rows.HarshRow(
        vehicle_id=vehicle, began_ms=event.from_ms, ended_ms=event.to_ms, kind=KINDS[kind], grade=grade,
        peak_g=round(peak_g, 3), limit_g=limit_g, speed_kmh=event.speed_kmh,
        lat_deg=event.lat_deg, lon_deg=event.lon_deg,
    )  # fmt: skip


_IDLING: Final[list[Any]] = [
    ("idle_from_ms", "f8"), ("idle_to_ms", "f8"), ("idle_where", "c16"), ("idle_fuel_l", "f8"),
    ("idle_energy_kwh", "f8"), ("idle_open", "?"),
]  # fmt: skip
"""An episode so far, none while ``idle_from_ms`` is NaN; ``idle_open``: it was told as open last."""
_BURNT: Final = (("idle_fuel_l", "fuel_l"), ("idle_energy_kwh", "energy_kwh"))


class Idling(trips.Machine):
    """Standing (below 1 km/h) with the ignition on for ``idle_s`` and more, with what it burns."""

    def step(self, frames: Features, here: trips.Positions) -> list[rows.IdleRow]:
        """Rows that follow from the next frame of each; ``here``: where it is, [k]."""
        m, t0_ms, end_ms = self._memory, frames["t0_ms"], frames["end_ms"]
        moving_from_ms, moving_to_ms = frames["moving_from_ms"], frames["moving_to_ms"]
        is_on = (frames["ignition_on"] == 1) & ~np.isnan(frames["moving_ms"])
        moves = is_on & ~np.isnan(moving_from_ms + moving_to_ms)
        self._end(np.flatnonzero((t0_ms - m["idle_to_ms"] > trips.SEEN_MS) | ~is_on))
        until_moved = moves & ~np.isnan(m["idle_from_ms"])
        stands = np.flatnonzero((is_on & ~moves) | until_moved)
        self._stand(stands, frames, here, t0_ms, np.where(moves, moving_from_ms, end_ms))
        self._end(np.flatnonzero(until_moved))
        self._stand(np.flatnonzero(moves & (moving_to_ms < end_ms)), frames, here, moving_to_ms, end_ms)
        return self._rows

    def expire(self, at: Ints) -> list[rows.IdleRow]:
        """The episodes so far."""
        self._tell(at, rows.PROVISIONAL)
        return self._rows

    def _stand(
        self, at: Ints, frames: Features, here: trips.Positions, from_ms: Floats, to_ms: Floats
    ) -> None:
        """They stand from ``from_ms`` to ``to_ms`` ([k]) of their frames."""
        if not len(at):
            return
        m = self._memory
        new = at[np.isnan(m["idle_from_ms"][at])]
        m["idle_from_ms"][new] = m["idle_to_ms"][new] = from_ms[new]
        m["idle_where"][new] = here[new]
        m["idle_fuel_l"][new] = m["idle_energy_kwh"][new] = np.nan
        m["idle_to_ms"][at] = np.maximum(m["idle_to_ms"][at], to_ms[at])
        share = (to_ms[at] - from_ms[at]) / (frames["end_ms"][at] - frames["t0_ms"][at])
        for name, fact in _BURNT:
            total, more = m[name][at], frames[fact][at]
            m[name][at] = np.where(np.isnan(more), total, trips.or_zero(total) + more * share)
        long_enough = m["idle_to_ms"][at] - m["idle_from_ms"][at] >= self._limits.idle_s * rows.MS_PER_S
        self._tell(at[long_enough & ~m["idle_open"][at]], rows.OPEN)

    def _end(self, at: Ints) -> None:
        m = self._memory
        self._tell(
            at[m["idle_to_ms"][at] - m["idle_from_ms"][at] >= self._limits.idle_s * rows.MS_PER_S], rows.FINAL
        )
        m["idle_from_ms"][at] = m["idle_to_ms"][at] = np.nan

    def _tell(self, at: Ints, phase: str) -> None:
        m = self._memory
        m["idle_open"][at] = phase == rows.OPEN
        for i in at.tolist():
            from_ms, to_ms = int(m["idle_from_ms"][i]), int(m["idle_to_ms"][i])
            fuel_l, energy_kwh = (None if np.isnan(m[name][i]) else float(m[name][i]) for name, _ in _BURNT)
            lasted_s, where = (to_ms - from_ms) / rows.MS_PER_S, rows.degrees(m["idle_where"][i])
            told = from_ms, to_ms, phase, lasted_s, fuel_l, energy_kwh
            self._rows.append(rows.IdleRow(self._vehicle(i), *told, *where))


_FIELDS: Final = np.dtype([*trips.FIELDS, *_IDLING, ("harsh", "?")], align=True)
_WIDTH: Final = _FIELDS.itemsize // 8  # numbers of a vehicle; flags lie in some of them, as bytes


def unknown(count: int) -> Floats:
    """The numbers of vehicles of which nothing is known."""
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

    def grow(self, count: int) -> None:
        self.numbers = np.concatenate((self.numbers, unknown(count - len(self.numbers))))

    def keep(self, places: Ints) -> None:
        self.numbers = self.numbers.take(places, axis=0)
        self.harsh = {new: self.harsh[old] for new, old in enumerate(places.tolist()) if old in self.harsh}

    def of(self, places: Ints) -> trips.Memory:
        """A copy of what is remembered at ``places``, [k]."""
        memory: trips.Memory = self.numbers.take(places, axis=0).view(_FIELDS)[:, 0]
        return memory

    def put(self, places: Ints, memory: trips.Memory) -> None:
        """What is remembered at ``places`` from now on, [k]."""
        self.numbers[places] = memory.view(np.float64).reshape(-1, _WIDTH)


def step(memory: JourneyMemory, frames: Features, limits: Journeys) -> list[Row]:
    """Rows that follow from the next frame of each vehicle, in the order of what they tell of it."""
    of = memory.of(frames.vehicle)
    here = frames.frame_features.take(trips.POSITION, axis=1).view(np.complex128)[:, 0]  # where last known
    of["received_ms"] = frames["received_ms"]
    found: list[Row] = []
    begun: list[tuple[int, int]] = []
    with_runs = compress(range(len(frames.runs)), frames.runs)
    for i in sorted({*with_runs, *np.flatnonzero(of["harsh"]).tolist()}):
        place = int(frames.vehicle[i])
        state = memory.harsh.pop(place, None) or HarshState()
        over, new = state.step(limits, frames, i, here[i])
        found += over
        begun += new
        of["harsh"][i] = bool(state)
        if state:
            memory.harsh[place] = state
    found += trips.Trips(limits, of, frames.id_of).step(frames, here, begun)
    found += Idling(limits, of, frames.id_of).step(frames, here)
    memory.put(frames.vehicle, of)
    return found


def due_ms(memory: JourneyMemory, places: Ints, limits: Journeys) -> Floats:
    """When (receive clock) something is told although nothing more came, [k]; inf where nothing is."""
    of = memory.of(places)
    due = trips.due(of) | of["idle_open"]
    for i in np.flatnonzero(of["harsh"]).tolist():
        due[i] |= bool(memory.harsh[int(places[i])].events)
    return np.where(due, of["received_ms"] + limits.end_s * rows.MS_PER_S, np.inf)


def expire(
    memory: JourneyMemory, places: Ints, now_ms: Floats, vehicles: Sequence[str], limits: Journeys
) -> list[Row]:
    """What is told because nothing came up to ``now_ms`` ([k]); ``vehicles``: ids by place."""
    of = memory.of(places)
    silent = of["received_ms"] + limits.end_s * rows.MS_PER_S < now_ms
    if not silent.any():
        return []

    def vehicle(i: int) -> str:
        return vehicles[int(places[i])]

    found: list[Row] = []
    for i in np.flatnonzero(silent & of["harsh"]).tolist():
        if events := memory.harsh[int(places[i])].events:
            del memory.harsh[int(places[i])]
            found += [_harsh_row(limits, vehicle(i), *each) for each in events.items()]
            of["harsh"][i] = False
    found += trips.Trips(limits, of, vehicle).expire(np.flatnonzero(silent & trips.due(of)))
    found += Idling(limits, of, vehicle).expire(np.flatnonzero(silent & of["idle_open"]))
    memory.put(places, of)
    return found
