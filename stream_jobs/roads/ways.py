"""Arrival times, pure: how fast each edge will be, and the quickest way while speeds change.

What is seen now fades into what is usual at that hour of the week. The way is Dijkstra's, by directed edge.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from infra.contract.signals import M_PER_DEG
from infra.settings.sections import HOURS_A_DAY, Roads
from stream_jobs.frames.arrays import Floats
from stream_jobs.roads.network import RoadNetwork

HOURS_A_WEEK: Final = 7 * HOURS_A_DAY
SLOWEST_KMH: Final = 2.0  # a street where all stand still is passed at last


@dataclass(frozen=True, slots=True)
class EdgeSpeeds:
    """Times to drive edges of a network, as known at ``now``."""

    net: RoadNetwork
    now: datetime
    zone: ZoneInfo
    usual_kmh: Floats  # of each edge, [HOURS_A_WEEK, n_edges]: see ``with_fallback``
    seen: Mapping[int, tuple[float, int]]  # by edge, of the five minutes up to now: km/h, and vehicles
    age_s: float
    terms: Roads

    def time_s(self, edge: int, ahead_s: float) -> float:
        """Time to drive all of an edge that is entered ``ahead_s`` from now, s.

        What is seen counts so much: vehicles / (vehicles + few) * 0.5 ^ (age / half-life), the age from the
        five minutes' middle until the edge is reached.
        """
        hour = hour_of_week(self.now + timedelta(seconds=ahead_s), self.zone)
        slowness = 1 / max(float(self.usual_kmh[hour, edge]), SLOWEST_KMH)
        if edge in self.seen:
            seen_kmh, vehicles = self.seen[edge]
            trust = vehicles / (vehicles + self.terms.eta_few)
            weight = trust * 0.5 ** ((self.age_s + ahead_s) / self.terms.eta_half_life_s)
            slowness = weight / max(seen_kmh, SLOWEST_KMH) + (1 - weight) * slowness
        return 3.6 * float(self.net.length_m[edge]) * slowness


def with_fallback(net: RoadNetwork, usual_kmh: Floats, limit_share: float) -> Floats:
    """Usual speeds, [HOURS_A_WEEK, n_edges], with one where none is known (nan): an edge's mean pace of all
    hours, else its limit times what share of it other edges of the class reach, or ``limit_share``.
    """
    known = ~np.isnan(usual_kmh)
    slowness = np.where(known, 1 / np.maximum(usual_kmh, SLOWEST_KMH), 0).sum(axis=0)
    count = known.sum(axis=0)
    mean = np.divide(count, slowness, out=np.full(len(count), np.nan), where=count > 0)
    guess = net.limit_kmh * limit_share
    for kind in np.unique(net.road_class):
        own = net.road_class == kind
        told = own & ~np.isnan(mean)
        if told.any():
            free_s = (net.length_m[told] / net.limit_kmh[told]).sum()
            guess[own] = net.limit_kmh[own] * free_s / (net.length_m[told] / mean[told]).sum()
    return np.where(known, usual_kmh, np.where(np.isnan(mean), guess, mean))


def off_peak_hours(weekday: str, weekend: str) -> list[int]:
    """Hours of the week in the spans of a weekday and of a day of the weekend, as 9-16,19-22."""
    found: set[int] = set()
    for spans, days in ((weekday, range(5)), (weekend, range(5, 7))):
        for span in spans.split(","):
            begin, end = (int(hour) for hour in span.split("-"))
            found |= {day * HOURS_A_DAY + hour for day in days for hour in range(begin, end)}
    return sorted(found)


def hour_of_week(at: datetime, zone: ZoneInfo) -> int:
    """The hour of the local week in which ``at`` lies."""
    there = at.astimezone(zone)
    return there.weekday() * HOURS_A_DAY + there.hour


NODE_DIGITS = 6  # ends of edges that are the same in so many decimals of a degree (0.1 m) are one node

NONE = -1  # the edge before the first one

After = Sequence[Sequence[int]]  # the edges that may follow each: not straight back, unless there is no other


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


def edges_after(net: RoadNetwork) -> After:
    """The graph of a network."""
    lat, lon = (np.round(v, NODE_DIGITS).tolist() for v in (net.lat_deg, net.lon_deg))
    node = list(zip(lat, lon, strict=True))
    begin, end = ([node[k] for k in at] for at in (net.first_point[:-1], net.first_point[1:] - 1))
    leaving: dict[tuple[float, float], list[int]] = defaultdict(list)
    for edge, at in enumerate(begin):
        leaving[at].append(edge)
    after = []
    for edge, at in enumerate(end):
        after.append([other for other in leaving[at] if end[other] != begin[edge]] or leaving[at])
    return after


def nearest(net: RoadNetwork, lat_deg: float, lon_deg: float, course_deg: float | None = None) -> list[Spot]:
    """The place on the nearest street, on each of its directions; with a course only those along it.

    Nothing where the network has no edge.
    """
    part, edge = net.parts()
    east_m = M_PER_DEG * np.cos(np.radians(lat_deg))
    x, y = (net.lon_deg - lon_deg) * east_m, (net.lat_deg - lat_deg) * M_PER_DEG
    dx, dy = x[part + 1] - x[part], y[part + 1] - y[part]
    length = np.maximum(np.hypot(dx, dy), 1e-9)
    along = np.clip(-(x[part] * dx + y[part] * dy) / length**2, 0.0, 1.0)
    off = np.hypot(x[part] + along * dx, y[part] + along * dy)
    if course_deg is not None:
        turn = np.radians(course_deg)
        off = np.where(dx * np.sin(turn) + dy * np.cos(turn) > 0, off, np.inf)
    spots: dict[int, Spot] = {}
    for k in np.flatnonzero((off <= off.min(initial=np.inf) + 0.01) & np.isfinite(off)):
        own = edge == edge[k]
        before = length[own & (np.arange(len(edge)) < k)].sum() + along[k] * length[k]
        spots.setdefault(int(edge[k]), Spot(int(edge[k]), float(before / length[own].sum()), float(off[k])))
    return list(spots.values())


def quickest(
    net: RoadNetwork, after: After, start: Spot, goals: list[Spot], time_of: Callable[[int, float], float]
) -> Way | None:
    """The quickest way from ``start`` to any of ``goals``; None where there is none.

    ``time_of``: s for all of an edge that is entered so many s from now.
    Edges are entered when the way before is driven: speeds depend on the time; nobody may gain by waiting.
    """
    length_m, share_of = net.length_m, {goal.edge: goal.share for goal in goals}
    if start.edge in share_of and share_of[start.edge] >= start.share:
        part = share_of[start.edge] - start.share
        return Way((start.edge,), part * time_of(start.edge, 0.0), part * float(length_m[start.edge]))
    came: dict[int, int] = {}  # of each edge that is driven to its end soonest, the one before it
    queue = [((1 - start.share) * time_of(start.edge, 0.0), start.edge, NONE, False)]
    while queue:
        at_s, edge, before, is_there = heapq.heappop(queue)
        if is_there:
            edges = [edge, before]
            while edges[-1] != start.edge:
                edges.append(came[edges[-1]])
            driven_m = length_m[edges[1:]].sum() - start.share * length_m[start.edge]
            return Way(tuple(reversed(edges)), at_s, float(driven_m + share_of[edge] * length_m[edge]))
        if edge in came:
            continue
        came[edge] = before
        for onward in after[edge]:
            whole_s = time_of(onward, at_s)
            if onward in share_of:
                heapq.heappush(queue, (at_s + share_of[onward] * whole_s, onward, edge, True))
            if onward not in came:
                heapq.heappush(queue, (at_s + whole_s, onward, edge, False))
    return None
