"""Who drives behind whom. Pure functions over [n_vehicles] arrays."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints

FREE_M = 1e6


def leaders(
    edge: Ints, s_m: Floats, next_edge: Ints, to_end_m: Floats, on_road: Bools, n_edges: int
) -> tuple[Ints, Floats]:
    """The vehicle ahead of each one on its edge, or first on its next edge, and the distance to its front.

    Index -1 and ``FREE_M`` where nobody is ahead or the vehicle is off the road.
    """
    order = np.lexsort((s_m, edge))
    order = order[on_road[order]]
    leader = np.full(len(edge), -1, dtype=np.int64)
    distance = np.full(len(edge), FREE_M)
    if len(order) == 0:
        return leader, distance
    behind, ahead = order[:-1], order[1:]
    same = edge[behind] == edge[ahead]
    leader[behind[same]] = ahead[same]
    distance[behind[same]] = s_m[ahead[same]] - s_m[behind[same]]
    first = _first_on_edge(edge, order, n_edges)
    front = np.concatenate([order[:-1][~same], order[-1:]])
    over = first[next_edge[front]]
    found = (over >= 0) & (over != front)
    leader[front[found]] = over[found]
    distance[front[found]] = to_end_m[front[found]] + s_m[over[found]]
    return leader, distance


def _first_on_edge(edge: Ints, order: Ints, n_edges: int) -> Ints:
    """The last vehicle in driving order on each edge: the first one meets when coming in; -1 if empty."""
    first = np.full(n_edges, -1, dtype=np.int64)
    first[edge[order[::-1]]] = order[::-1]
    return first
