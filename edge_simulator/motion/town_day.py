"""A town's places and its day; its state at any hour follows from the diary, not from a simulated day."""

import itertools

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import agenda, diary
from edge_simulator.motion.agenda import DELIVERY, DEPOT, FARE, HAUL, HOME, RANK, REST, WORK, PlaceKind, kerb
from edge_simulator.motion.diary import DAY_S, HOUR, TAXI
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

DEPOTS = 6
RANKS = 8  # of each town
WORK_M, SHOPS_M = 1600.0, 3500.0  # how far from the middle most work places and shops lie
DEPOT_AT_M = 5200.0
ALONG_STEPS = 400


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
        self.homes = PlaceKind(net, minor, long * (0.25 + np.minimum(out_m / 4000, 1.5)))
        self.works = PlaceKind(net, ~ring, long * (inner + 0.02 + 0.12 * industry))
        self.shops = PlaceKind(net, ~ring, long * shopping * np.where(broad, 3.0, 1.0))
        self.depots = _few(net, broad, industry, DEPOTS, rng)
        self.ranks = _few(net, ~ring, inner + 1e-9, RANKS, rng)
        self.ring = PlaceKind(net, ring, long)
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


def _few(net: RoadNetwork, mask: Bools, weight: Floats, count: int, rng: np.random.Generator) -> PlaceKind:
    """``count`` edges of each town, drawn by weight."""
    edges, first = net.by_town(mask)
    chosen = np.zeros(len(weight), dtype=np.bool_)
    for low, high in itertools.pairwise(first.tolist()):
        own = edges[low:high]
        chosen[rng.choice(own, count, replace=False, p=weight[own] / weight[own].sum())] = True
    return PlaceKind(net, chosen, np.ones(len(weight)))


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


SLOWER = 1.3  # driving takes so much longer than on free roads, for the state at the run's start
RING_AHEAD = 14  # motorway edges to the next waypoint: less than half the ring, so the way stays on it
HAUL_H = (1.5, 4.2)  # hours at the wheel between two rests
LAST_H = 1.5  # A rest is not worth it any more when the shift ends within these hours
NEARBY_OF = 5


def _to_base(purpose: Ints) -> Bools:
    found: Bools = (purpose == HOME) | (purpose == DEPOT)
    return found


class Day:
    """An agenda of days: ``begins_at_s`` is the local time at the run's start, ``weekday`` 0 a Monday."""

    def __init__(
        self, net: RoadNetwork, specs: Specs, rng: np.random.Generator, begins_at_s: float = 0.0,
        weekday: int = 0,
    ) -> None:  # fmt: skip
        n = len(specs.model)
        self._net, self._rng = net, rng
        self._places = find = Places(net, rng)
        seed = int(rng.integers(0, 2**31))
        self.role = role = diary.roles(specs.kind, rng)
        self._town = town = np.arange(n) % len(net.town_lat)
        own_home = role <= TAXI
        base = np.where(own_home, find.homes.draw(town, rng), find.depots.draw(town, rng))
        self.base = base, kerb(net, base, np.where(own_home, rng.random(n), rng.uniform(0.4, 0.6, n)))
        work = find.works.draw(town, rng)
        self.work = work, kerb(net, work, rng.random(n))
        self._homeward = np.where(own_home, HOME, DEPOT)
        self._working = np.select([role == TAXI, role == diary.HAUL], [FARE, HAUL], DELIVERY)
        late = rng.random(n) < diary.of_role(role, "late_share")
        self._diary = diary.Diary(role, late, seed, begins_at_s, weekday)
        self._doing, self._at = self._homeward.copy(), base.copy()
        self._haul_until_s = np.full(n, -np.inf)

    def begin(self) -> agenda.Start:
        """Everybody where the hour has them: at home, at work, at a stop, or under way."""
        n, net = len(self.role), self._net
        started, start_edge, goal, purpose = self._last_trips()
        travel_s = SLOWER * (net.travel_s(net.edge_to[start_edge], goal) + 60)
        under_way = started < travel_s
        self._doing = purpose.copy()
        self._at = np.where(under_way, start_edge, goal)
        edge, share = along(net, start_edge, goal, np.where(under_way, started / SLOWER, 0.0))
        goal_s = self._spot(np.arange(n), goal, purpose)
        self._haul_until_s = np.where(purpose == HAUL, self._rng.uniform(0.1, HAUL_H[1], n) * HOUR, 0.0)
        at = np.where(under_way, edge, goal)
        s = np.where(under_way, np.clip(share, 0.02, 0.95) * net.length_m[edge], goal_s)
        rest = np.flatnonzero(~under_way)
        then = self.parked(rest, 0.0)
        wake_s, (base, idling) = np.full(n, np.inf), np.zeros((2, n), dtype=np.bool_)
        wake_s[rest], base[rest], idling[rest] = then.wake_s, then.base, then.idling
        stopped = np.isin(purpose[rest], (DELIVERY, FARE, RANK))
        wake_s[rest[stopped]] *= self._rng.random(int(stopped.sum()))
        goal[rest], goal_s[rest], purpose[rest] = then.goal, then.goal_s, then.purpose
        since = np.clip(started - travel_s, 0.0, 3 * DAY_S)
        return agenda.Start(wake_s, goal, goal_s, purpose, base, idling, at, s, ~under_way, since)

    def parked(self, rows: Ints, t_s: float) -> agenda.Next:
        """What ``rows`` do after the trip that has just ended."""
        self._diary.roll(t_s)
        on_duty, base = self.role[rows] >= TAXI, _to_base(self._doing[rows])
        wake_s, purpose = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        wake_s[~on_duty], purpose[~on_duty] = self._diary.next_departure(rows[~on_duty], t_s)
        wake_s[on_duty], purpose[on_duty] = self._duty(rows[on_duty], t_s)
        goal = self._goals(rows, purpose)
        idles = ~base & (self._rng.random(len(rows)) < diary.of_role(self.role[rows], "idling"))
        self._doing[rows], self._at[rows] = purpose, goal
        hauls = purpose == HAUL
        drives_s = HOUR * self._rng.uniform(*HAUL_H, int(hauls.sum()))
        self._haul_until_s[rows[hauls]] = wake_s[hauls] + drives_s
        return agenda.Next(wake_s, goal, self._spot(rows, goal, purpose), purpose, base, idles)

    def passing(self, rows: Ints, edge: Ints, t_s: float) -> tuple[Ints, Ints, Floats]:
        """Long haul goes round on the motorway until it is time for a rest at its side, or to go home."""
        going = (self.role[rows] == diary.HAUL) & (self._doing[rows] == HAUL)
        rows, edge = rows[going], edge[going]
        rests = t_s >= self._haul_until_s[rows]
        over = rests & (self._diary.shift(rows, t_s)[0] < t_s + LAST_H * HOUR)
        self._doing[rows[rests]] = REST
        self._doing[rows[over]] = DEPOT
        ahead = self._places.ahead_on_ring
        goal = np.where(rests, ahead(edge, 2), ahead(edge, RING_AHEAD))
        goal = np.where(over, self.base[0][rows], goal)
        self._at[rows] = goal
        return rows, goal, np.where(over, self.base[1][rows], 0.5 * self._net.length_m[goal])

    def _duty(self, rows: Ints, t_s: float) -> tuple[Floats, Ints]:
        """Stop, then the next stop; to the base when the shift is over, and from there at the next one."""
        until, following = self._diary.shift(rows, t_s)
        role, doing, rng = self.role[rows], self._doing[rows], self._rng
        median_min, spread = diary.of_role(role, "stop_min"), diary.of_role(role, "stop_spread")
        wake_s = t_s + 60 * median_min * np.exp(spread * rng.standard_normal(len(rows)))
        dropped = (role == TAXI) & (doing == FARE)
        wake_s = np.where(dropped, t_s + rng.uniform(40, 150, len(rows)), wake_s)
        work = np.where(dropped & (rng.random(len(rows)) < 0.55), RANK, self._working[rows])
        at_base, off = _to_base(doing), wake_s >= until
        purpose = np.where(off & ~at_base, self._homeward[rows], work)
        return np.where(off & at_base, np.maximum(following, t_s + 60), wake_s), purpose

    def _goals(self, rows: Ints, purpose: Ints) -> Ints:
        """An edge for each trip by its purpose; of a few addresses the nearest: rounds stay together."""
        find, rng, net, town = self._places, self._rng, self._net, self._town[rows]
        goal = find.shops.draw(town, rng)
        anyhow, home = rng.random(len(rows)) < 0.5, find.homes.draw(town, rng)
        goal = np.where(purpose == FARE, np.where(anyhow, home, find.works.draw(town, rng)), goal)
        goal = np.where(_to_base(purpose), self.base[0][rows], goal)
        goal = np.where(purpose == WORK, self.work[0][rows], goal)
        for what, kind in ((RANK, find.ranks), (HAUL, find.ring)):
            at = np.flatnonzero(purpose == what)
            goal[at] = kind.draw(town[at], rng)
        at = np.flatnonzero(purpose == DELIVERY)
        here, kinds = self._at[rows[at]], [find.homes] * (NEARBY_OF - 2) + [find.works] * 2
        some = np.stack([kind.draw(town[at], rng) for kind in kinds])
        way_s = net.travel_s(net.edge_to[here][None, :], some)
        way_s += np.where(some >> 1 == (here >> 1)[None, :], HOUR, 0.0)
        goal[at] = some[way_s.argmin(axis=0), np.arange(len(at))]
        return goal

    def _spot(self, rows: Ints, goal: Ints, purpose: Ints) -> Floats:
        """Where on the goal's edge the vehicle parks, m."""
        spot = kerb(self._net, goal, self._rng.random(len(rows)))
        spot = np.where(_to_base(purpose), self.base[1][rows], spot)
        return np.where(purpose == WORK, self.work[1][rows], spot)

    def _last_trips(self) -> tuple[Floats, Ints, Ints, Ints]:
        """For t = 0: how long ago the last trip began, from which edge, to which, what for; each [n]."""
        n, role = len(self.role), self.role
        rows = np.arange(n)
        left_s, purpose, came_for = self._diary.last_departure()
        duty, hauls = role >= TAXI, role == diary.HAUL
        busy = duty & (self._diary.shift(rows, 0.0)[0] > 0)
        purpose = np.where(duty, np.where(busy, self._working, self._homeward), purpose)
        came_for = np.where(duty, np.where(hauls, HAUL, FARE), came_for)
        start, goal = self._goals(rows, came_for), self._goals(rows, purpose)
        ago = self._rng.random(n) * (self._net.travel_s(self._net.edge_to[start], goal) + 60) * SLOWER
        drives = self._rng.random(n) < diary.of_role(role, "driving")
        started = np.where(duty, np.where(busy & drives, ago, HOUR * 9), -left_s)
        resting = busy & ~drives & hauls
        purpose[resting] = DEPOT
        goal[resting] = self.base[0][resting]
        return started, start, goal, purpose
