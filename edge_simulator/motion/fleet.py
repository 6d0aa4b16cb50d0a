"""The fleet on the road: where each vehicle is, how fast, and where to; all it reports follows from this."""

import numpy as np
from numpy.random import Generator

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import Agenda, Steady
from edge_simulator.motion.dynamics import Drivers, Moods, State
from edge_simulator.motion.lane import STOP_LINE_M, STUCK_S, Lane, Wayfinder
from edge_simulator.motion.mishaps import Mishaps
from edge_simulator.town.roads import LANES, RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

PARKING_M = 4.0
CREEP_MPS = 0.3
GAVE_UP_FOR_S = 420.0  # A break of drivers who could not get on
PULL_OUT_AHEAD_M = 1.5
PULL_OUT_BEHIND_M = 2.5
PULL_OUT_BRAKING_MPS2 = 2.0  # what a driver who pulls out expects of the one behind


class Fleet:
    """The vehicles of one run. ``rng`` drives every decision; the same seed gives the same motion."""

    def __init__(self, net: RoadNetwork, specs: Specs, rng: Generator, agenda: Agenda | None = None) -> None:
        self.net, self.specs = net, specs
        self.n, self.t_s = len(specs.model), 0.0
        self.drivers = Drivers(specs, rng)
        self.agenda: Agenda = agenda if agenda is not None else Steady(net, self.n, rng)
        self.state = st = State(net, self.agenda.begin(), rng)
        self._span = float(net.length_m.max()) + 10.0
        self._moods = Moods(self.drivers, rng)
        self._mishaps = Mishaps(net, self.drivers.length_m, rng)
        self._way = Wayfinder(net, self.drivers)
        self._settling: Ints = np.empty(0, dtype=np.int64)
        self._arrive(np.flatnonzero(~st.parked & (st.edge >> 1 == st.goal >> 1)))
        # who has no room on the road waits at the kerb for a gap
        rows = _in_order(np.flatnonzero(st.on_road), self._key())
        need = self.drivers.length_m[rows[1:]] + 3.0 + 1.5 * st.v[rows[:-1]]
        self._leaving: Ints = rows[:-1][np.diff(self._key()[rows]) < need]
        st.on_road[self._leaving] = False
        st.v[self._leaving] = 0.0
        self._order: Ints = rows[st.on_road[rows]]
        self._way.plan(st, np.arange(self.n))

    def step(self, h_s: float) -> None:
        st = self.state
        self.t_s += h_s
        st.renew()
        st.a[self._settling] = st.yaw_rps[self._settling] = 0.0
        self._wake()
        self._mishaps.notice(st)
        self._moods.strike(st, self.t_s, h_s)
        self._order = _in_order(self._order, self._key())
        self._pull_out()
        if len(self._order):
            lane = Lane(self.net, st, self.drivers, self._order)
            self._way.watch(lane.edge, lane.v, self.t_s)
            stop_m = self._stops(lane, h_s)
            next_v = lane.next_v(lane.wanted_v(self._mishaps.passing2(lane)), stop_m, self.t_s, h_s)
            next_v[(st.park_at[lane.rows] - lane.s < PARKING_M) & (lane.v < CREEP_MPS)] = 0.0
            if not self._mishaps.none:
                self._mishaps.slow(st, lane, next_v, h_s)
            lane.drive(next_v, h_s)
            self._change_edges(lane)
        self._settling = self._leave_road()

    def ignition_on(self) -> Bools:
        return ~self.state.parked | self.state.idling

    def charging(self) -> Bools:
        """Whether each vehicle stands at home or at its depot, where an electric one is plugged in."""
        return self.state.parked & self.state.at_base & ~self.state.idling

    def break_down(self, vehicle: int) -> None:
        """``vehicle`` rolls out, blocks its lane and is towed away after a while; parked, it stays so."""
        self._mishaps.add(self.state, vehicle)

    def _track(self) -> Ints:
        return LANES * self.state.edge + self.state.lane

    def _key(self) -> Floats:
        """Road order of all vehicles: by track, then by the distance along it."""
        return self._track() * self._span + self.state.s

    def _stops(self, lane: Lane, h_s: float) -> Floats:
        """Distance to where each vehicle has to stop, m; counts waiting, and sends the stuck another way."""
        st, near = self.state, lane.near
        stop_m = st.park_at[lane.rows] - lane.s
        if len(near):
            stop, through, on_turn, full = lane.judge(near, self.t_s)
            held = near[stop]
            stop_m[held] = np.minimum(stop_m[held], lane.to_end[held] - STOP_LINE_M)
            rows, v = lane.rows[near], lane.v[near]
            waits, before_s = on_turn & (v < CREEP_MPS), st.waited_s[rows]
            waited_s = np.where(waits, before_s + h_s, np.where(v > 1.0, 0.0, before_s))
            st.through[rows], st.waited_s[rows] = through, waited_s
            stuck = rows[waits & full & (waited_s > STUCK_S)]
            if len(stuck):
                self._way.detour(st, stuck, lane)
        return stop_m

    def _change_edges(self, lane: Lane) -> None:
        """Who has come to the end of an edge goes on; of those who enter one track at once only the first."""
        st, net = self.state, self.net
        at = np.flatnonzero(st.s[lane.rows] >= net.length_m[lane.edge])
        if len(at) == 0:
            return
        rows, target = lane.rows[at], lane.next_track[at]
        order = np.lexsort((net.length_m[st.edge[rows]] - st.s[rows], target))
        first = np.ones(len(rows), dtype=np.bool_)
        first[order[1:]] = target[order[1:]] != target[order[:-1]]
        late, rows = rows[~first], rows[first]
        st.s[late] = net.length_m[st.edge[late]] - 0.01
        st.s[rows] -= net.length_m[st.edge[rows]]
        st.edge[rows] = edge = st.next_edge[rows]
        st.through[rows] = False
        st.waited_s[rows] = 0.0
        st.park_at[rows] = np.inf
        self._arrive(rows[edge >> 1 == st.goal[rows] >> 1])
        self._way.plan(st, rows)
        self._way.choose_lane(st, rows, lane)

    def _arrive(self, rows: Ints) -> None:
        """``rows`` are on their goal's street: they look for the place to park, or go on to another goal."""
        st, net = self.state, self.net
        on, goals, goals_s = self.agenda.passing(rows, st.edge[rows], self.t_s)
        st.goal[on], st.goal_s[on] = goals, goals_s
        ends = rows[~np.isin(rows, on)]
        length = net.length_m[st.edge[ends]]
        place = np.where(st.edge[ends] == st.goal[ends], st.goal_s[ends], length - st.goal_s[ends])
        brakes_m = 6.0 + st.v[ends] ** 2 / 5.0
        st.park_at[ends] = np.minimum(np.maximum(place, st.s[ends] + brakes_m), length - 5.0)

    def _leave_road(self) -> Ints:
        """Park who has arrived and who is towed away; returns who has left the road."""
        st, order = self.state, self._order
        still = order[(st.v[order] == 0.0) & (st.s[order] > st.park_at[order] - PARKING_M)]
        still = still[~st.broken[still]]
        towed = still[:0] if self._mishaps.none else self._mishaps.progress(st, self.t_s)
        if len(still):  # a trip is over; the agenda says what comes next
            st.park_at[still] = np.inf
            st.wake_s[still] = self.t_s + GAVE_UP_FOR_S
            there = still[st.edge[still] >> 1 == st.goal[still] >> 1]
            then = self.agenda.parked(there, self.t_s)
            st.wake_s[there], st.goal[there], st.goal_s[there] = then.wake_s, then.goal, then.goal_s
            st.purpose[there], st.at_base[there], st.idling[there] = then.purpose, then.base, then.idling
        gone = np.concatenate([still, towed])
        st.parked[gone] = True
        st.parked_since_s[gone] = self.t_s
        st.on_road[gone] = False
        if len(gone) or not self._mishaps.none:
            self._order = order[st.on_road[order]]
        return gone

    def _wake(self) -> None:
        """Whose time has come starts the engine and wants to pull out."""
        st = self.state
        rows = np.flatnonzero(self.t_s >= st.wake_s)
        if len(rows) == 0:
            return
        st.parked[rows] = False
        st.started_s[rows] = np.where(st.idling[rows], st.started_s[rows], self.t_s)
        st.wake_s[rows] = st.parked_since_s[rows] = np.inf
        st.idling[rows] = st.at_base[rows] = False
        here = (st.goal[rows] == st.edge[rows]) & (st.goal_s[rows] > st.s[rows] + 20.0)
        st.park_at[rows[here]] = st.goal_s[rows[here]]
        self._way.plan(st, rows)
        self._leaving = np.concatenate([self._leaving, rows])

    def _pull_out(self) -> None:
        """Who finds a gap beside it joins the traffic, one on each edge at a time."""
        st, order, own = self.state, self._order, self._leaving
        if len(own) == 0:
            return
        key, length, track = self._key(), self.drivers.length_m, self._track()
        free = own
        if len(order):
            place = np.searchsorted(key[order], key[own])
            ahead, behind = order[np.minimum(place, len(order) - 1)], order[np.maximum(place - 1, 0)]
            blocked = (place < len(order)) & (track[ahead] == track[own])
            blocked &= st.s[ahead] - length[ahead] - st.s[own] < PULL_OUT_AHEAD_M
            need = PULL_OUT_BEHIND_M + st.v[behind] + st.v[behind] ** 2 / (2 * PULL_OUT_BRAKING_MPS2)
            pushed = (place > 0) & (track[behind] == track[own])
            pushed &= st.s[own] - length[own] - st.s[behind] < need
            free = own[~blocked & ~pushed]
        _, first = np.unique(st.edge[free], return_index=True)
        st.on_road[free[first]] = True
        self._leaving = own[~st.on_road[own]]
        self._order = _in_order(np.concatenate([order, free[first]]), key)


def _in_order(rows: Ints, key: Floats) -> Ints:
    """``rows`` by rising ``key`` ([n_vehicles]); cheap where they nearly are in order already."""
    at = key[rows]
    if bool((at[1:] >= at[:-1]).all()):
        return rows
    return rows[np.argsort(at, kind="stable")]
