"""Trips cut from traces that are written by hand, with the cuts a person would make."""

from __future__ import annotations

from typing import Any

from infra.contract.settings import Settings
from stream_jobs.vehicles.beat import NOTHING_SAID, Beat
from stream_jobs.vehicles.journeys.limits import journey_limits
from stream_jobs.vehicles.journeys.rows import StopRow, TripRow
from stream_jobs.vehicles.journeys.trip_state import TripState
from stream_jobs.vehicles.journeys.trips import Trips

LIMITS = journey_limits(Settings())
T0 = 1_780_000_000_000
M_PER_DEGREE = 111_195.0
VEHICLE = "WDB1240001A000001"


class Trace:
    """A drive northwards, second by second: (seconds, km/h) pieces with what the ignition does."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self._s = 0
        self._seq = 0
        self._m = 0.0

    def go(self, seconds: int, kmh: float, on: bool | None = True, back: bool = False, **more: Any) -> Trace:
        for _ in range(seconds):
            way = kmh / 3.6
            self._m += -way if back else way
            self.beats.append(self._beat(kmh, way, on, **more))
            self._s += 1
        return self

    def silence(self, seconds: int, kmh: float = 0.0) -> Trace:
        self._s += seconds
        self._m += kmh / 3.6 * seconds
        return self

    def _beat(self, kmh: float, way_m: float, on: bool | None, **more: Any) -> Beat:
        t0 = T0 + self._s * 1000
        self._seq += 1
        moves = kmh >= 1
        known = {
            "vehicle_id": VEHICLE, "boot_id": 1, "seq": self._seq, "t0_ms": t0, "end_ms": t0 + 1000,
            "received_ms": t0 + 1500, "ignition_on": on, "lat_deg": 48 + self._m / M_PER_DEGREE, "lon_deg":
            11.5, "heading_deg": 0.0, "speed_kmh": kmh, "speed_max_kmh": kmh, "distance_m": way_m,
            "fuel_l": 0.001, "energy_kwh": None, "said": NOTHING_SAID, "odometer_m": None, "moving_ms":
            1000 if moves else 0, "moving_from_ms": t0 if moves else None, "moving_to_ms": t0 + 1000 if moves
            else None,
        }  # fmt: skip
        return Beat(**(known | more))  # type: ignore[arg-type]


def rows(trace: Trace) -> list[TripRow | StopRow]:
    machine = Trips(LIMITS, VEHICLE, TripState())
    return [row for beat in trace.beats for row in machine.step(beat)]


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
    blind: dict[str, Any] = {
        "distance_m": None,
        "speed_kmh": None,
        "moving_ms": None,
        "moving_from_ms": None,
        "moving_to_ms": None,
    }
    trace = Trace().go(60, 0, **blind).go(100, 36, **blind).go(240, 0, **blind)
    ((began, ended, metres),) = final(trace)
    assert 57 <= began <= 63
    assert 140 <= ended <= 161
    assert 850 <= metres <= 1001
