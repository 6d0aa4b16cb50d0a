"""Trips cut from traces that are written by hand, with the cuts a person would make."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest

from infra.settings.settings import Settings
from stream_jobs.frames import state
from stream_jobs.vehicles.features import FRAME_FEATURES, Features
from stream_jobs.vehicles.journeys.journey import JourneyMemory, Row, due_ms, expire, step, unknown
from stream_jobs.vehicles.rows import HarshRow, IdleRow, StopRow, TripRow

LIMITS = Settings().journeys
T0 = 1_780_000_000_000
M_PER_DEGREE = 111_195.0
VEHICLE = "WDB1240001A000001"
BLIND = dict.fromkeys(("distance_m", "speed_kmh", "moving_ms", "moving_from_ms", "moving_to_ms"))
"""Nothing tells the speed."""


class Trace:
    """A drive northwards, second by second: (seconds, km/h) pieces with what the ignition does."""

    def __init__(self, vehicle: str = VEHICLE) -> None:
        self.vehicle = vehicle
        self.frame_features: list[list[float]] = []
        self.runs: list[list[float]] = []
        self._s = 0
        self._m = 0.0

    def go(self, seconds: int, kmh: float, on: bool | None = True, back: bool = False, **more: Any) -> Trace:
        for _ in range(seconds):
            way = kmh / 3.6
            self._m += -way if back else way
            features = self._features(kmh, way, on) | more
            self.frame_features.append(
                [np.nan if features.get(name) is None else float(features[name]) for name in FRAME_FEATURES]
            )
            self.runs.append([])
            self._s += 1
        return self

    def silence(self, seconds: int, kmh: float = 0.0) -> Trace:
        self._s += seconds
        self._m += kmh / 3.6 * seconds
        return self

    def brake(self, ms: int) -> Trace:
        """The last second ends with a hard brake."""
        end_ms = T0 + self._s * 1000
        self.runs[-1] = [0.0, float(end_ms - ms), float(end_ms), 5.0, 36.0]
        return self

    def _features(self, kmh: float, way_m: float, on: bool | None) -> dict[str, Any]:
        t0 = T0 + self._s * 1000
        moves = kmh >= 1
        return {
            "boot_id": 1, "seq": len(self.frame_features), "t0_ms": t0, "end_ms": t0 + 1000,
            "received_ms": t0 + 1500, "believed": 1, "ignition_on": on,
            "lat_deg": 48 + self._m / M_PER_DEGREE, "lon_deg": 11.5, "heading_deg": 0.0,
            "speed_kmh": kmh, "speed_max_kmh": kmh, "distance_m": way_m,
            "fuel_l": 0.001, "moving_ms": 1000 if moves else 0, "moving_from_ms": t0 if moves else None,
            "moving_to_ms": t0 + 1000 if moves else None,
        }  # fmt: skip


def told(
    traces: Sequence[Trace], cuts: Collection[int] = (), memory: JourneyMemory | None = None
) -> dict[str, list[Row]]:
    """Rows by vehicle, round by round; the memory is written and read before the rounds ``cuts``."""
    memory = JourneyMemory(unknown(len(traces))) if memory is None else memory
    vehicles = [trace.vehicle for trace in traces]
    found: dict[str, list[Row]] = {vehicle: [] for vehicle in vehicles}
    for number in range(max(len(trace.frame_features) for trace in traces)):
        if number in cuts:
            memory = state.load(state.dump(memory), JourneyMemory)
        come = [place for place, trace in enumerate(traces) if number < len(trace.frame_features)]
        frames = Features(
            vehicles,
            np.array(come),
            np.array([traces[place].frame_features[number] for place in come]),
            [traces[place].runs[number] for place in come],
        )
        for row in step(memory, frames, LIMITS):
            found[row.vehicle_id].append(row)
    return found


def rows(trace: Trace) -> list[TripRow | StopRow]:
    return [row for row in told([trace])[VEHICLE] if isinstance(row, TripRow | StopRow)]


def final(trace: Trace) -> list[tuple[int, int, int]]:
    """Begin, end (s) and metres of each trip that is over."""
    return [
        ((t.started_ms - T0) // 1000, (t.ended_ms - T0) // 1000, round(t.distance_m))
        for t in rows(trace)
        if isinstance(t, TripRow) and t.phase == "final"
    ]


def stops(trace: Trace) -> list[tuple[int, int | None]]:
    found = {s.began_ms: s.ended_ms for s in rows(trace) if isinstance(s, StopRow)}
    return [((a - T0) // 1000, None if b is None else (b - T0) // 1000) for a, b in found.items()]


def test_a_trip_begins_with_the_first_move_and_ends_with_the_first_standstill() -> None:
    trace = Trace().go(60, 0).go(100, 36).go(200, 0)
    assert final(trace) == [(60, 160, 1000)]
    assert stops(trace) == [(160, None)]


def test_the_stop_between_two_trips_has_both_their_times() -> None:
    trace = Trace().go(100, 36).go(300, 0).go(100, 36).go(180, 0)
    assert final(trace) == [(0, 100, 1000), (400, 500, 1000)]
    assert stops(trace) == [(100, 400), (500, None)]


def test_standing_for_less_than_three_minutes_is_a_halt_of_the_same_trip() -> None:
    trace = Trace().go(100, 36).go(179, 0).go(100, 36).go(180, 0)
    assert final(trace) == [(0, 379, 2000)]
    last = [t for t in rows(trace) if isinstance(t, TripRow)][-1]
    assert (last.halts, last.moving_s, last.standing_s) == (1, 200.0, 179.0)


def test_a_trip_under_way_leads_so_far_to_where_the_vehicle_was_last_known_to_be() -> None:
    trace = Trace().go(100, 36).go(100, 36, lat_deg=None, lon_deg=None)
    last = [t for t in rows(trace) if isinstance(t, TripRow)][-1]
    assert (last.phase, last.end_lat_deg) == ("open", pytest.approx(48 + 1000 / M_PER_DEGREE))
    assert last.distance_m > 1300


@pytest.mark.slow
def test_moving_within_the_radius_is_no_trip_and_leaves_the_stop_as_it_was() -> None:
    trace = (
        Trace()
        .go(100, 36)
        .go(180, 0)
        .go(10, 36)
        .go(400, 0)
        .go(10, 36, back=True)
        .go(300, 0)
        .go(60, 36)
        .go(200, 0)
    )
    assert final(trace) == [(0, 100, 1000), (1000, 1060, 600)]
    assert stops(trace) == [(100, 1000), (1060, None)]


def test_shunting_after_the_arrival_is_dated_back_to_the_arrival() -> None:
    trace = Trace().go(100, 36).go(60, 0).go(5, 18).go(60, 0).go(5, 18, back=True).go(180, 0)
    assert final(trace) == [(0, 100, 1000)]


def test_a_queue_that_creeps_out_of_the_radius_ends_no_trip() -> None:
    trace = Trace().go(100, 36)
    for _ in range(10):
        trace.go(60, 0).go(10, 10)
    assert final(trace.go(100, 36).go(180, 0)) == [(0, 900, 2278)]


def test_ignition_off_for_half_a_minute_ends_a_trip_and_a_toggle_does_not() -> None:
    assert final(Trace().go(100, 36).go(29, 0, on=False).go(100, 36).go(180, 0)) == [(0, 229, 2000)]
    trace = Trace().go(100, 36).go(31, 0, on=False).go(100, 36).go(180, 0)
    assert final(trace) == [(0, 100, 1000), (131, 231, 1000)]


def test_an_hour_without_data_splits_and_less_does_not() -> None:
    assert final(Trace().go(100, 36).silence(3601, 36).go(100, 36).go(180, 0)) == [
        (0, 100, 1000),
        (3701, 3801, 1000),
    ]
    assert final(Trace().go(100, 36).silence(3600, 36).go(100, 36).go(180, 0)) == [(0, 3800, 38_000)]


def test_silence_at_one_place_is_a_stop() -> None:
    assert final(Trace().go(100, 36).silence(600).go(100, 36).go(180, 0)) == [
        (0, 100, 1000),
        (700, 800, 1000),
    ]


def test_a_move_of_less_than_five_metres_does_not_count() -> None:
    trace = Trace().go(100, 36).go(100, 0).go(1, 17).go(100, 0)
    assert final(trace) == [(0, 100, 1000)]


def test_a_position_that_jumps_neither_starts_a_trip_nor_lengthens_one() -> None:
    parked = Trace().go(100, 0).go(3, 0, lat_deg=48.9).go(200, 0)
    assert rows(parked) == []
    trace = Trace().go(50, 36).go(1, 36, lat_deg=49.5).go(49, 36).go(90, 0).go(1, 0, lat_deg=49.5).go(90, 0)
    assert final(trace) == [(0, 100, 1000)]


def test_a_vehicle_without_a_speed_has_trips_by_its_positions() -> None:
    trace = Trace().go(60, 0, **BLIND).go(100, 36, **BLIND).go(240, 0, **BLIND)
    ((began, ended, metres),) = final(trace)
    assert 57 <= began <= 63
    assert 140 <= ended <= 161
    assert 850 <= metres <= 1001


def test_what_the_odometer_counted_while_nobody_saw_it_belongs_to_the_trip() -> None:
    trace = Trace().go(100, 36, odometer_m=1000).silence(100, 36).go(100, 36, odometer_m=3000).go(180, 0)
    (trip,) = [t for t in rows(trace) if isinstance(t, TripRow) and t.phase == "final"]
    assert (trip.distance_m, trip.unseen_m, trip.odometer_m) == (3990.0, 1990.0, 2000.0)
    jump = Trace().go(100, 36, odometer_m=1000).silence(100, 36).go(100, 36, odometer_m=30_000).go(180, 0)
    (trip,) = [t for t in rows(jump) if isinstance(t, TripRow) and t.phase == "final"]
    assert (trip.distance_m, trip.unseen_m) == (3000.0, 1000.0)


def test_a_trip_sums_up_what_its_frames_tell() -> None:
    hybrid = {"energy_kwh": 0.01, "powertrain": 1, "speeding_ms": 500}
    trace = Trace().go(100, 36, **hybrid).go(5, 0).go(100, 72, **hybrid).brake(400).go(4, 0).go(100, 36)
    (trip,) = [t for t in rows(trace.go(180, 0)) if isinstance(t, TripRow) and t.phase == "final"]
    assert (trip.moving_s, trip.idle_s, trip.halts, trip.harsh_brake, trip.frames) == (300.0, 10.0, 1, 1, 310)
    assert (trip.fuel_l, trip.energy_kwh, trip.speeding_s, trip.co2_g) == (0.31, 2.0, 100.0, 833.6)
    assert (trip.speed_max_kmh, trip.distance_m, trip.unseen_m) == (72.0, 4000.0, 0.0)


def test_a_trip_tells_on_how_much_of_its_way_the_place_is_known() -> None:
    trace = (
        Trace().go(100, 36, placed_m=10.0).go(100, 36).silence(100, 36).go(100, 36, placed_m=10.0).go(180, 0)
    )
    (trip,) = [t for t in rows(trace) if isinstance(t, TripRow) and t.phase == "final"]
    assert (trip.distance_m, trip.known_m) == (4000.0, 2000.0)


def test_standing_with_the_ignition_on_for_two_minutes_is_idling_until_it_moves() -> None:
    short = Trace().go(119, 0).go(10, 36).go(90, 0, on=False).go(119, 0)
    assert [row for row in told([short])[VEHICLE] if isinstance(row, IdleRow)] == []
    trace = Trace().go(130, 0).go(1, 36, moving_from_ms=T0 + 130_500, moving_to_ms=T0 + 130_600).go(130, 0)
    idle = [row for row in told([trace.go(1, 36)])[VEHICLE] if isinstance(row, IdleRow)]
    assert [(row.phase, row.began_ms - T0, row.ended_ms - T0) for row in idle] == [
        ("open", 0, 120_000),
        ("final", 0, 130_500),
        ("open", 130_600, 251_000),
        ("final", 130_600, 261_000),
    ]
    assert [round(row.fuel_l or 0, 6) for row in idle] == [0.12, 0.1305, 0.1204, 0.1304]


def random_trace(vehicle: str, seed: int) -> Trace:
    """Driving, standing, creeping, silence and hard brakes, with and without ignition, speed and position."""
    rng, trace = random.Random(seed), Trace(vehicle)
    known: list[dict[str, Any]] = [{}, {}, BLIND, {"lat_deg": None}, {"powertrain": 1, "odometer_m": 5}]
    for _ in range(rng.randrange(3, 12)):
        kmh, on = rng.choice([0.0, 0.0, 3.0, 36.0, 72.0]), rng.choice([True, True, False, None])
        trace.go(rng.choice([1, 7, 40, 190]), kmh, on, **rng.choice(known))
        if rng.random() < 0.3:
            trace.brake(rng.choice([200, 400, 1000]))
        if rng.random() < 0.3:
            trace.silence(rng.choice([-70, -2, 2, 200, 4000]), rng.choice([0.0, 36.0]))
    return trace


@pytest.fixture(scope="module")
def fleet() -> list[Trace]:
    return [random_trace(f"V{seed}", seed) for seed in range(20)]


@pytest.fixture(scope="module")
def together(fleet: list[Trace]) -> dict[str, list[Row]]:
    return told(fleet)


@pytest.mark.slow
def test_many_vehicles_at_once_have_the_journeys_that_each_has_alone(
    fleet: list[Trace], together: dict[str, list[Row]]
) -> None:
    assert together == {trace.vehicle: told([trace])[trace.vehicle] for trace in fleet}
    assert {type(row).__name__ for each in together.values() for row in each} == {
        "TripRow", "StopRow", "IdleRow", "HarshRow",
    }  # fmt: skip


@pytest.mark.slow
def test_a_memory_that_is_written_and_read_before_every_frame_gives_the_same(
    fleet: list[Trace], together: dict[str, list[Row]]
) -> None:
    assert told(fleet, range(5000)) == together


def test_what_is_due_is_told_once_and_goes_on_when_more_comes() -> None:
    first, whole = Trace().go(100, 36).brake(400).go(150, 0), Trace().go(100, 36).brake(400).go(150, 0)
    whole.go(10, 36).go(200, 0)
    memory, at = JourneyMemory(unknown(1)), np.array([0])
    assert due_ms(memory, at, LIMITS).tolist() == [np.inf]
    before = told([first], memory=memory)[VEHICLE]
    due = due_ms(memory, at, LIMITS)
    assert due.tolist() == [T0 + 250_500 + LIMITS.end_s * 1000]
    assert expire(memory, at, due, [VEHICLE], LIMITS) == []
    trip, idle = expire(memory, at, due + 1, [VEHICLE], LIMITS)
    assert isinstance(trip, TripRow)
    assert isinstance(idle, IdleRow)
    assert (trip.phase, trip.ended_ms - T0, trip.harsh_brake) == ("provisional", 100_000, 1)
    assert (idle.phase, idle.duration_s) == ("provisional", 150.0)
    assert due_ms(memory, at, LIMITS).tolist() == [np.inf]
    assert expire(memory, at, due + 10**9, [VEHICLE], LIMITS) == []
    after = told([rest(whole, 250)], memory=memory)[VEHICLE]
    again = next(row for row in after if isinstance(row, IdleRow))
    assert (again.phase, again.began_ms) == ("open", idle.began_ms)
    assert [*before, *after[1:]] == told([whole])[VEHICLE]


def test_a_trip_that_was_told_as_over_while_it_was_not_ends_where_it_ends() -> None:
    whole, memory, at = Trace().go(110, 36).go(200, 0), JourneyMemory(unknown(1)), np.array([0])
    before = told([Trace().go(100, 36)], memory=memory)[VEHICLE]
    (trip,) = expire(memory, at, np.array([np.inf]), [VEHICLE], LIMITS)
    assert isinstance(trip, TripRow)
    assert (trip.phase, trip.ended_ms - T0) == ("provisional", 100_000)
    assert [*before, *told([rest(whole, 100)], memory=memory)[VEHICLE]] == told([whole])[VEHICLE]


def rest(trace: Trace, begin: int) -> Trace:
    """The frames from ``begin`` on."""
    after = Trace()
    after.frame_features, after.runs = trace.frame_features[begin:], trace.runs[begin:]
    return after


def test_a_vehicle_that_is_forgotten_leaves_its_place_to_another() -> None:
    traces = [Trace(f"V{k}").go(100 + 10 * k, 36).brake(400 + 100 * k) for k in range(3)]
    memory = JourneyMemory(unknown(0))
    memory.grow(3)
    told(traces, memory=memory)
    dues = due_ms(memory, np.arange(3), LIMITS)
    memory.keep(np.array([2, 0]))
    memory.grow(4)
    assert due_ms(memory, np.arange(4), LIMITS).tolist() == [dues[2], dues[0], np.inf, np.inf]
    event, trip = expire(memory, np.array([0]), np.array([np.inf]), ["V2"], LIMITS)
    assert isinstance(event, HarshRow)
    assert isinstance(trip, TripRow)
    assert (event.vehicle_id, event.ended_ms - event.began_ms) == ("V2", 600)
    assert (trip.vehicle_id, trip.phase, trip.ended_ms - T0) == ("V2", "provisional", 120_000)
