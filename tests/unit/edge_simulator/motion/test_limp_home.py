"""Limp home: gently down to 50 km/h with little power, until the ignition goes off; then as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.mishaps import LimpHome
from edge_simulator.town.roads import RoadNetwork, city
from tests.support_traffic import OneTrip, fleet, straight_on

H_S = 0.1
START_MS = 1_760_000_000_000
WHY = {"alert_id": "a1", "rule": "coolant_critical", "severity": "CRITICAL"}
IDS = ["limps", "sound"]
KMH = 3.6


@pytest.fixture(scope="module")
def town() -> RoadNetwork:
    return city(1, 48.137, 11.575)


def two_on_the_motorway(town: RoadNetwork) -> Fleet:
    """Two cars at speed on two long motorway edges."""
    fast = np.flatnonzero((town.limit_kmh >= 100) & (town.length_m > 400))
    edges = np.array([fast[0], fast[-1]])
    goals = np.array([straight_on(town, straight_on(town, int(edge))) for edge in edges])
    return fleet(town, OneTrip(edges, np.full(2, 20.0), goals, np.zeros(2)))


def drive(cars: Fleet, limp: LimpHome, seconds: float, now_ms: int) -> tuple[list[float], list[Any]]:
    """Speeds of the first car, km/h, and what truth said."""
    speeds, truth = [], []
    for k in range(round(seconds / H_S)):
        cars.step(H_S)
        truth += limp.step(now_ms + round(1000 * H_S * (k + 1)), START_MS, H_S)
        speeds.append(KMH * float(cars.state.v[0]))
    return speeds, truth


def at_speed(town: RoadNetwork) -> tuple[Fleet, LimpHome]:
    cars = two_on_the_motorway(town)
    for _ in range(300):
        cars.step(H_S)
        if KMH * float(cars.state.v[0]) > 85:
            return cars, LimpHome(cars, IDS)
    raise AssertionError(f"the car only reached {KMH * float(cars.state.v[0]):.0f} km/h")


def test_a_limping_vehicle_slows_down_gently_and_stays_slow(town: RoadNetwork) -> None:
    cars, limp = at_speed(town)
    limp.enter(0, WHY)
    speeds, truth = drive(cars, limp, 18.0, 0)
    assert truth == []
    assert limp.entered == 1
    assert max(speeds[140:]) <= 50.5
    assert min(np.diff(speeds)) * 10 / KMH > -3.5  # no emergency braking, m/s2
    assert list(limp.still()) == [
        {
            "kind": "limp_home",
            "vehicle_id": "limps",
            "from_ms": START_MS + 100,
            "to_ms": None,
            "details": WHY,
        }
    ]


def test_others_do_not_notice_and_a_second_alert_changes_nothing(town: RoadNetwork) -> None:
    cars, limp = at_speed(town)
    before = cars.drivers.top_mps.copy(), cars.drivers.pull.copy()
    limp.enter(0, WHY)
    drive(cars, limp, 1.0, 0)
    limp.enter(0, WHY | {"alert_id": "a2"})
    drive(cars, limp, 1.0, 1000)
    assert limp.entered == 1
    assert (cars.drivers.top_mps[1], cars.drivers.pull[1]) == (before[0][1], before[1][1])
    assert cars.drivers.pull[0] == pytest.approx(0.4 * before[1][0])


def test_with_the_ignition_off_it_is_over_and_the_vehicle_is_as_before(town: RoadNetwork) -> None:
    cars, limp = at_speed(town)
    before = cars.drivers.top_mps.copy(), cars.drivers.pull.copy()
    limp.enter(0, WHY)
    drive(cars, limp, 2.0, 0)
    cars.state.parked[0] = True
    truth = limp.step(2100, START_MS, H_S)
    assert [(row["to_ms"], row["details"]["alert_id"]) for row in truth] == [(START_MS + 2100, "a1")]
    assert not limp.busy
    np.testing.assert_array_equal(cars.drivers.top_mps, before[0])
    np.testing.assert_array_equal(cars.drivers.pull, before[1])


def test_who_is_parked_or_broken_down_has_nothing_to_limp_with(town: RoadNetwork) -> None:
    cars, limp = at_speed(town)
    cars.state.parked[0] = True
    cars.break_down(1)
    limp.enter(0, WHY)
    limp.enter(1, WHY)
    assert limp.step(100, START_MS, H_S) == []
    assert (limp.entered, limp.busy) == (0, False)
