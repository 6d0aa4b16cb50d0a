"""The road network: nodes and directed edges as arrays, with routing and lookups for many vehicles at once.

``city(seed, lat, lon)`` builds it around any coordinate. Edge 2k and 2k + 1 are the two directions of one
street. Lengths are geodesic (WGS 84).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from geopy.distance import geodesic

from edge_simulator import streets
from edge_simulator.geo import Floats, Ints, bearing_rad, metres_per_degree, wrap_pi
from infra.contract.errors import ConfigError

BASE_ALTITUDE_M = 520.0
CURVE_ACCEL_MPS2 = 2.2
APPROACH_DECEL_MPS2 = 1.2
EdgeRow = tuple[int, str, int, float, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class RoadNetwork:
    """A strongly connected network. Point arrays hold all edges' polylines, one after the other."""

    node_lat: Floats
    node_lon: Floats
    edge_from: Ints
    edge_to: Ints
    road_class: Ints
    limit_kmh: Ints
    length_m: Floats
    heading_in: Floats
    """Heading at an edge's begin, rad, [n_edges]."""
    heading_out: Floats
    first_point: Ints
    point_key: Floats
    """edge * key_span + distance from the edge's begin: rising over all points, so one search finds any."""
    key_span: float
    point_lat: Floats
    point_lon: Floats
    point_alt: Floats
    point_v2: Floats
    """Square of the highest sensible speed at a point, (m/s)^2: curves, and braking in time for them."""
    out_edges: Ints
    """Edges that leave a node, [n_nodes, most], -1 where there are fewer."""
    drive_s: Floats
    """Free-flow time of each edge, s."""
    time_s: Floats
    """Least driving time between nodes, [n_nodes, n_nodes], s."""
    signal_cycle_s: Floats
    """Cycle of a node's traffic signal, 0 where there is none."""
    signal_offset_s: Floats
    signal_group: Ints
    """Which half of the cycle an edge has green at its end, [n_edges]."""

    def edges(self) -> Iterator[EdgeRow]:
        """Rows (edge_id, road_class, speed_limit_kmh, length_m, [(lat, lon), ...]) of all directed edges."""
        for edge in range(len(self.length_m)):
            rows = slice(self.first_point[edge], self.first_point[edge] + streets.POINTS)
            path = list(zip(self.point_lat[rows].tolist(), self.point_lon[rows].tolist(), strict=True))
            name = streets.CLASSES[self.road_class[edge]]
            yield edge, name, int(self.limit_kmh[edge]), float(self.length_m[edge]), path

    def locate(self, edge: Ints, s_m: Floats) -> tuple[Ints, Floats]:
        """Point before each position and the share of the way to the next point."""
        key = edge * self.key_span + np.clip(s_m, 0.0, self.length_m[edge])
        point = np.searchsorted(self.point_key, key, side="right") - 1
        point = np.minimum(point, self.first_point[edge] + streets.POINTS - 2)
        share = (key - self.point_key[point]) / (self.point_key[point + 1] - self.point_key[point])
        return point, share

    def next_edge(self, edge: Ints, destination: Ints) -> Ints:
        """The edge to take after ``edge`` on the quickest way to ``destination``; never straight back."""
        choices = self.out_edges[self.edge_to[edge]]
        cost = self.drive_s[choices] + self.time_s[self.edge_to[choices], destination[:, None]]
        cost = np.where((choices < 0) | (choices == (edge ^ 1)[:, None]), np.inf, cost)
        best: Ints = choices[np.arange(len(edge)), cost.argmin(axis=1)]
        return best

    def red(self, edge: Ints, t_s: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether the signal at each edge's end is red (or amber) at ``t_s``; False where there is none."""
        node = self.edge_to[edge]
        cycle = self.signal_cycle_s[node]
        share = np.remainder(t_s + self.signal_offset_s[node], np.maximum(cycle, 1.0)) / np.maximum(
            cycle, 1.0
        )
        share = np.remainder(share + 0.5 * self.signal_group[edge], 1.0)
        stop: np.ndarray[tuple[int], np.dtype[np.bool_]] = (cycle > 0) & (share > 0.45)
        return stop


def city(seed: int, lat_deg: float, lon_deg: float) -> RoadNetwork:
    """The city of ``seed`` around a coordinate, about 12 km across; the same arguments give the same city.

    Raises ConfigError for a coordinate where a city of that width does not fit on the map.
    """
    if not (abs(lat_deg) <= 80 and abs(lon_deg) <= 179):
        raise ConfigError(f"coordinate {lat_deg}, {lon_deg}: latitude -80..80 and longitude -179..179 wanted")
    rng = np.random.default_rng([seed, 1])
    plan = streets.plan(rng)
    return _network(plan, rng, lat_deg, lon_deg)


def _network(plan: streets.Plan, rng: np.random.Generator, lat_deg: float, lon_deg: float) -> RoadNetwork:
    path_lat, path_lon = _to_degrees(plan.path_m, lat_deg, lon_deg)
    node_lat, node_lon = _to_degrees(plan.node_m, lat_deg, lon_deg)
    part_m = _part_lengths(path_lat, path_lon)
    both = _both_ways
    s = np.concatenate([np.zeros((2 * len(part_m), 1)), np.cumsum(both(part_m), axis=1)], axis=1)
    lat, lon = both(path_lat), both(path_lon)
    heading = bearing_rad(lat[:, :-1], lon[:, :-1], lat[:, 1:], lon[:, 1:])
    length = s[:, -1]
    span = float(length.max()) + 10
    edge_from = np.column_stack([plan.link[:, 0], plan.link[:, 1]]).ravel()
    edge_to = edge_from.reshape(-1, 2)[:, ::-1].ravel()
    road_class, limit = np.repeat(plan.road_class, 2), np.repeat(plan.limit_kmh, 2)
    drive_s = length / (limit / 3.6) + 4.0
    out_edges = _out_edges(edge_from, len(node_lat))
    cycle = _signals(rng, edge_to, road_class, len(node_lat))
    return RoadNetwork(
        node_lat=node_lat,
        node_lon=node_lon,
        edge_from=edge_from,
        edge_to=edge_to,
        road_class=road_class,
        limit_kmh=limit,
        length_m=length,
        heading_in=heading[:, 0],
        heading_out=heading[:, -1],
        first_point=np.arange(len(length)) * streets.POINTS,
        point_key=(s + np.arange(len(length))[:, None] * span).ravel(),
        key_span=span,
        point_lat=lat.ravel(),
        point_lon=lon.ravel(),
        point_alt=_altitude(rng, both(plan.path_m)).ravel(),
        point_v2=_curve_v2(s, heading).ravel(),
        out_edges=out_edges,
        drive_s=drive_s,
        time_s=_all_times(edge_from, edge_to, drive_s, len(node_lat)),
        signal_cycle_s=cycle,
        signal_offset_s=rng.uniform(0, 90, len(node_lat)),
        signal_group=(np.abs(np.cos(heading[:, -1] - heading[0, -1])) < 0.7071).astype(np.int64),
    )


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
