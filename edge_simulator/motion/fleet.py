"""The fleet on the road: where each vehicle is, how fast, and where to. State as arrays [n_vehicles].

Everything a vehicle reports follows from this motion: position is the integral of speed along the heading,
acceleration is the change of speed, yaw rate the change of heading. A step looks at the vehicles on the road,
in road order (edge_simulator.motion.traffic), and at the handful that wakes, parks or breaks down.
"""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import styles
from edge_simulator.motion.agenda import Agenda, Steady
from edge_simulator.motion.fleet_state import placed
from edge_simulator.motion.lane import Lane, drive
from edge_simulator.motion.mishaps import Mishaps
from edge_simulator.motion.traffic import STOP_LINE_M, Approach, Tails, Verdict, fits, in_order
from edge_simulator.motion.wayfinding import STUCK_S, Wayfinder
from edge_simulator.town.network import LANES, RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

PARKING_M = 4.0
CREEP_MPS = 0.3
GAVE_UP_FOR_S = 420.0  # A break of drivers who could not get on


class Fleet:
    """The vehicles of one run. ``rng`` drives every decision; the same seed gives the same motion."""

    def __init__(
        self, net: RoadNetwork, specs: Specs, rng: np.random.Generator, agenda: Agenda | None = None
    ) -> None:
        self.net = net
        self.specs = specs
        self.n = len(specs.model)
        self.t_s = 0.0
        self.drivers = styles.drivers(specs, rng)
        self.agenda: Agenda = agenda if agenda is not None else Steady(net, self.n, rng)
        self.state = placed(net, self.agenda.begin(), rng)
        self._span = float(net.length_m.max()) + 10.0
        self._moods = styles.Moods(self.drivers, rng)
        self._mishaps = Mishaps(net, self.drivers.length_m, rng)
        self._way = Wayfinder(net, self.drivers)
        self._leaving: Ints = np.empty(0, dtype=np.int64)
        self._order: Ints = np.empty(0, dtype=np.int64)
        self._settling: Ints = self._order
        st = self.state
        self._arrive(np.flatnonzero(~st.parked & (st.edge >> 1 == st.goal >> 1)))
        self._line_up()
        self._way.plan(st, np.arange(self.n))

    def step(self, h_s: float) -> None:
        """Move all vehicles by ``h_s`` seconds."""
        st = self.state
        self.t_s += h_s
        st.renew()
        st.a[self._settling] = st.yaw_rps[self._settling] = 0.0
        self._wake()
        self._mishaps.notice(st)
        self._moods.strike(st, self.t_s, h_s)
        self._order = in_order(self._order, self._key())
        self._pull_out()
        if len(self._order):
            self._move(Lane.of(self.net, st, self.drivers, self._order), h_s)
        self._settling = self._leave_road()

    def ignition_on(self) -> Bools:
        """Whether each vehicle's ignition is on."""
        return ~self.state.parked | self.state.idling

    def charging(self) -> Bools:
        """Whether each vehicle stands at home or at its depot, where an electric one is plugged in."""
        return self.state.parked & self.state.at_base & ~self.state.idling

    def limit_kmh(self) -> Floats:
        """Speed limit where each vehicle is."""
        return self.net.limit_kmh[self.state.edge].astype(np.float64)

    def break_down(self, vehicle: int) -> None:
        """``vehicle`` rolls out, blocks its lane and is towed away after a while; parked, it stays so."""
        self._mishaps.add(self.state, vehicle)

    def _key(self) -> Floats:
        """Road order of all vehicles: by track, then by the distance along it."""
        return self._track() * self._span + self.state.s

    def _track(self) -> Ints:
        """The lane of the edge that each vehicle is on."""
        return LANES * self.state.edge + self.state.lane

    def _line_up(self) -> None:
        """At the start: who has no room on the road waits at the kerb for a gap."""
        st = self.state
        rows = in_order(np.flatnonzero(st.on_road), self._key())
        need = self.drivers.length_m[rows[1:]] + 3.0 + 1.5 * st.v[rows[:-1]]
        tight = rows[:-1][np.diff(self._key()[rows]) < need]
        st.on_road[tight] = False
        st.v[tight] = 0.0
        self._leaving = tight
        self._order = rows[st.on_road[rows]]

    def _move(self, lane: Lane, h_s: float) -> None:
        st, net, who = self.state, self.net, self.drivers
        self._way.watch(lane.edge, lane.v, self.t_s)
        stop_m = self._stops(lane, h_s)
        wanted = lane.wanted_v(net, st, who, self._mishaps.passing2(lane))
        next_v = lane.next_v(st, who, wanted, stop_m, self.t_s, h_s)
        next_v[(st.park_at[lane.rows] - lane.s < PARKING_M) & (lane.v < CREEP_MPS)] = 0.0
        if not self._mishaps.none:
            self._mishaps.slow(st, lane, next_v, h_s)
        drive(net, st, lane, next_v, h_s)
        self._change_edges(lane)

    def _stops(self, lane: Lane, h_s: float) -> Floats:
        """Distance to where each vehicle has to stop, m: the stop line or the end of the trip."""
        st = self.state
        stop_m = st.park_at[lane.rows] - lane.s
        near = lane.near()
        if len(near):
            verdict, approach = lane.judge(self.net, st, near, self.t_s)
            held = near[verdict.stop]
            stop_m[held] = np.minimum(stop_m[held], lane.to_end[held] - STOP_LINE_M)
            self._wait(lane.rows[near], verdict, approach, lane.last, h_s)
        return stop_m

    def _wait(self, rows: Ints, verdict: Verdict, near: Approach, tails: Tails, h_s: float) -> None:
        """Count the time spent waiting; who has waited long before a full street goes another way."""
        st = self.state
        st.through[rows] = verdict.through
        waits = verdict.on_turn & (near.v < CREEP_MPS)
        waited = np.where(waits, near.waited_s + h_s, np.where(near.v > 1.0, 0.0, near.waited_s))
        st.waited_s[rows] = waited
        stuck = rows[waits & verdict.full & (waited > STUCK_S)]
        if len(stuck):
            self._way.detour(st, stuck, tails)

    def _change_edges(self, lane: Lane) -> None:
        """Who has come to the end of an edge goes on to the next, one at a time where two meet."""
        st, net = self.state, self.net
        at = np.flatnonzero(st.s[lane.rows] >= net.length_m[lane.edge])
        if len(at) == 0:
            return
        rows = self._one_by_one(lane.rows[at], lane.next_track[at])
        st.s[rows] -= net.length_m[st.edge[rows]]
        st.edge[rows] = edge = st.next_edge[rows]
        st.through[rows] = False
        st.waited_s[rows] = 0.0
        st.park_at[rows] = np.inf
        self._arrive(rows[edge >> 1 == st.goal[rows] >> 1])
        self._way.plan(st, rows)
        self._way.choose_lane(st, rows, lane.last)

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

    def _one_by_one(self, rows: Ints, target: Ints) -> Ints:
        """Of vehicles that enter the same track at once, only the first; the others stay just before it."""
        st, net = self.state, self.net
        over = st.s[rows] - net.length_m[st.edge[rows]]
        order = np.lexsort((-over, target))
        target = target[order]
        first = np.ones(len(rows), dtype=np.bool_)
        first[order[1:]] = target[1:] != target[:-1]
        late = rows[~first]
        st.s[late] = net.length_m[st.edge[late]] - 0.01
        return rows[first]

    def _leave_road(self) -> Ints:
        """Park who has arrived and who is towed away; returns who has left the road."""
        st, order = self.state, self._order
        still = order[(st.v[order] == 0.0) & (st.s[order] > st.park_at[order] - PARKING_M)]
        still = still[~st.broken[still]]
        towed = still[:0] if self._mishaps.none else self._mishaps.progress(st, self.t_s)
        if len(still):
            self._park(still)
        gone = np.concatenate([still, towed])
        st.parked[towed] = True
        st.parked_since_s[gone] = self.t_s
        st.on_road[gone] = False
        if len(gone) or not self._mishaps.none:
            self._order = order[st.on_road[order]]
        return gone

    def _park(self, rows: Ints) -> None:
        """The trip of ``rows`` is over; the agenda says what comes next."""
        st = self.state
        st.parked[rows] = True
        st.park_at[rows] = np.inf
        there = st.edge[rows] >> 1 == st.goal[rows] >> 1
        st.wake_s[rows[~there]] = self.t_s + GAVE_UP_FOR_S
        rows = rows[there]
        then = self.agenda.parked(rows, self.t_s)
        st.wake_s[rows] = then.wake_s
        st.goal[rows], st.goal_s[rows], st.purpose[rows] = then.goal, then.goal_s, then.purpose
        st.at_base[rows], st.idling[rows] = then.base, then.idling

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
        if len(self._leaving) == 0:
            return
        st, order, own = self.state, self._order, self._leaving
        key, length, track = self._key(), self.drivers.length_m, self._track()
        free = fits(
            key[order], st.s[order], st.v[order], length[order], track[order],
            key[own], track[own], st.s[own], length[own],
        )  # fmt: skip
        _, first = np.unique(st.edge[own[free]], return_index=True)
        joins = own[free][first]
        st.on_road[joins] = True
        self._leaving = own[~st.on_road[own]]
        self._order = in_order(np.concatenate([order, joins]), key)
