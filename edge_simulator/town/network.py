"""The road network: nodes and directed edges as arrays, with routing and lookups for many vehicles at once.

Edge 2k and 2k + 1 are the two directions of one street. Every edge is a line of ``streets.POINTS`` points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints, Metric
from edge_simulator.town import streets

LANES = 2  # most lanes of an edge
GREEN_SHARE = 0.45  # of a signal's cycle, for each of its two halves; the rest is amber and all red
EdgeRow = tuple[int, str, int, float, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Parts:
    """The straight part that follows each point, [n_points]; the last point of an edge has an empty one."""

    per_m: Floats  # 1 / length
    dlat: Floats
    dlon: Floats
    east: Floats  # direction as a unit vector (east, north)
    north: Floats
    dv2: Floats  # change of ``point_v2``
    slope: Floats
    dalt: Floats


@dataclass(frozen=True, slots=True)
class Routes:
    """Least driving times within each town, one square table a town, one after the other, s."""

    time_s: Floats
    row: Ints  # where the row of a node begins, [n_nodes]
    column: Ints  # the node's number within its town, [n_nodes]

    def between(self, start: Ints, goal: Ints) -> Floats:
        """Driving time between nodes of the same town, s; arrays that broadcast."""
        found: Floats = self.time_s[self.row[start] + self.column[goal]]
        return found


@dataclass(frozen=True, slots=True)
class RoadNetwork:
    """Towns, each strongly connected. Point arrays hold all edges' polylines, one after the other."""

    metric: Metric
    node_lat: Floats
    node_lon: Floats
    node_town: Ints
    town_lat: Floats  # middle of each town, [n_towns]
    town_lon: Floats
    edge_from: Ints
    edge_to: Ints
    road_class: Ints
    limit_kmh: Ints
    limit_mps: Floats
    lanes: Ints
    """Lanes of an edge, 1 or 2. A track is a lane of an edge, ``LANES * edge + lane``; 0 is the slow one."""
    length_m: Floats
    heading_in: Floats  # heading at an edge's begin, rad, [n_edges]
    heading_out: Floats
    bend_1: Floats  # distance of an edge's second and third point from its begin, m: they part it in three
    bend_2: Floats
    point_s: Floats  # distance of each point from its edge's begin, m
    point_lat: Floats
    point_lon: Floats
    point_alt: Floats
    point_v2: Floats
    """Square of the highest sensible speed at a point, (m/s)^2: curves, and braking in time for them."""
    parts: Parts
    out_edges: Ints  # edges that leave a node, [n_nodes, most], -1 where there are fewer
    drive_s: Floats  # free-flow time of each edge, s
    routes: Routes
    node_class: Ints  # the best road class that meets at a node
    signal_cycle_s: Floats  # cycle of a node's traffic signal, 0 where there is none
    signal_offset_s: Floats
    signal_group: Ints  # which half of the cycle an edge has green at its end, [n_edges]

    def edges(self) -> Iterator[EdgeRow]:
        """Rows (edge_id, road_class, speed_limit_kmh, length_m, [(lat, lon), ...]) of all directed edges."""
        for edge in range(len(self.length_m)):
            rows = slice(edge * streets.POINTS, (edge + 1) * streets.POINTS)
            path = list(zip(self.point_lat[rows].tolist(), self.point_lon[rows].tolist(), strict=True))
            name = streets.CLASSES[self.road_class[edge]]
            yield edge, name, int(self.limit_kmh[edge]), float(self.length_m[edge]), path

    def by_town(self, mask: Bools) -> tuple[Ints, Ints]:
        """The edges of ``mask`` ordered by town, and where each town's begin (one more entry than towns)."""
        edges = np.flatnonzero(mask)
        town = self.node_town[self.edge_from[edges]]
        counts = np.bincount(town, minlength=len(self.town_lat))
        return edges[np.argsort(town, kind="stable")], np.concatenate([[0], np.cumsum(counts)])

    def locate(self, edge: Ints, s_m: Floats) -> tuple[Ints, Floats]:
        """Point before each position, and the share of the distance to the next; ``s_m`` is on the edge."""
        point = edge * streets.POINTS
        point += s_m >= self.bend_1[edge]
        point += s_m >= self.bend_2[edge]
        share = s_m - self.point_s[point]
        share *= self.parts.per_m[point]
        return point, share

    def position(self, edge: Ints, s_m: Floats) -> tuple[Floats, Floats]:
        """Latitude and longitude of positions on edges, degrees."""
        point, share = self.locate(edge, s_m)
        return (
            self.point_lat[point] + share * self.parts.dlat[point],
            self.point_lon[point] + share * self.parts.dlon[point],
        )

    def travel_s(self, start: Ints, goal: Ints) -> Floats:
        """Least driving time from a node to either end of the street of edge ``goal``, s."""
        times = self.routes.between
        return np.minimum(times(start, self.edge_from[goal]), times(start, self.edge_to[goal]))

    def next_edge(self, edge: Ints, goal: Ints, delay_s: Floats | None = None) -> Ints:
        """The edge after ``edge`` on the quickest way to the street of edge ``goal``; never straight back.

        ``delay_s`` [n_edges] is what drivers know of the delays just ahead, beyond free flow.
        """
        choices = self.out_edges[self.edge_to[edge]]
        beyond = np.where(
            choices >> 1 == (goal >> 1)[:, None], 0.0, self.travel_s(self.edge_to[choices], goal[:, None])
        )
        cost = self.drive_s[choices] + beyond
        if delay_s is not None:
            cost += delay_s[choices]
        cost[(choices < 0) | (choices == (edge ^ 1)[:, None])] = np.inf
        found: Ints = choices[np.arange(len(edge)), cost.argmin(axis=1)]
        return found

    def red(self, edge: Ints, t_s: float) -> Bools:
        """Whether the signal at each edge's end is red (or amber) at ``t_s``; False where there is none."""
        node = self.edge_to[edge]
        cycle = self.signal_cycle_s[node]
        share = (t_s + self.signal_offset_s[node]) / np.maximum(cycle, 1.0) + 0.5 * self.signal_group[edge]
        share -= np.floor(share)
        return (cycle > 0) & (share > GREEN_SHARE)
