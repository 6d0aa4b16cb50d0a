"""The day profile: who is where at which hour, without simulating from midnight."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.motion import diary
from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.town_day import Day
from edge_simulator.town.roads import RoadNetwork, city
from edge_simulator.vehicle import vehicles

pytestmark = pytest.mark.slow

TUESDAY, SUNDAY = 1, 6
N = 2000


@pytest.fixture(scope="module")
def town() -> RoadNetwork:
    return city(1, 48.137, 11.575)


def fleet_at(town: RoadNetwork, hour: float, weekday: int = TUESDAY, n: int = N) -> tuple[Fleet, Day]:
    rng = np.random.default_rng(9)
    specs = vehicles.Specs(vehicles.draw(rng, n))
    agenda = Day(town, specs, rng, hour * 3600, weekday)
    return Fleet(town, specs, rng, agenda), agenda


def under_way(town: RoadNetwork, hour: float, weekday: int = TUESDAY) -> float:
    return float((~fleet_at(town, hour, weekday)[0].state.parked).mean())


def test_most_vehicles_are_under_way_at_eight_and_hardly_any_at_three(town: RoadNetwork) -> None:
    assert under_way(town, 3.0) < 0.05
    assert under_way(town, 8.0) > 3 * under_way(town, 3.0)
    assert under_way(town, 17.2) > 1.5 * under_way(town, 22.5)


def test_a_sunday_morning_is_quieter_than_a_tuesday_morning(town: RoadNetwork) -> None:
    assert under_way(town, 8.0, SUNDAY) < 0.4 * under_way(town, 8.0, TUESDAY)


def test_commuters_are_at_work_at_eleven_and_at_home_at_night(town: RoadNetwork) -> None:
    noon, agenda = fleet_at(town, 11.0)
    commuter = agenda.role == diary.COMMUTER
    assert 0.7 < (noon.state.edge == agenda.work[0])[commuter].mean() < 0.95
    night, agenda = fleet_at(town, 2.5)
    assert (night.state.edge == agenda.base[0])[commuter].mean() > 0.95
    assert night.charging()[commuter].mean() > 0.95
    assert not night.ignition_on()[commuter].any()


def test_lorries_of_the_motorway_drive_at_night_and_rest_at_the_depot(town: RoadNetwork) -> None:
    night, agenda = fleet_at(town, 1.0)
    haul = agenda.role == diary.HAUL
    driving = haul & ~night.state.parked
    assert driving.sum() > 0.15 * haul.sum()
    assert (town.road_class[night.state.edge[driving]] == 0).mean() > 0.6
    assert night.state.at_base[haul & night.state.parked].all()


def test_starting_at_eight_resembles_a_fleet_that_has_lived_for_half_an_hour(town: RoadNetwork) -> None:
    lived, _ = fleet_at(town, 7.5, n=1000)
    for _ in range(int(1800 / 0.5)):
        lived.step(0.5)
    begun, _ = fleet_at(town, 8.0, n=1000)
    assert (~lived.state.parked).mean() == pytest.approx((~begun.state.parked).mean(), rel=0.35)
    assert lived.state.at_base.mean() == pytest.approx(begun.state.at_base.mean(), abs=0.08)


def test_the_same_seed_gives_the_same_day(town: RoadNetwork) -> None:
    one, _ = fleet_at(town, 8.0, n=300)
    two, _ = fleet_at(town, 8.0, n=300)
    for _ in range(200):
        one.step(0.5)
        two.step(0.5)
    assert np.array_equal(one.state.lat, two.state.lat)
    assert np.array_equal(one.state.wake_s, two.state.wake_s)


def test_delivery_rounds_make_twenty_to_sixty_stops_a_day(town: RoadNetwork) -> None:
    fleet, agenda = fleet_at(town, 9.0, n=1200)
    vans = agenda.role == diary.PARCELS
    stops = 0
    for _ in range(1800):  # a quarter of an hour
        before = fleet.state.parked
        fleet.step(0.5)
        stops += int((fleet.state.parked & ~before)[vans].sum())
    assert 20 < stops / vans.sum() * 4 * 8.5 < 60


def test_delivery_vans_are_back_at_the_depot_in_the_evening(town: RoadNetwork) -> None:
    fleet, agenda = fleet_at(town, 21.0)
    vans = agenda.role == diary.PARCELS
    assert fleet.state.at_base[vans].all()
    assert len(np.unique(fleet.state.edge[vans])) <= 6
