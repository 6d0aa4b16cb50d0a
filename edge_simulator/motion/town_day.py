"""The day of a town: commuters, errands and leisure, taxis, deliveries, long haul; quiet at night.

Who does what follows from the class of the vehicle and the generator; the state at any hour from the diary,
without simulating from midnight.
"""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.motion import diary
from edge_simulator.motion.agenda import (
    DELIVERY,
    DEPOT,
    FARE,
    HAUL,
    HOME,
    RANK,
    REST,
    WORK,
    Agenda,
    Next,
    Start,
    Steady,
    kerb,
)
from edge_simulator.motion.diary import DAY_S, Diary
from edge_simulator.town import places
from edge_simulator.town.network import RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

SLOWER = 1.3  # driving takes so much longer than on free roads, for the state at the run's start
RING_AHEAD = 14
"""Motorway edges to the next waypoint: less than half the ring, so that the way there stays on it."""
HAUL_H = (1.5, 4.2)  # hours at the wheel between two rests
LAST_H = 1.5  # A rest is not worth it any more when the shift ends within these hours
NEARBY_OF = 5


class Day:
    """An agenda (edge_simulator.motion.agenda.Agenda) of working days and weekends.

    ``begins_at_s`` is the local time of day at the run's start, ``weekday`` 0 is Monday.
    """

    def __init__(
        self,
        net: RoadNetwork,
        specs: Specs,
        rng: np.random.Generator,
        begins_at_s: float = 0.0,
        weekday: int = 0,
    ) -> None:
        n = len(specs.model)
        self._net, self._rng = net, rng
        self._places = places.find(net, rng)
        seed = int(rng.integers(0, 2**31))
        self.role = diary.roles(specs.kind, rng)
        self.town = np.arange(n) % len(net.town_lat)
        own_home = self.role <= diary.TAXI
        find = self._places
        base = np.where(own_home, find.homes.draw(self.town, rng), find.depots.draw(self.town, rng))
        self.base = base, kerb(net, base, np.where(own_home, rng.random(n), rng.uniform(0.4, 0.6, n)))
        work = find.works.draw(self.town, rng)
        self.work = work, kerb(net, work, rng.random(n))
        self._homeward = np.where(own_home, HOME, DEPOT)
        late = rng.random(n) < np.nan_to_num(diary.of_role(self.role, "late_share"))
        self._diary = Diary(self.role, late, seed, begins_at_s, weekday)
        self._doing = self._homeward.copy()
        self._at = base.copy()
        self._haul_until_s = np.full(n, -np.inf)

    def begin(self) -> Start:
        """Everybody where the hour has them: at home, at work, at a stop, or under way."""
        n = len(self.role)
        started, start_edge, goal, purpose = self._last_trips()
        travel_s = SLOWER * (self._net.travel_s(self._net.edge_to[start_edge], goal) + 60)
        under_way = started < travel_s
        self._doing = purpose.copy()
        self._at = np.where(under_way, start_edge, goal)
        edge, share = places.along(self._net, start_edge, goal, np.where(under_way, started / SLOWER, 0.0))
        goal_s = self._spot(np.arange(n), goal, purpose)
        self._haul_until_s = np.where(purpose == HAUL, self._rng.uniform(0.1, HAUL_H[1], n) * diary.HOUR, 0.0)
        rest = np.flatnonzero(~under_way)
        then = self.parked(rest, 0.0)
        wake_s = np.full(n, np.inf)
        wake_s[rest] = then.wake_s
        stopped = np.isin(purpose[rest], (DELIVERY, FARE, RANK))
        wake_s[rest[stopped]] *= self._rng.random(int(stopped.sum()))
        base, idling = np.zeros((2, n), dtype=np.bool_)
        base[rest], idling[rest] = then.base, then.idling
        at = np.where(under_way, edge, goal)
        s = np.where(under_way, np.clip(share, 0.02, 0.95) * self._net.length_m[edge], goal_s)
        goal[rest], goal_s[rest], purpose[rest] = then.goal, then.goal_s, then.purpose
        since = np.clip(started - travel_s, 0.0, 3 * DAY_S)
        return Start(at, s, ~under_way, since, wake_s, goal, goal_s, purpose, base, idling)

    def parked(self, rows: Ints, t_s: float) -> Next:
        """What ``rows`` do after the trip that has just ended."""
        self._diary.roll(t_s)
        on_duty = self.role[rows] >= diary.TAXI
        wake_s, purpose = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        base = (self._doing[rows] == HOME) | (self._doing[rows] == DEPOT)
        private, working = rows[~on_duty], rows[on_duty]
        wake_s[~on_duty], purpose[~on_duty] = self._diary.next_departure(private, t_s)
        wake_s[on_duty], purpose[on_duty] = self._duty(working, t_s)
        goal = self._goals(rows, purpose)
        stop = ~base & (self._rng.random(len(rows)) < np.nan_to_num(diary.of_role(self.role[rows], "idling")))
        self._doing[rows] = purpose
        self._at[rows] = goal
        hauls = rows[purpose == HAUL]
        self._haul_until_s[hauls] = wake_s[purpose == HAUL] + diary.HOUR * self._rng.uniform(
            *HAUL_H, len(hauls)
        )
        return Next(wake_s, goal, self._spot(rows, goal, purpose), purpose, base, stop)

    def passing(self, rows: Ints, edge: Ints, t_s: float) -> tuple[Ints, Ints, Floats]:
        """Long haul goes round on the motorway until it is time for a rest at its side, or to go home."""
        going = (self.role[rows] == diary.HAUL) & (self._doing[rows] == HAUL)
        rows, edge = rows[going], edge[going]
        rests = t_s >= self._haul_until_s[rows]
        over = rests & (self._diary.shift(rows, t_s)[0] < t_s + LAST_H * diary.HOUR)
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
        wake_s = t_s + diary.stop_s(role, rng)
        dropped = (role == diary.TAXI) & (doing == FARE)
        wake_s = np.where(dropped, t_s + rng.uniform(40, 150, len(rows)), wake_s)
        work = np.select([role == diary.TAXI, role == diary.HAUL], [FARE, HAUL], DELIVERY)
        work = np.where(dropped & (rng.random(len(rows)) < 0.55), RANK, work)
        at_base = (doing == HOME) | (doing == DEPOT)
        off = wake_s >= until
        purpose = np.where(off & ~at_base, self._homeward[rows], work)
        return np.where(off & at_base, np.maximum(following, t_s + 60), wake_s), purpose

    def _goals(self, rows: Ints, purpose: Ints) -> Ints:
        """An edge for each trip by its purpose."""
        find, rng, town = self._places, self._rng, self.town[rows]
        goal = find.shops.draw(town, rng)
        anywhere = np.where(
            rng.random(len(rows)) < 0.5, find.homes.draw(town, rng), find.works.draw(town, rng)
        )
        goal = np.where(purpose == FARE, anywhere, goal)
        goal = np.where((purpose == HOME) | (purpose == DEPOT), self.base[0][rows], goal)
        goal = np.where(purpose == WORK, self.work[0][rows], goal)
        for what, kind in ((RANK, find.ranks), (HAUL, find.ring)):
            at = np.flatnonzero(purpose == what)
            goal[at] = kind.draw(town[at], rng)
        at = np.flatnonzero(purpose == DELIVERY)
        goal[at] = self._nearby(rows[at])
        return goal

    def _nearby(self, rows: Ints) -> Ints:
        """The nearest of a few addresses: rounds stay together."""
        town, rng, net = self.town[rows], self._rng, self._net
        homes = [self._places.homes.draw(town, rng) for _ in range(NEARBY_OF - 2)]
        some = np.stack([*homes, *(self._places.works.draw(town, rng) for _ in range(2))])
        way_s = net.travel_s(net.edge_to[self._at[rows]][None, :], some)
        way_s += np.where(some >> 1 == (self._at[rows] >> 1)[None, :], diary.HOUR, 0.0)
        found: Ints = some[way_s.argmin(axis=0), np.arange(len(rows))]
        return found

    def _spot(self, rows: Ints, goal: Ints, purpose: Ints) -> Floats:
        """Where on the goal's edge the vehicle parks, m."""
        spot = kerb(self._net, goal, self._rng.random(len(rows)))
        spot = np.where((purpose == HOME) | (purpose == DEPOT), self.base[1][rows], spot)
        return np.where(purpose == WORK, self.work[1][rows], spot)

    def _last_trips(self) -> tuple[Floats, Ints, Ints, Ints]:
        """For t = 0: how long ago the last trip began, from which edge, to which, what for; each [n]."""
        n = len(self.role)
        rows = np.arange(n)
        left_s, purpose, came_for = self._diary.last_departure()
        duty = self.role >= diary.TAXI
        busy = duty & (self._diary.shift(rows, 0.0)[0] > 0)
        work = np.select([self.role == diary.TAXI, self.role == diary.HAUL], [FARE, HAUL], DELIVERY)
        purpose = np.where(duty, np.where(busy, work, self._homeward), purpose)
        came_for = np.where(duty, np.where(self.role == diary.HAUL, HAUL, FARE), came_for)
        start, goal = self._goals(rows, came_for), self._goals(rows, purpose)
        ago = self._rng.random(n) * (self._net.travel_s(self._net.edge_to[start], goal) + 60) * SLOWER
        drives = self._rng.random(n) < np.nan_to_num(diary.of_role(self.role, "driving"))
        started = np.where(duty, np.where(busy & drives, ago, diary.HOUR * 9), -left_s)
        resting = duty & busy & ~drives & (self.role == diary.HAUL)
        purpose[resting] = DEPOT
        goal[resting] = self.base[0][resting]
        return started, start, goal, purpose


def for_profile(
    profile: str, net: RoadNetwork, specs: Specs, rng: np.random.Generator, begins_at_s: float, weekday: int
) -> Agenda:
    """The agenda of a profile, ``steady`` or ``day``; t = 0 is ``begins_at_s`` after local midnight."""
    if profile == "steady":
        return Steady(net, len(specs.model), rng)
    return Day(net, specs, rng, begins_at_s, weekday)
