"""Where things are in a town: homes, work, shops, depots, the motorway ring."""

import itertools

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork

DEPOTS = 6
RANKS = 8  # of each town
WORK_M, SHOPS_M = 1600.0, 3500.0  # how far from the middle most work places and shops lie
DEPOT_AT_M = 5200.0
ALONG_STEPS = 400


class Kind:
    """Edges where something is, by town: those of ``mask``, each as likely as its ``weight`` says."""

    def __init__(self, net: RoadNetwork, mask: Bools, weight: Floats) -> None:
        self._edges, self._first = net.by_town(mask)
        self._total = np.cumsum(weight[self._edges])
        self._bounds = np.concatenate([[0.0], self._total])[self._first]

    def draw(self, town: Ints, rng: np.random.Generator) -> Ints:
        """An edge in each of the towns, by weight."""
        low, high = self._bounds[town], self._bounds[town + 1]
        at = np.searchsorted(self._total, low + rng.random(len(town)) * (high - low), side="right")
        found: Ints = self._edges[np.minimum(at, self._first[town + 1] - 1)]
        return found


class Places:
    """The places of a region."""

    def __init__(self, net: RoadNetwork, rng: np.random.Generator) -> None:
        lat, lon = net.point_lat[2 :: streets.POINTS], net.point_lon[2 :: streets.POINTS]
        town = net.node_town[net.edge_from]
        per_lat, per_lon = net.metric.metres(lat)
        out_m = np.hypot((lat - net.town_lat[town]) * per_lat, (lon - net.town_lon[town]) * per_lon)
        minor, ring = net.road_class == streets.RESIDENTIAL, net.road_class == streets.MOTORWAY
        broad, long = ~minor & ~ring, net.length_m
        inner = np.exp(-((out_m / WORK_M) ** 2))
        shopping = np.exp(-((out_m / SHOPS_M) ** 2)) + 0.02
        industry = np.exp(-(((out_m - DEPOT_AT_M) / 900) ** 2)) + 1e-9
        self.homes = Kind(net, minor, long * (0.25 + np.minimum(out_m / 4000, 1.5)))
        self.works = Kind(net, ~ring, long * (inner + 0.02 + 0.12 * industry))
        self.shops = Kind(net, ~ring, long * shopping * np.where(broad, 3.0, 1.0))
        self.depots = _few(net, broad, industry, DEPOTS, rng)
        self.ranks = _few(net, ~ring, inner + 1e-9, RANKS, rng)
        self.ring = Kind(net, ring, long)
        edges = np.flatnonzero(ring)
        choices = net.out_edges[net.edge_to[edges]]
        fit = (choices >= 0) & ring[choices] & (choices != (edges ^ 1)[:, None])
        self._ring_next = np.full(len(long), -1, dtype=np.int64)  # the motorway edge after each one
        self._ring_next[edges] = choices[np.arange(len(edges)), fit.argmax(axis=1)]

    def ahead_on_ring(self, edge: Ints, count: int) -> Ints:
        """The motorway edges ``count`` further on."""
        for _ in range(count):
            edge = self._ring_next[edge]
        return edge


def _few(net: RoadNetwork, mask: Bools, weight: Floats, count: int, rng: np.random.Generator) -> Kind:
    """``count`` edges of each town, drawn by weight."""
    edges, first = net.by_town(mask)
    chosen = np.zeros(len(weight), dtype=np.bool_)
    for low, high in itertools.pairwise(first.tolist()):
        own = edges[low:high]
        chosen[rng.choice(own, count, replace=False, p=weight[own] / weight[own].sum())] = True
    return Kind(net, chosen, np.ones(len(weight)))


def along(net: RoadNetwork, start: Ints, goal: Ints, elapsed_s: Floats) -> tuple[Ints, Floats]:
    """Edge and share of it where vehicles are that left edge ``start`` for ``goal`` so long ago."""
    edge, left_s = start.copy(), elapsed_s.copy()
    share = np.clip(left_s / net.drive_s[edge], 0.0, 1.0)
    going = np.flatnonzero(left_s > net.drive_s[edge])
    for _ in range(ALONG_STEPS):
        if len(going) == 0:
            break
        left_s[going] -= net.drive_s[edge[going]]
        edge[going] = net.next_edge(edge[going], goal[going])
        share[going] = np.clip(left_s[going] / net.drive_s[edge[going]], 0.0, 1.0)
        there = edge[going] >> 1 == goal[going] >> 1
        going = going[~there & (left_s[going] > net.drive_s[edge[going]])]
    return edge, share
