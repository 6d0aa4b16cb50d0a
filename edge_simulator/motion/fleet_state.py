"""The motion as arrays, and how it begins."""

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import Start
from edge_simulator.town.roads import RoadNetwork


class State:
    """The motion, each [n_vehicles], from where the agenda has it. Times are ``Fleet.t_s``; inf is never."""

    def __init__(self, net: RoadNetwork, begin: Start, rng: np.random.Generator) -> None:
        n, parked = len(begin.edge), begin.parked.copy()
        self.edge, self.s = begin.edge.copy(), begin.s.copy()  # s: distance along the edge, m
        point, share = net.locate(self.edge, self.s)
        self.lane: Ints = np.zeros(n, dtype=np.int64)  # 0 except where the edge has two
        self.next_edge = self.edge.copy()
        self.goal, self.goal_s = begin.goal.copy(), begin.goal_s.copy()  # edge on whose street the trip ends
        self.purpose = begin.purpose.copy()  # of the trip, or of the next one: index of agenda.PURPOSES
        self.park_at = np.full(n, np.inf)  # where on the present edge the trip ends, inf where it goes on
        self.turn_v = np.zeros(n)
        self.lat, self.lon = net.position(self.edge, self.s)
        self.east, self.north = net.part_east[point], net.part_north[point]  # the heading as a unit vector
        self.heading: Floats = np.arctan2(self.east, self.north) % (2 * np.pi)
        self.odometer_m = np.round(rng.uniform(5e6, 1.8e8, n))
        self.v: Floats = np.where(parked, 0.0, 0.5 * net.limit_kmh[self.edge] / 3.6)
        self.a: Floats = np.zeros(n)
        self.yaw_rps, self.curvature = np.zeros(n), np.zeros(n)  # right positive, as headings grow
        self.slope: Floats = net.part_slope[point]
        self.altitude = net.point_alt[point] + share * net.part_dalt[point]
        self.on_road = ~parked  # in the lane: neither at the kerb nor a wreck that others have begun to pass
        self.parked = parked
        self.idling = begin.idling & parked  # parked with the ignition on
        self.at_base = begin.base & parked  # parked at home or at the depot
        self.parked_since_s = np.where(parked, -begin.parked_for_s, np.inf)
        self.wake_s = begin.wake_s.copy()
        self.started_s = np.full(n, -900.0)  # when the ignition last went on
        self.through = np.zeros(n, dtype=np.bool_)  # cannot or need not stop before the junction any more
        self.waited_s = np.zeros(n)  # time spent standing at a junction, not for a red signal
        self.emergency_until, self.emergency_mps2 = np.full(n, -1.0), np.zeros(n)
        self.crashed: Bools = np.zeros(n, dtype=np.bool_)
        self.impact_mps = np.zeros(n)  # speed to take off in the next step: a collision
        self.broken = np.zeros(n, dtype=np.bool_)  # cannot go on: crashed or broken down

    def renew(self) -> None:
        """Copies in the place of the arrays that a step writes: who holds the old ones keeps that moment."""
        for name in ("edge", "s", "v", "a", "lat", "lon", "heading", "odometer_m", "yaw_rps", "parked"):
            setattr(self, name, getattr(self, name).copy())
