"""Road networks: nodes and directed edges as arrays, with routing and lookups for many vehicles at once.

Edge 2k and 2k + 1 are the two directions of one street. Every edge is a line of ``streets.POINTS`` points.
Lengths are geodesic (WGS 84).
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache

import numpy as np
from geographiclib.geodesic import Geodesic
from numpy.random import Generator

from edge_simulator.geo import Bools, Floats, Ints, Metric, bearing_rad, metres_per_degree, wrap_pi
from edge_simulator.town import streets
from infra.contract.errors import ConfigError

LANES = 2  # most lanes of an edge
GREEN_SHARE = 0.45  # of a signal's cycle, for each of its two halves; the rest is amber and all red
EdgeRow = tuple[int, str, int, float, list[tuple[float, float]]]


class RoadNetwork:
    """A town, strongly connected, or several. Point arrays hold all edges' polylines, one after the other."""

    def __init__(
        self, plan: streets.Plan, rng: Generator, lat_deg: float, lon_deg: float, metric: Metric
    ) -> None:
        def step(values: Floats) -> Floats:
            """The change along the straight part that follows each point; an edge's last one is empty."""
            return np.diff(values, axis=1, append=values[:, -1:])

        path_lat, path_lon = _to_degrees(plan.path_m, lat_deg, lon_deg)
        self.node_lat, self.node_lon = _to_degrees(plan.node_m, lat_deg, lon_deg)
        self.metric, n = metric, len(self.node_lat)
        self.town_lat, self.town_lon = np.array([lat_deg]), np.array([lon_deg])  # the middles, [n_towns]
        self.node_town: Ints = np.zeros(n, dtype=np.int64)
        self.edge_from, self.edge_to = plan.link.ravel(), plan.link[:, ::-1].ravel()
        self.road_class, self.limit_kmh = np.repeat(plan.road_class, 2), np.repeat(plan.limit_kmh, 2)
        self.limit_mps = self.limit_kmh / 3.6
        # lanes of an edge, 1 or 2; a track is one lane, ``LANES * edge + lane``, 0 the slow one
        self.lanes: Ints = np.where(self.road_class == streets.MOTORWAY, 2, 1)
        lines = np.stack([path_lat, path_lon], axis=-1).tolist()
        legs_km = [
            [WGS84_KM.Inverse(*a, *b, Geodesic.DISTANCE)["s12"] for a, b in itertools.pairwise(line)]
            for line in lines
        ]
        part_m = 1000 * _both_ways(np.array(legs_km))
        s = np.concatenate([np.zeros((len(part_m), 1)), np.cumsum(part_m, axis=1)], axis=1)
        # from an edge's begin, m; its second and third point part it in three
        self.bend_1, self.bend_2, self.length_m = s[:, 1].copy(), s[:, 2].copy(), s[:, -1].copy()
        lat, lon = _both_ways(path_lat), _both_ways(path_lon)
        heading = bearing_rad(lat[:, :-1], lon[:, :-1], lat[:, 1:], lon[:, 1:])
        self.heading_in, self.heading_out = heading[:, 0].copy(), heading[:, -1].copy()  # rad
        self.drive_s = self.length_m / self.limit_mps + 4.0  # free-flow time of each edge
        self.node_class = np.full(n, streets.RESIDENTIAL)  # the best road class that meets there
        np.minimum.at(self.node_class, self.edge_to, self.road_class)
        self.signal_cycle_s = _signals(rng, self.edge_to, self.road_class, n)  # 0: there is no signal
        alt, v2 = _altitude(rng, _both_ways(plan.path_m)), _curve_v2(s, heading)
        self.point_s, self.point_lat, self.point_lon = s.ravel(), lat.ravel(), lon.ravel()
        self.point_alt, self.point_v2 = alt.ravel(), v2.ravel()  # v2: of the highest sensible speed, (m/s)^2
        north, east = metric.metres(lat)
        dx, dy = step(lon) * east, step(lat) * north
        size = np.maximum(np.hypot(dx, dy), 1e-9)
        per_m = np.pad(1 / part_m, ((0, 0), (0, 1)))
        self.part_per_m, self.part_slope = per_m.ravel(), (step(alt) * per_m).ravel()
        self.part_east, self.part_north = (dx / size).ravel(), (dy / size).ravel()  # as a unit vector
        self.part_dlat, self.part_dlon, self.part_dalt, self.part_dv2 = (
            step(values).ravel() for values in (lat, lon, alt, v2)
        )
        self._find_routes(n)
        self.signal_offset_s = rng.uniform(0, 90, n)
        # which half of the cycle an edge has green at its end
        self.signal_group = (np.abs(np.cos(heading[:, -1] - heading[0, -1])) < 0.7071).astype(np.int64)

    def _find_routes(self, n: int) -> None:
        """Edges that leave each of the ``n`` nodes, -1 beyond; least times by Floyd and Warshall, s."""
        degree = np.bincount(self.edge_from, minlength=n)
        order = np.argsort(self.edge_from, kind="stable")
        column = np.arange(len(order)) - np.repeat(np.cumsum(degree) - degree, degree)
        self.out_edges: Ints = np.full((n, int(degree.max())), -1, dtype=np.int64)
        self.out_edges[self.edge_from[order], column] = order
        time = np.full((n, n), np.inf)
        np.minimum.at(time, (self.edge_from, self.edge_to), self.drive_s)
        np.fill_diagonal(time, 0.0)
        _shorten(time)
        # a square table for each town, one after the other: where a node's row begins, its number in the town
        self.route_s, self.route_row, self.route_column = time.ravel(), np.arange(n) * n, np.arange(n)

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
        share *= self.part_per_m[point]
        return point, share

    def position(self, edge: Ints, s_m: Floats) -> tuple[Floats, Floats]:
        """Latitude and longitude of positions on edges, degrees."""
        point, share = self.locate(edge, s_m)
        return (
            self.point_lat[point] + share * self.part_dlat[point],
            self.point_lon[point] + share * self.part_dlon[point],
        )

    def travel_s(self, start: Ints, goal: Ints) -> Floats:
        """Least driving time from a node to either end of the street of edge ``goal``, s."""
        row = self.route_row[start]
        begin, end = self.route_column[self.edge_from[goal]], self.route_column[self.edge_to[goal]]
        least_s: Floats = np.minimum(self.route_s[row + begin], self.route_s[row + end])
        return least_s

    def next_edge(self, edge: Ints, goal: Ints, delay_s: Floats | None = None) -> Ints:
        """The edge on the quickest way to the street of ``goal``, delays added; never straight back."""
        choices = self.out_edges[self.edge_to[edge]]
        beyond_s = self.travel_s(self.edge_to[choices], goal[:, None])
        cost = self.drive_s[choices] + np.where(choices >> 1 == (goal >> 1)[:, None], 0.0, beyond_s)
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
        found: Bools = (cycle > 0) & (share > GREEN_SHARE)
        return found


def _shorten(time: Floats) -> None:
    """Least times between all nodes out of those of single edges, s, [n, n], in place: Floyd and Warshall.

    Rows that stay in the processor's cache go through several middles of ways at a time: the same sums and
    comparisons in the same order, in 60 % of the time.
    """
    n = len(time)
    through, onward = np.empty((ROWS, n)), np.empty((MIDDLES, n))
    for first in range(0, n, MIDDLES):
        last = min(first + MIDDLES, n)
        others = [slice(k, min(k + ROWS, first)) for k in range(0, first, ROWS)]
        others += [slice(k, k + ROWS) for k in range(last, n, ROWS)]
        for part in (slice(first, last), *others):
            rows = time[part]
            for k in range(first, last):
                if part.start == first:
                    onward[k - first] = time[k]  # as it is when its turn comes
                np.add(rows[:, k : k + 1], onward[k - first], out=through[: len(rows)])
                np.minimum(rows, through[: len(rows)], out=rows)


BASE_ALTITUDE_M = 520.0
ROWS, MIDDLES = 96, 32
WGS84_KM = Geodesic(6378.137, 1 / 298.257223563)
CURVE_ACCEL_MPS2 = 2.2
APPROACH_DECEL_MPS2 = 1.2
TOWN_SPACING_M = 20_000.0
VEHICLES_A_TOWN = {"steady": 10_000, "day": 20_000}  # of these only one in five to ten is under way at a time


def towns(profile: str, vehicles: int) -> int:
    """How many towns a fleet needs."""
    return max(1, -(-vehicles // VEHICLES_A_TOWN[profile]))


def city(seed: int, lat_deg: float, lon_deg: float) -> RoadNetwork:
    """The city of ``seed`` around a coordinate, about 12 km across. Raises ConfigError at the poles."""
    return region(seed, lat_deg, lon_deg, 1)


@lru_cache(maxsize=1)
def region(seed: int, lat_deg: float, lon_deg: float, towns: int) -> RoadNetwork:
    """``towns`` towns, not joined, ``TOWN_SPACING_M`` apart, the first in the middle. Raises ConfigError."""
    reach = range(-int(towns**0.5) - 1, int(towns**0.5) + 2)
    square = itertools.product(reach, reach)
    cells = sorted(square, key=lambda c: (max(abs(c[0]), abs(c[1])), abs(c[0]) + abs(c[1]), c))
    offsets_m = TOWN_SPACING_M * np.array(cells[:towns], dtype=np.float64)[:, ::-1]
    centres = [tuple(map(float, _to_degrees(offset, lat_deg, lon_deg))) for offset in offsets_m]
    if not all(abs(lat) <= 80 and abs(lon) <= 179 for lat, lon in centres):
        raise ConfigError(f"coordinate {lat_deg}, {lon_deg}: latitude -80..80 and longitude -179..179 wanted")
    metric = Metric(lat_deg)
    nets = []
    for k, (lat, lon) in enumerate(centres):
        rng = np.random.default_rng([seed, 1] if k == 0 else [seed, 1, k])
        nets.append(RoadNetwork(streets.plan(rng), rng, lat, lon, metric))
    return _side_by_side(nets)


def _side_by_side(nets: Sequence[RoadNetwork]) -> RoadNetwork:
    """The towns as one network: indices shifted, arrays one after the other."""
    if len(nets) == 1:
        return nets[0]
    nodes, edges, times = (
        np.cumsum([0, *(len(getattr(net, name)) for net in nets)])
        for name in ("node_lat", "length_m", "route_s")
    )
    shifts: dict[str, Iterable[int]] = {"edge_from": nodes, "edge_to": nodes, "route_row": times}
    shifts["node_town"] = range(len(nets))
    most = max(net.out_edges.shape[1] for net in nets)
    whole = copy(nets[0])
    for name in vars(whole).keys() - {"metric"}:
        arrays = [getattr(net, name) for net in nets]
        if name == "out_edges":
            wide = [np.pad(a, ((0, 0), (0, most - a.shape[1])), constant_values=-1) for a in arrays]
            arrays = [np.where(a >= 0, a + k, -1) for a, k in zip(wide, edges, strict=False)]
        elif name in shifts:
            arrays = [a + k for a, k in zip(arrays, shifts[name], strict=False)]
        setattr(whole, name, np.concatenate(arrays))
    return whole


def _to_degrees(m: Floats, lat_deg: float, lon_deg: float) -> tuple[Floats, Floats]:
    north, _ = metres_per_degree(np.float64(lat_deg))
    lat = lat_deg + m[..., 1] / north
    _, east = metres_per_degree(lat)
    return lat, lon_deg + m[..., 0] / east


def _both_ways(rows: Floats) -> Floats:
    """Each row followed by itself reversed."""
    return np.stack([rows, rows[:, ::-1]], axis=1).reshape(-1, *rows.shape[1:])


def _altitude(rng: Generator, m: Floats) -> Floats:
    """Gentle hills over the plan, m above sea level; slopes stay below about 4 %."""
    height = np.full(m.shape[:-1], BASE_ALTITUDE_M)
    for amplitude, length in ((18.0, 7000.0), (7.0, 2900.0)):
        turn, px, py = rng.uniform(0, 2 * np.pi, 3)
        across = m[..., 0] * np.cos(turn) + m[..., 1] * np.sin(turn)
        along = m[..., 1] * np.cos(turn) - m[..., 0] * np.sin(turn)
        wave = amplitude * np.sin(2 * np.pi * across / length + px)
        height += wave * np.sin(2 * np.pi * along / length + py)
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


def _signals(rng: Generator, edge_to: Ints, road_class: Ints, n_nodes: int) -> Floats:
    """Signal cycles: at junctions of three or more arms of arterials and collectors."""
    arms = np.bincount(edge_to, minlength=n_nodes)
    big = np.bincount(edge_to[road_class == streets.ARTERIAL], minlength=n_nodes)
    middle = np.bincount(edge_to[road_class == streets.COLLECTOR], minlength=n_nodes)
    fast = np.bincount(edge_to[road_class == streets.MOTORWAY], minlength=n_nodes)
    has = (arms >= 3) & (big + middle >= 3) & (fast == 0)
    return np.where(has, rng.uniform(50, 80, n_nodes), 0.0)
