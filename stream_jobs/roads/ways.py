"""The quickest way through a network whose speeds change while one drives: Dijkstra by directed edge."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.roads.matching import METRES_PER_DEGREE
from stream_jobs.roads.network import RoadNetwork

NODE_DIGITS = 6
"""Ends of edges that are the same in so many decimals of a degree (0.1 m) are one node."""

ON = -1
"""Marks an entry of the queue that goes on; others end at a goal, and tell the edge before it."""

TravelTime = Callable[[int, float], float]
"""Time to drive all of an edge, s, when it is entered so many seconds from now."""


@dataclass(frozen=True, slots=True)
class Ways:
    """A network as a graph of edges."""

    net: RoadNetwork
    after: tuple[tuple[int, ...], ...]
    """The edges that one may take after each: not straight back, unless there is no other."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place on an edge: ``share`` of its length from its begin; ``off_m`` away from what was asked for."""

    edge: int
    share: float
    off_m: float


@dataclass(frozen=True, slots=True)
class Way:
    """The edges of a way, the first and the last driven in part; its time and length."""

    edges: tuple[int, ...]
    time_s: float
    length_m: float


def ways_of(net: RoadNetwork) -> Ways:
    """The graph of a network."""
    first, last = net.ends()
    begin, end = (_node(net, points) for points in (first, last))
    leaving: dict[tuple[float, float], list[int]] = defaultdict(list)
    for edge, node in enumerate(begin):
        leaving[node].append(edge)
    after = []
    for edge, node in enumerate(end):
        onward = [other for other in leaving[node] if end[other] != begin[edge]]
        after.append(tuple(onward or leaving[node]))
    return Ways(net, tuple(after))


def _node(net: RoadNetwork, points: Ints) -> list[tuple[float, float]]:
    lat, lon = (np.round(v[points], NODE_DIGITS).tolist() for v in (net.lat_deg, net.lon_deg))
    return list(zip(lat, lon, strict=True))


def nearest(net: RoadNetwork, lat_deg: float, lon_deg: float, course_deg: float | None = None) -> list[Spot]:
    """The place on the nearest street, on each of its directions; with a course only those along it.

    Nothing where the network has no edge.
    """
    part, edge = _parts(net)
    east_m = METRES_PER_DEGREE * np.cos(np.radians(lat_deg))
    x, y = (net.lon_deg - lon_deg) * east_m, (net.lat_deg - lat_deg) * METRES_PER_DEGREE
    dx, dy = x[part + 1] - x[part], y[part + 1] - y[part]
    length = np.maximum(np.hypot(dx, dy), 1e-9)
    along = np.clip(-(x[part] * dx + y[part] * dy) / length**2, 0.0, 1.0)
    off = np.hypot(x[part] + along * dx, y[part] + along * dy)
    if course_deg is not None:
        turn = np.radians(course_deg)
        off = np.where(dx * np.sin(turn) + dy * np.cos(turn) > 0, off, np.inf)
    return _spots(edge, length, along, off, off <= off.min(initial=np.inf) + 0.01)


def _parts(net: RoadNetwork) -> tuple[Ints, Ints]:
    """The points at which straight parts begin, and their edges."""
    of_point = np.repeat(np.arange(len(net.edge_id)), np.diff(net.first_point))
    part = np.flatnonzero(of_point[1:] == of_point[:-1])
    return part, of_point[part]


def _spots(edge: Ints, length: Floats, along: Floats, off: Floats, chosen: Flags) -> list[Spot]:
    spots: dict[int, Spot] = {}
    for k in np.flatnonzero(chosen & np.isfinite(off)):
        own = edge == edge[k]
        before = length[own & (np.arange(len(edge)) < k)].sum() + along[k] * length[k]
        spots.setdefault(int(edge[k]), Spot(int(edge[k]), float(before / length[own].sum()), float(off[k])))
    return list(spots.values())


def quickest(ways: Ways, start: Spot, goals: list[Spot], time_of: TravelTime) -> Way | None:
    """The quickest way from ``start`` to any of ``goals``; None where there is none.

    Edges are entered when the way before is driven: speeds may depend on the time, as long as nobody gains by
    waiting.
    """
    share_of = {goal.edge: goal.share for goal in goals}
    if start.edge in share_of and share_of[start.edge] >= start.share:
        part = share_of[start.edge] - start.share
        return Way(
            (start.edge,), part * time_of(start.edge, 0.0), part * float(ways.net.length_m[start.edge])
        )
    reached = {start.edge: (1 - start.share) * time_of(start.edge, 0.0)}
    came: dict[int, int] = {}
    queue = [(reached[start.edge], start.edge, ON)]
    while queue:
        at_s, edge, via = heapq.heappop(queue)
        if via != ON:
            return _way(ways, came, start, (edge, via), share_of[edge], at_s)
        if at_s > reached[edge]:
            continue
        for onward in ways.after[edge]:
            whole_s = time_of(onward, at_s)
            if onward in share_of:
                heapq.heappush(queue, (at_s + share_of[onward] * whole_s, onward, edge))
            if at_s + whole_s < reached.get(onward, np.inf):
                reached[onward], came[onward] = at_s + whole_s, edge
                heapq.heappush(queue, (at_s + whole_s, onward, ON))
    return None


def _way(
    ways: Ways, came: dict[int, int], start: Spot, end: tuple[int, int], share: float, time_s: float
) -> Way:
    """The way back from its last edge and the one before it."""
    edges = list(end)
    while edges[-1] != start.edge:
        edges.append(came[edges[-1]])
    length = ways.net.length_m
    driven = float(length[edges[1:]].sum()) - start.share * float(length[start.edge])
    return Way(tuple(reversed(edges)), time_s, driven + share * float(length[end[0]]))
