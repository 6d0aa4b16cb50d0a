"""Receivers: the size of the error by place, jumps, tunnels, and the course."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator import scenario
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.telemetry.gnss import Gnss, GnssSettings, open_sigma_m, tunnels
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork, city, region
from edge_simulator.world import World
from infra.contract import frame
from infra.contract.errors import ConfigError

pytestmark = pytest.mark.slow

LAT, LON = 48.137, 11.575
CALM = GnssSettings(canyon_m=0, jump_share=0, tunnels=0)


@pytest.fixture(scope="module")
def net() -> RoadNetwork:
    return city(1, LAT, LON)


def errors_m(
    settings: GnssSettings, net: RoadNetwork, n: int, fixes: int, north_m: float = 0.0, edge: int = 0
) -> np.ndarray:
    """East and north errors of ``n`` standing receivers, one fix a second; [fixes, 2, n]."""
    gnss = Gnss(settings, np.random.default_rng(4), np.zeros(n), net)
    lat = np.full(n, LAT + north_m / gnss.north_m)
    lon = np.full(n, LON)
    found = []
    for _ in range(fixes):
        a, b = gnss.fix(lat, lon, np.full(n, edge), 1.0)
        found.append([(b - lon) * gnss.east_m, (a - lat) * gnss.north_m])
    return np.array(found)


def test_open_sky_has_two_metres_that_fade_in_a_minute_and_half_a_metre_of_noise(net: RoadNetwork) -> None:
    e = errors_m(CALM, net, 4000, 61)
    assert e[0].std() == pytest.approx(np.hypot(2, 0.5), rel=0.03)
    kept = np.mean(e[0] * e[60]) / 4
    assert kept == pytest.approx(np.exp(-1), abs=0.04)
    assert np.std(e[1] - e[0]) == pytest.approx(np.sqrt(2 * 4 * (1 - np.exp(-1 / 60)) + 2 * 0.25), rel=0.03)


def test_the_centre_is_a_canyon_of_6_to_10_m_and_the_outskirts_are_open() -> None:
    along = np.linspace(-300, 300, 601)
    sigma = open_sigma_m(GnssSettings(), *np.meshgrid(along, along))
    assert 5.9 < sigma.min() < 6.1
    assert 9.9 < sigma.max() < 10.1
    assert open_sigma_m(GnssSettings(), np.array([3000.0]), np.array([0.0])) == pytest.approx(2.0, abs=1e-3)


def test_within_no_radius_there_is_no_canyon_at_the_very_centre_either() -> None:
    here = np.array([0.0, 5.0])
    assert open_sigma_m(GnssSettings(canyon_radius_m=0.0), here, here).tolist() == [2.0, 2.0]


def test_a_receiver_in_the_centre_is_that_much_worse(net: RoadNetwork) -> None:
    settings = CALM.model_copy(update={"canyon_m": 8.0})
    assert errors_m(settings, net, 4000, 1)[0].std() == pytest.approx(8.0, rel=0.05)
    assert errors_m(settings, net, 4000, 1, north_m=4000)[0].std() == pytest.approx(2.06, rel=0.05)


def test_one_fix_in_a_hundred_is_thrown_off_by_20_to_60_m_for_seconds(net: RoadNetwork) -> None:
    settings = CALM.model_copy(update={"sigma_m": 0, "white_m": 0, "jump_share": 0.01})
    off_m = np.hypot(*errors_m(settings, net, 1000, 400).transpose(1, 0, 2))
    jumped = off_m > 1
    assert jumped.mean() == pytest.approx(0.01, rel=0.15)
    assert np.mean((off_m[jumped] > 19.9) & (off_m[jumped] < 60.1)) > 0.98  # the rest are two at once
    begins = (jumped[1:] & ~jumped[:-1]).sum()
    assert jumped.sum() / begins == pytest.approx(3.0, rel=0.1)


def test_tunnels_are_a_few_long_main_streets_in_both_directions(net: RoadNetwork) -> None:
    under = np.flatnonzero(tunnels(net, 4))
    assert len(under) == 8
    assert set(under.tolist()) == {edge ^ 1 for edge in under.tolist()}
    assert np.bincount(net.road_class[under], minlength=4).tolist() == [4, 4, 0, 0]
    assert streets.CLASSES[0] == "motorway"
    assert not tunnels(net, 0).any()


def test_every_town_has_its_own_canyon_and_tunnels() -> None:
    net = region(1, LAT, LON, 2)
    second = net.node_town[net.edge_from] == 1
    edge = int(np.flatnonzero(second)[0])
    there = CALM.model_copy(update={"canyon_m": 8.0})
    gnss = Gnss(there, np.random.default_rng(4), np.zeros(4000), net)
    lat, lon = np.full(4000, net.town_lat[1]), np.full(4000, net.town_lon[1])
    found, _ = gnss.fix(lat, lon, np.full(4000, edge), 1.0)
    assert np.std(found - lat) * gnss.north_m == pytest.approx(8.0, rel=0.05)
    away_m = (net.town_lat[1] - LAT) * gnss.north_m
    assert np.hypot(away_m, (net.town_lon[1] - LON) * gnss.east_m) > 5000
    assert tunnels(net, 4)[second].sum() == tunnels(net, 4)[~second].sum() == 8


def test_a_tunnel_has_no_fix_and_the_first_ones_after_it_are_worse(net: RoadNetwork) -> None:
    n = 3000
    gnss = Gnss(CALM.model_copy(update={"tunnels": 2}), np.random.default_rng(4), np.full(n, 90.0), net)
    inside, outside = int(np.flatnonzero(tunnels(net, 2))[0]), int(np.flatnonzero(~tunnels(net, 2))[0])
    here, speed = (np.full(n, LAT), np.full(n, LON)), np.full(n, 50.0)
    edge = np.full(n, outside)
    edge[0] = inside
    lat, lon = gnss.fix(*here, edge, 1.0)
    course = gnss.course(np.full(n, 90.0), speed, np.zeros(n))
    assert np.isnan(lat).tolist() == np.isnan(lon).tolist() == np.isnan(course).tolist()
    assert np.flatnonzero(np.isnan(lat)).tolist() == [0]
    for _ in range(3):
        gnss.fix(*here, np.full(n, inside), 1.0)
    first = gnss.fix(*here, np.full(n, outside), 1.0)[0]
    for _ in range(60):
        later = gnss.fix(*here, np.full(n, outside), 1.0)[0]
    assert not np.isnan(gnss.course(np.full(n, 90.0), speed, np.zeros(n))).any()
    assert np.std(first - LAT) * gnss.north_m > 8
    assert np.std(later - LAT) * gnss.north_m < 2.3


def test_the_course_is_held_below_3_kmh(net: RoadNetwork) -> None:
    gnss = Gnss(CALM, np.random.default_rng(4), np.zeros(2), net)
    gnss.course(np.array([90.0, 90.0]), np.array([50.0, 50.0]), np.zeros(2))
    held = gnss.course(np.array([180.0, 180.0]), np.array([2.9, 3.1]), np.zeros(2))
    assert held.tolist() == [90.0, 180.0]


def test_frames_from_a_tunnel_say_null_for_place_and_course_together() -> None:
    scenario = Scenario(
        seed=5, vehicles=600, cadence=cadence(600, None, 1000), start_ms=1_760_000_000_000,
        frames_per_vehicle=6, gnss=GnssSettings(tunnels=10**6),
    )  # fmt: skip
    bodies = [frame.decode(m.payload) for slot in World(scenario).slots() for m in slot.messages]
    gaps = [[v is None for v in b[name]] for b in bodies for name in ("lat_deg", "lon_deg", "heading_deg")]
    assert gaps[0::3] == gaps[1::3] == gaps[2::3]
    assert any(any(g) for g in gaps)
    assert any(any(g) and not all(g) for g in gaps)
    assert all(v is not None for b in bodies for v in b["speed_kmh"])


@pytest.mark.parametrize("wrong", [{"sigma_m": -1}, {"jump_share": 0.6}, {"jump_min_m": 70}, {"tau_s": 0}])
def test_senseless_receiver_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"gnss.*{next(iter(wrong))}"):
        scenario.load(None, {"gnss": wrong})
