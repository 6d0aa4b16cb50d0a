"""The motion as arrays, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import Start
from edge_simulator.town.network import RoadNetwork


@dataclass(slots=True)
class State:
    """The motion, each [n_vehicles]. Times are ``Fleet.t_s``; inf is never."""

    edge: Ints
    lane: Ints  # 0 except where the edge has two
    s: Floats  # distance along the edge, m
    next_edge: Ints
    goal: Ints  # edge on whose street the trip ends
    goal_s: Floats
    purpose: Ints  # what the trip, or when parked the next one, is for: index of agenda.PURPOSES
    park_at: Floats  # where on the present edge the trip ends, inf where it goes on
    turn_v: Floats
    lat: Floats
    lon: Floats
    heading: Floats
    east: Floats  # the heading as a unit vector
    north: Floats
    odometer_m: Floats
    v: Floats
    a: Floats
    yaw_rps: Floats  # right positive, as headings grow
    curvature: Floats
    slope: Floats
    altitude: Floats
    on_road: Bools  # in the lane: neither at the kerb nor a wreck that others have begun to pass
    parked: Bools
    idling: Bools  # parked with the ignition on
    at_base: Bools  # parked at home or at the depot
    parked_since_s: Floats
    wake_s: Floats
    started_s: Floats  # when the ignition last went on
    through: Bools  # cannot or need not stop before the junction any more
    waited_s: Floats  # time spent standing at a junction, not for a red signal
    emergency_until: Floats
    emergency_mps2: Floats
    crashed: Bools
    impact_mps: Floats  # speed to take off in the next step: a collision
    broken: Bools  # cannot go on: crashed or broken down

    def renew(self) -> None:
        """Copies in the place of the arrays that a step writes: who holds the old ones keeps that moment."""
        self.edge, self.s, self.v, self.a = self.edge.copy(), self.s.copy(), self.v.copy(), self.a.copy()
        self.lat, self.lon, self.heading = self.lat.copy(), self.lon.copy(), self.heading.copy()
        self.odometer_m, self.yaw_rps = self.odometer_m.copy(), self.yaw_rps.copy()
        self.parked = self.parked.copy()


def placed(net: RoadNetwork, begin: Start, rng: np.random.Generator) -> State:
    """A fleet where its agenda has it at the start; the next edges are still to be chosen."""
    n = len(begin.edge)
    edge, s, parked = begin.edge.copy(), begin.s.copy(), begin.parked.copy()
    lat, lon = net.position(edge, s)
    point, share = net.locate(edge, s)
    east, north = net.parts.east[point], net.parts.north[point]
    no = np.zeros(n, dtype=np.bool_)
    return State(
        edge=edge, lane=np.zeros(n, dtype=np.int64), s=s, next_edge=edge.copy(),
        goal=begin.goal.copy(), goal_s=begin.goal_s.copy(),
        purpose=begin.purpose.copy(), park_at=np.full(n, np.inf), turn_v=np.zeros(n), lat=lat, lon=lon,
        heading=np.arctan2(east, north) % (2 * np.pi), east=east, north=north,
        odometer_m=np.round(rng.uniform(5e6, 1.8e8, n)), a=np.zeros(n), yaw_rps=np.zeros(n),
        v=np.where(parked, 0.0, 0.5 * net.limit_kmh[edge] / 3.6), curvature=np.zeros(n),
        slope=net.parts.slope[point], altitude=net.point_alt[point] + share * net.parts.dalt[point],
        on_road=~parked, parked=parked, idling=begin.idling & parked, at_base=begin.base & parked,
        parked_since_s=np.where(parked, -begin.parked_for_s, np.inf), wake_s=begin.wake_s.copy(),
        started_s=np.full(n, -900.0), through=no.copy(), waited_s=np.zeros(n),
        emergency_until=np.full(n, -1.0), emergency_mps2=np.zeros(n), crashed=no.copy(),
        impact_mps=np.zeros(n), broken=no.copy(),
    )  # fmt: skip
