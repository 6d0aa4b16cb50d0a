"""Making road networks: a made-up town around any coordinate, or a region of several.

``city(seed, lat, lon)`` is one town about 12 km across; ``region`` sets several side by side. Lengths are
geodesic (WGS 84).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from geopy.distance import geodesic

from edge_simulator.geo import Floats, Ints, Metric, bearing_rad, metres_per_degree, wrap_pi
from edge_simulator.town import streets
from edge_simulator.town.network import EdgeRow, Parts, RoadNetwork, Routes
from infra.contract.errors import ConfigError

__all__ = ["EdgeRow", "RoadNetwork", "city", "region"]

BASE_ALTITUDE_M = 520.0
CURVE_ACCEL_MPS2 = 2.2
APPROACH_DECEL_MPS2 = 1.2
TOWN_SPACING_M = 20_000.0


VEHICLES_A_TOWN = {"steady": 10_000, "day": 20_000}
"""Most vehicles of one town: of those with a day to live only one in five to ten is under way at a time."""


def towns(profile: str, vehicles: int) -> int:
    """How many towns a fleet needs."""
    return max(1, -(-vehicles // VEHICLES_A_TOWN[profile]))


def city(seed: int, lat_deg: float, lon_deg: float) -> RoadNetwork:
    """The city of ``seed`` around a coordinate, about 12 km across; the same arguments give the same city.

    Raises ConfigError for a coordinate where a city of that width does not fit on the map.
    """
    return region(seed, lat_deg, lon_deg, 1)


def region(seed: int, lat_deg: float, lon_deg: float, towns: int) -> RoadNetwork:
    """``towns`` different towns in a square around a coordinate, ``TOWN_SPACING_M`` apart, the first in it.

    No road joins them. Raises ConfigError where they do not fit on the map.
    """
    offsets_m = TOWN_SPACING_M * np.array(_spiral(towns), dtype=np.float64)[:, ::-1]
    centres = [tuple(map(float, _to_degrees(offset, lat_deg, lon_deg))) for offset in offsets_m]
    if not all(abs(lat) <= 80 and abs(lon) <= 179 for lat, lon in centres):
        raise ConfigError(f"coordinate {lat_deg}, {lon_deg}: latitude -80..80 and longitude -179..179 wanted")
    metric = Metric.around(lat_deg)
    nets = []
    for k, (lat, lon) in enumerate(centres):
        rng = np.random.default_rng([seed, 1] if k == 0 else [seed, 1, k])
        nets.append(_town(streets.plan(rng), rng, lat, lon, metric))
    return _side_by_side(nets)


def _spiral(count: int) -> list[tuple[int, int]]:
    """The ``count`` points of the square lattice nearest to its origin, the origin first."""
    reach = range(-count, count + 1) if count < 8 else range(-int(count**0.5) - 1, int(count**0.5) + 2)
    cells = sorted(
        itertools.product(reach, reach), key=lambda c: (max(abs(c[0]), abs(c[1])), abs(c[0]) + abs(c[1]), c)
    )
    return cells[:count]


def _side_by_side(nets: Sequence[RoadNetwork]) -> RoadNetwork:
    """The towns as one network: indices shifted, arrays one after the other."""
    if len(nets) == 1:
        return nets[0]
    nodes = np.cumsum([0, *(len(n.node_lat) for n in nets)])
    edges = np.cumsum([0, *(len(n.length_m) for n in nets)])
    times = np.cumsum([0, *(len(n.routes.time_s) for n in nets)])
    most = max(n.out_edges.shape[1] for n in nets)
    out = [np.pad(n.out_edges, ((0, 0), (0, most - n.out_edges.shape[1])), constant_values=-1) for n in nets]
    shifted = {
        "edge_from": [n.edge_from + k for n, k in zip(nets, nodes, strict=False)],
        "edge_to": [n.edge_to + k for n, k in zip(nets, nodes, strict=False)],
        "node_town": [n.node_town + k for k, n in enumerate(nets)],
        "out_edges": [np.where(table >= 0, table + k, -1) for table, k in zip(out, edges, strict=False)],
    }
    whole = {
        f.name: np.concatenate(shifted.get(f.name) or [getattr(n, f.name) for n in nets])
        for f in fields(RoadNetwork)
        if f.name not in ("metric", "parts", "routes")
    }
    parts = {f.name: np.concatenate([getattr(n.parts, f.name) for n in nets]) for f in fields(Parts)}
    routes = Routes(
        np.concatenate([n.routes.time_s for n in nets]),
        np.concatenate([n.routes.row + k for n, k in zip(nets, times, strict=False)]),
        np.concatenate([n.routes.column for n in nets]),
    )
    return RoadNetwork(metric=nets[0].metric, parts=Parts(**parts), routes=routes, **whole)


def _town(
    plan: streets.Plan, rng: np.random.Generator, lat_deg: float, lon_deg: float, metric: Metric
) -> RoadNetwork:
    path_lat, path_lon = _to_degrees(plan.path_m, lat_deg, lon_deg)
    node_lat, node_lon = _to_degrees(plan.node_m, lat_deg, lon_deg)
    part_m = _both_ways(_part_lengths(path_lat, path_lon))
    s = np.concatenate([np.zeros((len(part_m), 1)), np.cumsum(part_m, axis=1)], axis=1)
    lat, lon = _both_ways(path_lat), _both_ways(path_lon)
    heading = bearing_rad(lat[:, :-1], lon[:, :-1], lat[:, 1:], lon[:, 1:])
    edge_from = np.column_stack([plan.link[:, 0], plan.link[:, 1]]).ravel()
    edge_to = edge_from.reshape(-1, 2)[:, ::-1].ravel()
    road_class, limit = np.repeat(plan.road_class, 2), np.repeat(plan.limit_kmh, 2)
    drive_s = s[:, -1] / (limit / 3.6) + 4.0
    v2 = _curve_v2(s, heading)
    node_class = np.full(len(node_lat), streets.RESIDENTIAL, dtype=np.int64)
    np.minimum.at(node_class, edge_to, road_class)
    node = np.arange(len(node_lat))
    times = _all_times(edge_from, edge_to, drive_s, len(node_lat))
    cycle = _signals(rng, edge_to, road_class, len(node_lat))
    alt = _altitude(rng, _both_ways(plan.path_m))
    return RoadNetwork(
        metric=metric, node_lat=node_lat, node_lon=node_lon, edge_from=edge_from, edge_to=edge_to,
        node_town=np.zeros(len(node_lat), dtype=np.int64),
        town_lat=np.array([lat_deg]), town_lon=np.array([lon_deg]),
        road_class=road_class, limit_kmh=limit, limit_mps=limit / 3.6,
        lanes=np.where(road_class == streets.MOTORWAY, 2, 1), length_m=s[:, -1].copy(),
        heading_in=heading[:, 0].copy(), heading_out=heading[:, -1].copy(),
        bend_1=s[:, 1].copy(), bend_2=s[:, 2].copy(), point_s=s.ravel(),
        point_lat=lat.ravel(), point_lon=lon.ravel(), point_alt=alt.ravel(), point_v2=v2.ravel(),
        parts=_parts(metric, lat, lon, alt, v2, part_m), out_edges=_out_edges(edge_from, len(node_lat)),
        drive_s=drive_s, routes=Routes(times.ravel(), node * len(node_lat), node),
        node_class=node_class, signal_cycle_s=cycle, signal_offset_s=rng.uniform(0, 90, len(node_lat)),
        signal_group=(np.abs(np.cos(heading[:, -1] - heading[0, -1])) < 0.7071).astype(np.int64),
    )  # fmt: skip


def _parts(metric: Metric, lat: Floats, lon: Floats, alt: Floats, v2: Floats, part_m: Floats) -> Parts:
    def step(values: Floats) -> Floats:
        return np.diff(values, axis=1, append=values[:, -1:])

    north, east = metric.metres(lat)
    dx, dy = step(lon) * east, step(lat) * north
    size = np.maximum(np.hypot(dx, dy), 1e-9)
    per_m = np.pad(1 / part_m, ((0, 0), (0, 1)))
    columns = (per_m, step(lat), step(lon), dx / size, dy / size, step(v2), step(alt) * per_m, step(alt))
    return Parts(*(c.ravel() for c in columns))


def _to_degrees(m: Floats, lat_deg: float, lon_deg: float) -> tuple[Floats, Floats]:
    north, _ = metres_per_degree(np.float64(lat_deg))
    lat = lat_deg + m[..., 1] / north
    _, east = metres_per_degree(lat)
    return lat, lon_deg + m[..., 0] / east


def _part_lengths(lat: Floats, lon: Floats) -> Floats:
    """Geodesic length of each polyline's parts, [n_links, POINTS - 1], m."""
    points = np.stack([lat, lon], axis=-1).tolist()
    return np.array(
        [[geodesic(a, b).m for a, b in itertools.pairwise(line)] for line in points],
        dtype=np.float64,
    )


def _both_ways(rows: Floats) -> Floats:
    """Each row followed by itself reversed."""
    return np.stack([rows, rows[:, ::-1]], axis=1).reshape(-1, *rows.shape[1:])


def _altitude(rng: np.random.Generator, m: Floats) -> Floats:
    """Gentle hills over the plan, m above sea level; slopes stay below about 4 %."""
    height = np.full(m.shape[:-1], BASE_ALTITUDE_M)
    for amplitude, length in ((18.0, 7000.0), (7.0, 2900.0)):
        turn, px, py = rng.uniform(0, 2 * np.pi, 3)
        across = m[..., 0] * np.cos(turn) + m[..., 1] * np.sin(turn)
        along = m[..., 1] * np.cos(turn) - m[..., 0] * np.sin(turn)
        height += (
            amplitude * np.sin(2 * np.pi * across / length + px) * np.sin(2 * np.pi * along / length + py)
        )
    return height


def _curve_v2(s: Floats, heading: Floats) -> Floats:
    """Speed squared that a bend allows at each point, lowered so that braking begins in time."""
    bend = np.abs(wrap_pi(np.diff(heading, axis=1)))
    part = np.diff(s, axis=1)
    radius = (part[:, 1:] + part[:, :-1]) / 2 / np.maximum(bend, 1e-6)
    v2 = np.full(s.shape, 70.0**2)
    v2[:, 1:-1] = np.clip(CURVE_ACCEL_MPS2 * radius, 16.0, 70.0**2)
    for k in range(s.shape[1] - 2, -1, -1):
        v2[:, k] = np.minimum(v2[:, k], v2[:, k + 1] + 2 * APPROACH_DECEL_MPS2 * part[:, k])
    return v2


def _out_edges(edge_from: Ints, n_nodes: int) -> Ints:
    degree = np.bincount(edge_from, minlength=n_nodes)
    table = np.full((n_nodes, int(degree.max())), -1, dtype=np.int64)
    order = np.argsort(edge_from, kind="stable")
    column = np.arange(len(order)) - np.repeat(np.cumsum(degree) - degree, degree)
    table[edge_from[order], column] = order
    return table


def _all_times(edge_from: Ints, edge_to: Ints, drive_s: Floats, n_nodes: int) -> Floats:
    """Least time between all nodes by Floyd and Warshall, one array operation a node."""
    time = np.full((n_nodes, n_nodes), np.inf)
    np.minimum.at(time, (edge_from, edge_to), drive_s)
    np.fill_diagonal(time, 0.0)
    through = np.empty_like(time)
    for k in range(n_nodes):
        np.add(time[:, k : k + 1], time[k], out=through)
        np.minimum(time, through, out=time)
    return time


def _signals(rng: np.random.Generator, edge_to: Ints, road_class: Ints, n_nodes: int) -> Floats:
    """Signal cycles: at junctions of three or more arms of arterials and collectors."""
    arms = np.bincount(edge_to, minlength=n_nodes)
    big = np.bincount(edge_to[road_class == streets.ARTERIAL], minlength=n_nodes)
    middle = np.bincount(edge_to[road_class == streets.COLLECTOR], minlength=n_nodes)
    fast = np.bincount(edge_to[road_class == streets.MOTORWAY], minlength=n_nodes)
    has = (arms >= 3) & (big + middle >= 3) & (fast == 0)
    return np.where(has, rng.uniform(50, 80, n_nodes), 0.0)
