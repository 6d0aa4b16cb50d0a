"""What the fleet's motion is made of: the drivers' habits and the state arrays, and how both begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.roads import RoadNetwork
from edge_simulator.vehicles import Specs

PARKED_AT_START = 0.12
AGGRESSIVE_SHARE = 0.1
COMFORT_FLOOR_MPS2 = {"car": -3.5, "van": -3.0, "heavy": -2.4}


@dataclass(frozen=True, slots=True)
class Drivers:
    """What makes drivers differ; each [n_vehicles]."""

    accel: Floats
    brake: Floats
    headway_s: Floats
    limit_factor: Floats
    floor: Floats
    """The hardest braking outside an emergency, m/s2 (negative)."""


@dataclass(slots=True)
class State:
    """The motion, each [n_vehicles]. ``park_at`` is where on the edge a trip ends, FREE where it goes on."""

    edge: Ints
    s: Floats
    next_edge: Ints
    destination: Ints
    park_at: Floats
    turn_v: Floats
    lat: Floats
    lon: Floats
    heading: Floats
    odometer_m: Floats
    v: Floats
    a: Floats
    yaw_rps: Floats
    """Right positive, as headings grow."""
    curvature: Floats
    slope: Floats
    altitude: Floats
    parked: Bools
    wake_s: Floats
    started_s: Floats
    """When the ignition last went on."""
    emergency_until: Floats
    emergency_mps2: Floats
    crashed: Bools
    impact_mps: Floats
    """Speed to take off in the next step: a collision."""


def placed(net: RoadNetwork, n: int, rng: np.random.Generator) -> State:
    """A fleet spread over the roads, most of it under way; the next edges are still to be chosen."""
    edge = rng.choice(len(net.length_m), n, p=net.length_m / net.length_m.sum())
    s = rng.uniform(0.05, 0.7, n) * net.length_m[edge]
    destination = rng.integers(0, len(net.node_lat), n)
    point, share = net.locate(edge, s)
    parked = rng.random(n) < PARKED_AT_START
    lat = net.point_lat[point] + share * (net.point_lat[point + 1] - net.point_lat[point])
    lon = net.point_lon[point] + share * (net.point_lon[point + 1] - net.point_lon[point])
    zeros = np.zeros(n)
    return State(
        edge=edge, s=s, next_edge=edge.copy(), destination=destination, park_at=np.full(n, np.inf),
        turn_v=zeros.copy(), lat=lat, lon=lon, heading=net.heading_in[edge] % (2 * np.pi),
        odometer_m=np.round(rng.uniform(5e6, 1.8e8, n)), a=zeros.copy(), yaw_rps=zeros.copy(),
        v=np.where(parked, 0.0, 0.5 * net.limit_kmh[edge] / 3.6), curvature=zeros.copy(),
        slope=zeros.copy(), altitude=net.point_alt[point], parked=parked,
        wake_s=np.where(parked, rng.uniform(5, 400, n), np.inf), started_s=np.full(n, -900.0),
        emergency_until=zeros - 1, emergency_mps2=zeros.copy(), crashed=np.zeros(n, dtype=np.bool_),
        impact_mps=zeros.copy(),
    )  # fmt: skip


def approach_mps2(who: Drivers) -> Floats:
    """Deceleration for a turn that the driver sees coming, m/s2."""
    return np.minimum(0.8 * who.brake, 1.6)


def drivers(specs: Specs, rng: np.random.Generator) -> Drivers:
    """Drivers who differ: log-normal spread, and a share of aggressive ones."""
    n = len(specs.model)
    spread = np.exp(rng.normal(0.0, 0.15, (3, n)))
    rash = rng.random(n) < AGGRESSIVE_SHARE
    mass = specs("mass_kg")
    floor = np.select(
        [mass > 10_000, mass > 2_000],
        [COMFORT_FLOOR_MPS2["heavy"], COMFORT_FLOOR_MPS2["van"]],
        COMFORT_FLOOR_MPS2["car"],
    )
    return Drivers(
        accel=specs("accel_mps2") * spread[0] * np.where(rash, 1.5, 1.0),
        brake=specs("brake_mps2") * spread[1] * np.where(rash, 1.6, 1.0),
        headway_s=specs("headway_s") * spread[2] * np.where(rash, 0.7, 1.0),
        limit_factor=np.clip(rng.normal(0.97, 0.05, n) + np.where(rash, 0.14, 0.0), 0.85, 1.3),
        floor=np.where(rash, floor * 1.4, floor),
    )
