"""Who breaks down blocks a lane until towed; who limps home drives slowly until the ignition goes off."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.mishaps import LimpHome
from edge_simulator.town.roads import RoadNetwork, city
from edge_simulator.truth import TruthLog
from tests.support_traffic import OneTrip, fleet, straight_on

pytestmark = pytest.mark.slow

H_S = 0.5
FIRST = 0


@pytest.fixture(scope="module")
def town() -> RoadNetwork:
    return city(1, 48.137, 11.575)


def stream(town: RoadNetwork) -> tuple[Fleet, int]:
    """60 cars that one by one enter a long arterial edge, some 10 s apart, and its number."""
    long = np.flatnonzero(
        (town.length_m > 550) & (town.road_class == 1) & (town.signal_cycle_s[town.edge_to] == 0)
    )
    edge = int(long[0])
    n = 60
    goal = straight_on(town, straight_on(town, edge))
    leaves_s = np.concatenate([[0.0], 9.0 * np.arange(1, n)])
    spots = np.where(leaves_s > 0, 30.0, 120.0)
    return fleet(town, OneTrip(np.full(n, edge), spots, np.full(n, goal), leaves_s)), edge


def mean_speed(cars: Fleet, edge: int, seconds: float) -> float:
    """Mean speed of the sound vehicles on an edge over some time, m/s."""
    speeds = []
    for _ in range(int(seconds / H_S)):
        cars.step(H_S)
        st = cars.state
        speeds.append(st.v[(st.edge == edge) & st.on_road & ~st.broken])
    return float(np.concatenate(speeds).mean())


def wreck(cars: Fleet) -> None:
    cars.state.crashed[FIRST] = True
    cars.state.impact_mps[FIRST] = 0.8 * cars.state.v[FIRST]


def test_a_crash_slows_the_traffic_behind_it_and_a_queue_forms_that_dissolves_after_towing(
    town: RoadNetwork,
) -> None:
    free, edge = stream(town)
    usual = mean_speed(free, edge, 200)
    cars, _ = stream(town)
    for _ in range(10):
        cars.step(H_S)
    wreck(cars)
    blocked = mean_speed(cars, edge, 200)
    assert blocked < 0.7 * usual
    assert (cars.state.v[(cars.state.edge == edge) & cars.state.on_road] < 2.5).sum() >= 1
    while not cars.state.parked[FIRST]:
        cars.step(H_S)
    assert 600 < cars.t_s < 1900
    assert not cars.ignition_on()[FIRST]
    assert cars.state.wake_s[FIRST] == np.inf
    for _ in range(400):
        cars.step(H_S)
    assert not ((cars.state.edge == edge) & cars.state.on_road).any()


def test_nobody_passes_in_the_first_seconds_and_then_at_a_walking_pace(town: RoadNetwork) -> None:
    cars, edge = stream(town)
    for _ in range(10):
        cars.step(H_S)
    wreck(cars)
    pace = []
    for _ in range(300):
        cars.step(H_S)
        st = cars.state
        beside = (st.edge == edge) & st.on_road & ~st.broken & (np.abs(st.s - st.s[FIRST]) < 3.0)
        pace += st.v[beside].tolist()
        if not st.broken[FIRST] or cars.t_s < 20:
            assert not beside.any()
    assert pace
    assert max(pace) < 2.5


def test_a_breakdown_has_no_impact_but_the_same_effect(town: RoadNetwork) -> None:
    cars, _ = stream(town)
    for _ in range(10):
        cars.step(H_S)
    cars.break_down(FIRST)
    hardest = 0.0
    for _ in range(60):
        cars.step(H_S)
        hardest = min(hardest, float(cars.state.a[FIRST]))
    st = cars.state
    assert st.v[FIRST] == 0
    assert hardest > -4.0
    assert not st.crashed[FIRST]
    assert not st.on_road[FIRST]
    assert cars.ignition_on()[FIRST]


def test_a_parked_vehicle_that_breaks_down_stays_where_it_is(town: RoadNetwork) -> None:
    cars, _ = stream(town)
    cars.break_down(5)
    for _ in range(200):
        cars.step(H_S)
    assert cars.state.parked[5]
    assert not cars.state.parked[4]


def test_the_next_driver_brakes_as_hard_as_needed_behind_a_crash(town: RoadNetwork) -> None:
    long = np.flatnonzero((town.length_m > 600) & (town.road_class == 1))
    edge = int(long[0])
    goal = straight_on(town, edge)
    agenda = OneTrip(np.full(2, edge), np.array([140.0, 100.0]), np.full(2, goal), np.zeros(2))
    cars = fleet(town, agenda)
    for _ in range(80):
        cars.step(0.1)
    st = cars.state
    from_m, from_s = float(st.odometer_m[1]), float(st.s[1])
    st.crashed[0], st.impact_mps[0] = True, float(st.v[0])
    hardest = 0.0
    for _ in range(100):
        cars.step(0.1)
        hardest = min(hardest, float(cars.state.a[1]))
    gap_m = cars.state.s[0] - cars.drivers.length_m[0] - cars.state.s[1]
    assert cars.state.v[1] < 0.1
    assert 0.3 < gap_m < 3.0
    assert cars.state.odometer_m[1] - from_m == pytest.approx(cars.state.s[1] - from_s, abs=0.1)
    assert -8.6 < hardest < -3.0


LIMP_H_S = 0.1
START_MS = 1_760_000_000_000
WHY = {"alert_id": "a1", "rule": "coolant_critical", "severity": "CRITICAL"}
IDS = ["limps", "sound"]
KMH = 3.6


def two_on_the_motorway(town: RoadNetwork) -> Fleet:
    """Two cars at speed on two long motorway edges."""
    fast = np.flatnonzero((town.limit_kmh >= 100) & (town.length_m > 400))
    edges = np.array([fast[0], fast[-1]])
    goals = np.array([straight_on(town, straight_on(town, int(edge))) for edge in edges])
    return fleet(town, OneTrip(edges, np.full(2, 20.0), goals, np.zeros(2)))


def drive(cars: Fleet, limp: LimpHome, seconds: float, now_ms: int) -> list[float]:
    """Speeds of the first car, km/h."""
    speeds = []
    for k in range(round(seconds / LIMP_H_S)):
        cars.step(LIMP_H_S)
        limp.step(now_ms + round(1000 * LIMP_H_S * (k + 1)), LIMP_H_S)
        speeds.append(KMH * float(cars.state.v[0]))
    return speeds


def at_speed(town: RoadNetwork) -> tuple[Fleet, LimpHome, TruthLog]:
    cars = two_on_the_motorway(town)
    for _ in range(300):
        cars.step(LIMP_H_S)
        if KMH * float(cars.state.v[0]) > 85:
            truth = TruthLog(IDS, START_MS)
            return cars, LimpHome(cars, truth), truth
    raise AssertionError(f"the car only reached {KMH * float(cars.state.v[0]):.0f} km/h")


def test_a_limping_vehicle_slows_down_gently_and_stays_slow(town: RoadNetwork) -> None:
    cars, limp, truth = at_speed(town)
    limp.enter(0, WHY)
    speeds = drive(cars, limp, 18.0, 0)
    assert truth.take() == []
    assert limp.entered == 1
    assert max(speeds[140:]) <= 50.5
    assert min(np.diff(speeds)) * 10 / KMH > -3.5  # no emergency braking, m/s2
    limp.close()
    assert truth.take() == [
        {
            "kind": "limp_home",
            "vehicle_id": "limps",
            "from_ms": START_MS + 100,
            "to_ms": None,
            "details": WHY,
        }
    ]


def test_others_do_not_notice_and_a_second_alert_changes_nothing(town: RoadNetwork) -> None:
    cars, limp, _ = at_speed(town)
    before = cars.drivers.top_mps.copy(), cars.drivers.pull.copy()
    limp.enter(0, WHY)
    drive(cars, limp, 1.0, 0)
    limp.enter(0, WHY | {"alert_id": "a2"})
    drive(cars, limp, 1.0, 1000)
    assert limp.entered == 1
    assert (cars.drivers.top_mps[1], cars.drivers.pull[1]) == (before[0][1], before[1][1])
    assert cars.drivers.pull[0] == pytest.approx(0.4 * before[1][0])


def test_with_the_ignition_off_it_is_over_and_the_vehicle_is_as_before(town: RoadNetwork) -> None:
    cars, limp, truth = at_speed(town)
    before = cars.drivers.top_mps.copy(), cars.drivers.pull.copy()
    limp.enter(0, WHY)
    drive(cars, limp, 2.0, 0)
    cars.state.parked[0] = True
    limp.step(2100, LIMP_H_S)
    limp.close()
    assert [(row["to_ms"], row["details"]["alert_id"]) for row in truth.take()] == [(START_MS + 2100, "a1")]
    np.testing.assert_array_equal(cars.drivers.top_mps, before[0])
    np.testing.assert_array_equal(cars.drivers.pull, before[1])


def test_who_is_parked_or_broken_down_has_nothing_to_limp_with(town: RoadNetwork) -> None:
    cars, limp, truth = at_speed(town)
    cars.state.parked[0] = True
    cars.break_down(1)
    limp.enter(0, WHY)
    limp.enter(1, WHY)
    limp.step(100, LIMP_H_S)
    limp.close()
    assert (limp.entered, truth.take()) == (0, [])
