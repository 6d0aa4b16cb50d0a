"""The truth told of trips, stops, harsh events and edges is the motion itself."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.ground_truth import Event, GroundTruth, Harsh
from edge_simulator.town.roads import RoadNetwork, city
from edge_simulator.truth import Row, TruthLog
from edge_simulator.vehicle import vehicles
from tests.support_traffic import OneTrip, fleet

pytestmark = pytest.mark.slow

START_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def town() -> RoadNetwork:
    return city(1, 48.137, 11.575)


@pytest.fixture(scope="module")
def seen(town: RoadNetwork) -> tuple[Fleet, list[Row], np.ndarray]:
    """200 vehicles over eight minutes: the rows, and the way each has driven."""
    rng = np.random.default_rng(4)
    moving = Fleet(town, vehicles.Specs(vehicles.draw(rng, 200)), rng)
    began_m = moving.state.odometer_m.copy()
    log = TruthLog([f"v{k}" for k in range(200)], START_MS)
    watched = GroundTruth(log, moving, 0, edges=True)
    for k in range(2400):
        moving.step(0.2)
        watched.step(200 * (k + 1))
    watched.close(480_000)
    return moving, log.take(), moving.state.odometer_m - began_m


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def test_trips_add_up_to_the_way_driven(seen: tuple[Fleet, list[Row], np.ndarray]) -> None:
    _, rows, driven_m = seen
    total = np.zeros(200)
    for row in of_kind(rows, "trip"):
        total[int(row["vehicle_id"][1:])] += row["distance_m"]
    assert np.allclose(total, driven_m, atol=0.6)


def test_edges_passed_add_up_to_the_way_driven(seen: tuple[Fleet, list[Row], np.ndarray]) -> None:
    moving, rows, driven_m = seen
    total = np.zeros(200)
    for row in of_kind(rows, "edge"):
        total[int(row["vehicle_id"][1:])] += row["distance_m"]
        if row["whole"]:
            assert row["distance_m"] == pytest.approx(moving.net.length_m[row["edge_id"]], rel=0.1, abs=20)
    assert np.allclose(total, driven_m, atol=5.0)


def test_rows_carry_times_of_the_world_and_say_what_was_cut(
    seen: tuple[Fleet, list[Row], np.ndarray],
) -> None:
    _, rows, _ = seen
    for row in rows:
        assert START_MS <= row["from_ms"] <= row["to_ms"] <= START_MS + 480_000
        if row["whole"] and row["kind"] != "harsh":
            assert row["from_ms"] > START_MS
    assert {row["whole"] for row in of_kind(rows, "trip")} == {True, False}


def test_stops_are_parked_with_the_ignition_off_or_stand_with_it_on(
    seen: tuple[Fleet, list[Row], np.ndarray],
) -> None:
    _, rows, _ = seen
    stops = of_kind(rows, "stop")
    assert len(stops) > 20
    assert all(row["to_ms"] - row["from_ms"] >= 120_000 for row in stops)
    assert all(row["parked"] for row in stops if not row["ignition_on"])


@pytest.mark.parametrize("idles", [False, True])
def test_one_trip_is_told_with_its_places_and_its_ignition(town: RoadNetwork, idles: bool) -> None:
    edge = int(np.flatnonzero(town.length_m > 300)[0])
    one = fleet(town, OneTrip(np.array([edge]), np.array([60.0]), np.array([edge]), np.array([3.0]), idles))
    one.state.goal_s[:] = 240.0
    log = TruthLog(["v"], 0)
    watched = GroundTruth(log, one, 0)
    for k in range(900):
        one.step(0.1)
        watched.step(100 * (k + 1))
    (trip,) = of_kind(log.take(), "trip")
    assert trip["whole"]
    assert trip["ignition_on"] == idles
    assert trip["from_ms"] == pytest.approx(3000, abs=200)
    assert trip["distance_m"] == pytest.approx(180, abs=8)
    lat, lon = town.position(np.array([edge]), np.array([60.0]))
    assert (trip["from_lat"], trip["from_lon"]) == pytest.approx((lat[0], lon[0]), abs=1e-6)


def happened(town: RoadNetwork, accels: list[float], mps: float = 15.0) -> list[Event]:
    """Events that a petrol car with these accelerations, 100 ms each, has."""
    rng = np.random.default_rng(1)
    car = Fleet(town, vehicles.Specs(np.zeros(1, dtype=np.int64)), rng)
    found, harsh = [], Harsh(car)
    for k, a in enumerate([*accels, *([0.0] * 40)]):
        car.state.a[:], car.state.v[:], car.state.yaw_rps[:] = a, mps, 0.0
        found += harsh.step(100 * k)
    return found


def braking(town: RoadNetwork, accels: list[float], mps: float = 15.0) -> list[tuple[str, int, float]]:
    """What, duration in ms, peak of each of ``happened``."""
    return [(e.what, e.to_ms - e.from_ms, e.peak_mps2) for e in happened(town, accels, mps)]


def test_harsh_braking_lasts_at_least_300_ms_beyond_0_40_g(town: RoadNetwork) -> None:
    assert braking(town, [0.0, -4.2, -4.2, 0.0]) == []
    assert braking(town, [0.0, -3.8, -3.8, -3.8, -3.8, 0.0]) == []
    assert braking(town, [0.0, -4.2, -5.0, -4.2, 0.0]) == [("brake", 300, 5.0)]


def test_braking_twice_within_three_seconds_is_one_event(town: RoadNetwork) -> None:
    hard, pause = [-4.2] * 4, [0.0] * 20
    assert braking(town, [0.0, *hard, *pause, *hard]) == [("brake", 2800, 4.2)]
    assert [e[0] for e in braking(town, [0.0, *hard, *([0.0] * 35), *hard])] == ["brake", "brake"]


def test_hard_braking_below_10_kmh_does_not_count(town: RoadNetwork) -> None:
    assert braking(town, [0.0, *([-6.0] * 6)], mps=2.5) == []


def test_hard_braking_at_a_speed_that_may_read_10_kmh_is_told_as_near(town: RoadNetwork) -> None:
    hard = [0.0, *([-6.0] * 6)]
    assert [event.near for event in happened(town, hard, mps=9.6 / 3.6)] == [True]
    assert [event.near for event in happened(town, hard, mps=10.1 / 3.6)] == [False]
    assert happened(town, hard, mps=9.4 / 3.6) == []


def test_a_harsh_event_that_began_before_the_run_is_not_whole(town: RoadNetwork) -> None:
    rng = np.random.default_rng(1)
    car = Fleet(town, vehicles.Specs(np.zeros(1, dtype=np.int64)), rng)
    log = TruthLog(["v"], START_MS)
    watched = GroundTruth(log, car, -2000)
    for now_ms in range(-1900, 8000, 100):
        braking = now_ms < -1000 or 4000 <= now_ms < 4600
        car.state.a[:], car.state.v[:], car.state.yaw_rps[:] = -6.0 * braking, 15.0, 0.0
        watched.step(now_ms)
    rows = of_kind(log.take(), "harsh")
    assert [(row["from_ms"] - START_MS, row["whole"]) for row in rows] == [(-1900, False), (3900, True)]


def test_hard_acceleration_counts_from_0_35_g_on(town: RoadNetwork) -> None:
    assert braking(town, [0.0, *([3.3] * 6)]) == []
    assert braking(town, [0.0, *([3.6] * 4)]) == [("accelerate", 400, 3.6)]


def test_what_stays_just_below_the_threshold_is_told_as_near_and_once(town: RoadNetwork) -> None:
    near = [3.40] * 4  # 0.35 g is 3.4335 m/s2; instruments may see it there
    (event,) = happened(town, [0.0, *near])
    assert (event.what, event.near, event.peak_mps2) == ("accelerate", True, 3.40)
    assert event.least_mps2 == pytest.approx(3.4335, abs=1e-4)
    (short,) = happened(town, [0.0, 3.40, 3.50, 3.50, 3.40])
    assert (short.near, short.to_ms - short.from_ms) == (True, 400)


def test_near_the_threshold_around_an_event_is_not_told_beside_it(town: RoadNetwork) -> None:
    found = happened(town, [0.0, *([3.40] * 4), *([3.50] * 4), *([3.40] * 4)])
    assert [(e.what, e.near, e.to_ms - e.from_ms) for e in found] == [("accelerate", False, 400)]
