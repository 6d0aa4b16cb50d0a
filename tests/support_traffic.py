"""Fleets set up by hand: vehicles in given places with given goals, who stay when they have arrived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Floats, Ints, wrap_pi
from edge_simulator.motion.agenda import Next, Start
from edge_simulator.motion.fleet import Fleet
from edge_simulator.town.roads import RoadNetwork
from edge_simulator.vehicle import vehicles


@dataclass(frozen=True, slots=True)
class OneTrip:
    """An agenda: one trip each, then never again. ``leaves_s`` 0 is under way, more is parked until then."""

    edge: Ints
    s: Floats
    goal: Ints
    leaves_s: Floats
    idles: bool = False
    """Whether the engine is left running at the end."""

    def begin(self) -> Start:
        n = len(self.edge)
        no, parked = np.zeros(n, dtype=np.bool_), self.leaves_s > 0
        wake_s = np.where(parked, self.leaves_s, np.inf)
        return Start(
            wake_s, self.goal, np.full(n, 40.0), np.zeros(n, dtype=np.int64), no, no,
            self.edge, self.s, parked, np.zeros(n),
        )  # fmt: skip

    def parked(self, rows: Ints, t_s: float) -> Next:
        n = len(rows)
        base, idles = np.zeros(n, dtype=np.bool_), np.full(n, self.idles)
        return Next(np.full(n, np.inf), self.goal[rows], np.full(n, 40.0), np.zeros(n, np.int64), base, idles)

    def passing(self, rows: Ints, edge: Ints, t_s: float) -> tuple[Ints, Ints, Floats]:
        return rows[:0], rows[:0], np.empty(0)


def straight_on(net: RoadNetwork, edge: int) -> int:
    """The edge that goes on most straight after ``edge``."""
    choices = net.out_edges[net.edge_to[edge]]
    choices = choices[(choices >= 0) & (choices != edge ^ 1)]
    return int(choices[np.abs(wrap_pi(net.heading_in[choices] - net.heading_out[edge])).argmin()])


def fleet(net: RoadNetwork, agenda: OneTrip, seed: int = 3, model: int = 0) -> Fleet:
    """A fleet of one model (0: petrol cars) that does what ``agenda`` says."""
    specs = vehicles.Specs(np.full(len(agenda.edge), model, dtype=np.int64))
    made = Fleet(net, specs, np.random.default_rng(seed), agenda)
    assert made.state.on_road.sum() == (agenda.leaves_s == 0).sum(), "too tight for the speeds"
    return made


def jam(net: RoadNetwork, agenda: OneTrip, seed: int = 3) -> Fleet:
    """A fleet of petrol cars that all stand on the road at the start, bumper to bumper if need be."""
    waiting = OneTrip(agenda.edge, agenda.s, agenda.goal, np.ones(len(agenda.edge)))
    made = fleet(net, waiting, seed)
    st = made.state
    st.parked[:] = False
    st.on_road[:] = True
    st.wake_s[:] = np.inf
    made._order = np.lexsort((st.s, st.edge))
    return made


def bumper_gaps_m(vehicles_on: Fleet) -> Floats:
    """Free road between each vehicle in a lane and the next one ahead in it, m."""
    st, length_m = vehicles_on.state, vehicles_on.drivers.length_m
    rows = np.flatnonzero(st.on_road)
    track = 2 * st.edge + st.lane
    rows = rows[np.lexsort((st.s[rows], track[rows]))]
    behind, ahead = rows[:-1], rows[1:]
    same = track[behind] == track[ahead]
    gaps: Floats = (st.s[ahead] - length_m[ahead] - st.s[behind])[same]
    return gaps
