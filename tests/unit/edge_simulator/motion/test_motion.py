"""Motion is coherent: position, speed, acceleration, heading and yaw rate are one movement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from geopy.distance import geodesic

from edge_simulator.geo import Floats, wrap_pi
from edge_simulator.motion.fleet import Fleet
from edge_simulator.town.roads import city
from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine

pytestmark = pytest.mark.slow

H_S = 0.1
STEPS = 1200


@dataclass(frozen=True, slots=True)
class Log:
    """States of 60 vehicles over two minutes, [steps, vehicles]."""

    fleet: Fleet
    machine: Machine
    v: Floats
    a: Floats
    lat: Floats
    lon: Floats
    heading: Floats
    yaw: Floats
    odometer: Floats
    rpm: Floats
    gear: Floats
    soc: Floats
    pack_w: Floats
    fuel_l: Floats
    off_route_m: Floats


@pytest.fixture(scope="module")
def log() -> Log:
    rng = np.random.default_rng(11)
    net = city(1, 48.137, 11.575)
    specs = vehicles.Specs(vehicles.draw(rng, 60))
    fleet, machine = Fleet(net, specs, rng), Machine(specs, rng, 16.0)
    rows = []
    for _ in range(STEPS):
        fleet.step(H_S)
        machine.step(fleet.state, fleet.ignition_on(), H_S)
        s, m = fleet.state, machine.state
        point, share = net.locate(s.edge, s.s)
        lat = net.point_lat[point] + share * np.diff(net.point_lat)[point]
        lon = net.point_lon[point] + share * np.diff(net.point_lon)[point]
        off = np.hypot((lat - s.lat) * 111_200, (lon - s.lon) * 74_400)
        rows.append((s.v, s.a, s.lat, s.lon, s.heading, s.yaw_rps, s.odometer_m, m.rpm, m.gear * 1.0, m.soc,
                     m.pack_v * m.pack_a, m.fuel_l, off))  # fmt: skip
    return Log(fleet, machine, *(np.array(column) for column in zip(*rows, strict=True)))


def test_speed_is_never_negative_and_heading_stays_in_the_circle(log: Log) -> None:
    assert log.v.min() >= 0
    assert log.heading.min() >= 0
    assert log.heading.max() < 2 * np.pi


def test_acceleration_is_the_change_of_speed(log: Log) -> None:
    assert np.allclose(np.diff(log.v, axis=0) / H_S, log.a[1:], atol=1e-9)


def test_odometer_is_the_integral_of_speed(log: Log) -> None:
    driven = ((log.v[1:] + log.v[:-1]) / 2 * H_S).sum(axis=0)
    assert np.allclose(log.odometer[-1] - log.odometer[0], driven, atol=1e-4)


def test_position_is_the_integral_of_speed(log: Log) -> None:
    for vehicle in range(0, 60, 12):
        trace = list(zip(log.lat[:, vehicle], log.lon[:, vehicle], strict=True))
        length = sum(geodesic(a, b).m for a, b in pairwise(trace))
        driven = log.odometer[-1, vehicle] - log.odometer[0, vehicle]
        assert length == pytest.approx(driven, rel=0.0005, abs=0.1)


def test_yaw_rate_is_the_change_of_heading(log: Log) -> None:
    assert np.allclose(wrap_pi(np.diff(log.heading, axis=0)) / H_S, log.yaw[1:], atol=1e-9)


def test_cornering_stays_within_what_tyres_and_drivers_do(log: Log) -> None:
    assert np.abs(log.v * log.yaw).max() < 5.5
    assert np.degrees(np.abs(log.yaw)).max() < 90


def test_vehicles_keep_to_their_route(log: Log) -> None:
    assert np.percentile(log.off_route_m, 99) < 6.0
    assert log.off_route_m.max() < 25.0


def test_traffic_moves_and_also_stops(log: Log) -> None:
    assert (log.v.max(axis=0) > 8).mean() > 0.8
    assert 0.03 < (log.v < 0.05).mean() < 0.6


def test_engine_speed_follows_gear_and_road_speed(log: Log) -> None:
    specs = log.fleet.specs
    for vehicle in np.flatnonzero(~log.machine.electric)[:12]:
        gear = log.gear[:, vehicle].astype(int)
        ratio = specs.rpm_per_kmh[vehicle, np.maximum(gear, 1) - 1]
        expected = np.where(gear > 0, ratio * log.v[:, vehicle] * 3.6, 0)
        running = log.rpm[:, vehicle] > 0
        wanted = np.maximum(expected, specs("idle_rpm")[vehicle])
        assert np.allclose(log.rpm[running, vehicle], wanted[running])
        assert log.rpm[50:, vehicle].max() <= specs("top_rpm")[vehicle]


def test_charge_falls_by_the_power_drawn(log: Log) -> None:
    for vehicle in np.flatnonzero(log.machine.electric)[:6]:
        energy_kwh = log.pack_w[1:, vehicle].sum() * H_S / 3.6e6
        fall = log.soc[0, vehicle] - log.soc[-1, vehicle]
        assert fall * log.fleet.specs("pack_kwh")[vehicle] == pytest.approx(energy_kwh, rel=0.15, abs=0.003)


def test_fuel_only_ever_falls(log: Log) -> None:
    assert (np.diff(log.fuel_l, axis=0) <= 0).all()
