"""The made-up city: deterministic, connected, measured geodesically."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from geopy.distance import geodesic
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_simulator.town.roads import RoadNetwork, city, region
from infra.contract.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def munich() -> RoadNetwork:
    return city(1, 48.137, 11.575)


def test_same_seed_makes_the_same_city(munich: RoadNetwork) -> None:
    built_again = region.__wrapped__(1, 48.137, 11.575, 1)
    assert built_again is not munich
    assert list(built_again.edges()) == list(munich.edges())
    assert list(city(2, 48.137, 11.575).edges()) != list(munich.edges())


def test_every_node_reaches_every_other(munich: RoadNetwork) -> None:
    assert len(munich.node_lat) >= 500
    assert np.isfinite(munich.route_s).all()


def test_an_edge_is_as_long_as_its_line_on_the_ground(munich: RoadNetwork) -> None:
    for _, road_class, limit, length_m, path in list(munich.edges())[::97]:
        assert road_class in ("motorway", "arterial", "collector", "residential")
        assert limit in (30, 50, 60, 100)
        assert length_m == pytest.approx(geodesic(*path).m, abs=1e-6)


def test_the_city_is_about_twelve_kilometres_across(munich: RoadNetwork) -> None:
    west, east = munich.point_lon.min(), munich.point_lon.max()
    assert 9_000 < geodesic((48.137, west), (48.137, east)).m < 18_000


def test_a_route_of_next_edges_arrives_in_the_least_time(munich: RoadNetwork) -> None:
    edge, goal = np.array([100]), np.array([1502])
    least_s = float(munich.travel_s(munich.edge_to[edge], goal)[0])
    spent = 0.0
    for _ in range(200):
        following = munich.next_edge(edge, goal)
        assert following[0] != edge[0] ^ 1, "turned on the spot"
        assert munich.edge_from[following[0]] == munich.edge_to[edge[0]]
        if following[0] in (1502, 1503):
            break
        spent += munich.drive_s[following[0]]
        edge = following
    assert following[0] in (1502, 1503)
    assert least_s <= spent <= least_s + 120


def test_a_delay_ahead_sends_drivers_another_way(munich: RoadNetwork) -> None:
    edge, goal = np.array([100]), np.array([1502])
    usual = munich.next_edge(edge, goal)
    delay_s = np.zeros(len(munich.length_m))
    delay_s[usual] = 600.0
    assert munich.next_edge(edge, goal, delay_s)[0] != usual[0]


def test_towns_of_a_region_lie_apart_and_each_is_a_network_of_its_own(munich: RoadNetwork) -> None:
    three = region(1, 48.137, 11.575, 3)
    first = len(munich.length_m)
    assert np.array_equal(three.length_m[:first], munich.length_m)
    assert np.array_equal(three.node_town[three.edge_from], three.node_town[three.edge_to])
    boxes = []
    for town in range(3):
        inside = three.node_town == town
        boxes.append([three.node_lat[inside], three.node_lon[inside]])
    for (lat_a, lon_a), (lat_b, lon_b) in combinations(boxes, 2):
        apart = lat_a.min() > lat_b.max() or lat_b.min() > lat_a.max()
        assert apart or lon_a.min() > lon_b.max() or lon_b.min() > lon_a.max()


def test_routes_in_the_third_town_stay_in_it() -> None:
    three = region(1, 48.137, 11.575, 3)
    own = np.flatnonzero(three.node_town[three.edge_from] == 2)
    edge, goal = own[:50], own[-50:]
    assert np.isfinite(three.travel_s(three.edge_to[edge], goal)).all()
    assert (three.node_town[three.edge_from[three.next_edge(edge, goal)]] == 2).all()


@settings(max_examples=5)
@given(seed=st.integers(0, 10_000), lat=st.floats(-70, 70), lon=st.floats(-170, 170))
def test_any_coordinate_and_seed_make_a_usable_city(seed: int, lat: float, lon: float) -> None:
    net = city(seed, lat, lon)
    assert len(net.node_lat) >= 500
    assert np.isfinite(net.route_s).all()
    assert (np.bincount(net.edge_from) >= 2).all(), "a dead end"
    assert net.length_m.min() > 1.0


def test_a_coordinate_at_the_pole_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"latitude -80\.\.80"):
        city(1, 89.9, 0.0)
