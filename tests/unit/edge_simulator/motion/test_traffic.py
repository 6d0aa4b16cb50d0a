"""Traffic: queues form and dissolve, nobody drives through anybody, junctions have rules and no gridlock."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.geo import Floats
from edge_simulator.motion.fleet import Fleet
from edge_simulator.town.roads import RoadNetwork, city
from edge_simulator.vehicle import vehicles
from tests.support_traffic import OneTrip, bumper_gaps_m, fleet, jam, straight_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def town() -> RoadNetwork:
    return city(1, 48.137, 11.575)


def crowd(town: RoadNetwork, n: int, seed: int = 2) -> Fleet:
    rng = np.random.default_rng(seed)
    return Fleet(town, vehicles.Specs(vehicles.draw(rng, n)), rng)


def row_of(town: RoadNetwork, edge: int, n: int, spacing_m: float, to_end_m: float) -> Floats:
    return town.length_m[edge] - to_end_m - spacing_m * np.arange(n)


def signalled(town: RoadNetwork) -> int:
    long = (town.length_m > 330) & (town.signal_cycle_s[town.edge_to] > 0) & (town.limit_kmh == 60)
    return int(np.flatnonzero(long)[3])


@pytest.mark.parametrize(("h_s", "seconds"), [(0.1, 20), (0.2, 40), (0.5, 60)])
def test_no_two_vehicles_of_a_lane_overlap_in_a_crowded_town(
    town: RoadNetwork, h_s: float, seconds: int
) -> None:
    many = crowd(town, 6000)
    least = []
    for _ in range(int(seconds / h_s)):
        many.step(h_s)
        least.append(bumper_gaps_m(many).min())
        assert many.state.v.min() >= 0
        assert many.state.a.min() > -9.0
    assert min(least) > -0.5


def test_steps_of_half_a_second_give_nearly_the_same_traffic(town: RoadNetwork) -> None:
    driven = {}
    for h_s in (0.1, 0.5):
        many = crowd(town, 1500)
        before = many.state.odometer_m.sum()
        for _ in range(int(150 / h_s)):
            many.step(h_s)
        driven[h_s] = many.state.odometer_m.sum() - before
    assert driven[0.5] == pytest.approx(driven[0.1], rel=0.04)


def test_the_same_seed_gives_the_same_motion(town: RoadNetwork) -> None:
    one, two = crowd(town, 300), crowd(town, 300)
    for _ in range(300):
        one.step(0.1)
        two.step(0.1)
    assert np.array_equal(one.state.lat, two.state.lat)
    assert np.array_equal(one.state.v, two.state.v)


def test_a_queue_at_a_signal_discharges_at_about_1800_vehicles_an_hour(town: RoadNetwork) -> None:
    edge = signalled(town)
    goal = straight_on(town, straight_on(town, edge))
    n = 36
    cars = jam(
        town, OneTrip(np.full(n, edge), row_of(town, edge, n, 8.0, 10.0), np.full(n, goal), np.zeros(n))
    )
    times = []
    for _ in range(2000):
        before = cars.state.edge
        cars.step(0.1)
        times += [cars.t_s] * int(((before == edge) & (cars.state.edge != edge)).sum())
    green = [g for g in np.split(np.array(times), np.flatnonzero(np.diff(times) > 8) + 1) if len(g) >= 8]
    flows = [3600 * (len(g) - 4) / (g[-1] - g[3]) for g in green]
    assert len(times) >= 30
    assert 1550 < np.mean(flows) < 2100


def test_nobody_enters_a_street_that_is_full_and_the_queue_spills_back(town: RoadNetwork) -> None:
    edge = signalled(town)
    full = straight_on(town, edge)
    standing = np.arange(town.length_m[full] - 9.0, 6.0, -7.2)
    n, m = 12, len(standing)
    cars = jam(
        town,
        OneTrip(
            np.concatenate([np.full(n, edge), np.full(m, full)]),
            np.concatenate([row_of(town, edge, n, 20.0, 60.0), standing]),
            np.full(n + m, straight_on(town, full)),
            np.zeros(n + m),
        ),
    )
    for blocked in range(n, n + m):
        cars.break_down(blocked)
    for _ in range(190):
        cars.step(0.1)
    st = cars.state
    assert (st.edge[:n] == edge).all()
    assert (st.v[:n] < 0.3).sum() >= 3


def lesser_and_better(town: RoadNetwork) -> tuple[int, int, int]:
    """An edge that ends at an arterial without a signal, the arterial's edge there, and the one after it."""
    plain = (town.signal_cycle_s == 0) & (town.node_class == 1)
    for edge in np.flatnonzero(plain[town.edge_to] & (town.road_class == 3) & (town.length_m > 200)).tolist():
        ends = (town.edge_to == town.edge_to[edge]) & (town.road_class == 1) & (town.length_m > 250)
        for main in np.flatnonzero(ends).tolist():
            after = straight_on(town, main)
            if town.road_class[after] == 1:
                return edge, main, after
    raise AssertionError("no such junction")


def test_who_comes_on_the_lesser_street_lets_the_better_one_pass(town: RoadNetwork) -> None:
    edge, main, after = lesser_and_better(town)
    n = 8
    spots = np.concatenate([[town.length_m[edge] - 40.0], row_of(town, main, n, 30.0, 20.0)])
    agenda = OneTrip(np.array([edge] + [main] * n), spots, np.full(n + 1, after), np.zeros(n + 1))
    cars = fleet(town, agenda)
    entered = np.full(n + 1, np.inf)
    for _ in range(900):
        cars.step(0.1)
        entered = np.where((cars.state.edge == after) & np.isinf(entered), cars.t_s, entered)
    assert np.isfinite(entered).all()
    assert (entered[0] > entered[1:]).sum() >= 5


def test_a_ring_of_full_streets_does_not_lock_for_ever(town: RoadNetwork) -> None:
    edge, ring = int(np.flatnonzero(town.road_class == 3)[200]), []
    while edge not in ring and len(ring) < 12:
        ring.append(edge)
        choices = town.out_edges[town.edge_to[edge]]
        choices = choices[(choices >= 0) & (choices != edge ^ 1)]
        edge = int(choices[np.argmax(np.sin(town.heading_in[choices] - town.heading_out[edge]))])
    places = [(e, s) for e in ring for s in np.arange(town.length_m[e] - 10, 6, -6.7)]
    edges, spots = np.array([p[0] for p in places]), np.array([p[1] for p in places])
    goals = np.array([ring[(ring.index(e) + 2) % len(ring)] for e in edges])
    cars = jam(town, OneTrip(edges, spots, goals, np.zeros(len(edges))))
    while cars.state.parked.mean() <= 0.9:
        cars.step(0.5)
        assert cars.t_s < 2700
