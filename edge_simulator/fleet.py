"""The fleet on the road: where each vehicle is, how fast, and where to. State as arrays [n_vehicles].

Everything a vehicle reports follows from this motion: position is the integral of speed along the heading,
acceleration is the change of speed, yaw rate the change of heading.
"""

from __future__ import annotations

import numpy as np

from edge_simulator import dynamics, streets
from edge_simulator.fleet_state import approach_mps2, drivers, placed
from edge_simulator.geo import Bools, Floats, Ints, metres_per_degree, wrap_pi
from edge_simulator.roads import RoadNetwork
from edge_simulator.traffic import leaders
from edge_simulator.vehicles import Specs

HARD_BRAKING_PER_S = 1 / 2400
STOP_LINE_M = 8.0
"""Distance of the stop line from the middle of the junction."""
CRASH_SLOWING_MPS2 = 7.0


class Fleet:
    """The vehicles of one run. ``rng`` drives every decision; the same seed gives the same motion."""

    def __init__(self, net: RoadNetwork, specs: Specs, rng: np.random.Generator) -> None:
        self.net = net
        self.specs = specs
        self.n = len(specs.model)
        self.t_s = 0.0
        self._rng = rng
        self.drivers = drivers(specs, rng)
        self._heavy = (specs("mass_kg") > 10_000).astype(np.float64)
        self.state = placed(net, self.n, rng)
        self._plan_turn(np.arange(self.n))

    def step(self, h_s: float) -> None:
        """Move all vehicles by ``h_s`` seconds."""
        st = self.state
        self.t_s += h_s
        self._wake()
        self._startle(h_s)
        st.a = self._accel(h_s)
        before = st.v
        st.v = np.where(st.parked, 0.0, np.maximum(before + st.a * h_s, 0.0))
        self._collide(before, h_s)
        st.a = (st.v - before) / h_s
        self._steer((before + st.v) / 2, h_s)
        self._change_edges()
        self._park()

    def ignition_on(self) -> Bools:
        """Whether each vehicle's ignition is on."""
        return ~self.state.parked

    def limit_kmh(self) -> Floats:
        """Speed limit where each vehicle is."""
        return self.net.limit_kmh[self.state.edge].astype(np.float64)

    def _plan_turn(self, rows: Ints) -> None:
        """Choose the next edge of ``rows`` and the speed for the turn into it."""
        st, net = self.state, self.net
        edge = st.edge[rows]
        following = net.next_edge(edge, st.destination[rows])
        angle = wrap_pi(net.heading_in[following] - net.heading_out[edge])
        speed = dynamics.turn_speed(angle, self._heavy[rows])
        yields = (net.road_class[following] < net.road_class[edge]) & (
            net.signal_cycle_s[net.edge_to[edge]] == 0
        )
        joins = net.road_class[following] == streets.MOTORWAY
        st.next_edge[rows] = following
        st.turn_v[rows] = np.where(yields & ~joins, np.minimum(speed, 3.0), speed)

    def _accel(self, h_s: float) -> Floats:
        st, dr = self.state, self.drivers
        free = dynamics.wanted_accel(st.v, self._wanted_v(), dr.accel, dr.brake)
        hold = np.maximum(self._for_leader(), self._for_stop())
        command = np.where(st.v > 0.05, free - hold, np.where(hold > dr.accel, -0.5, free - hold))
        command = np.where(self.t_s < st.emergency_until, st.emergency_mps2, command)
        floor = np.where(self.t_s < st.emergency_until, -9.0, dr.floor)
        return dynamics.limit_accel(
            command, st.a, st.v, h_s, 1000 * self.specs("power_kw"), self.specs("mass_kg"), floor
        )

    def _wanted_v(self) -> Floats:
        """The lowest of limit, vehicle, bend and coming turn, m/s."""
        st, net = self.state, self.net
        point, share = net.locate(st.edge, st.s)
        v2 = net.point_v2[point] + share * (net.point_v2[point + 1] - net.point_v2[point])
        to_end = np.maximum(net.length_m[st.edge] - st.s - 3.0, 0.0)
        turn2 = st.turn_v**2 + 2 * approach_mps2(self.drivers) * to_end
        limit = net.limit_kmh[st.edge] * self.drivers.limit_factor
        limit = np.minimum(limit, self.specs("top_kmh")) / 3.6
        wanted: Floats = np.minimum(limit, np.sqrt(np.minimum(v2, turn2)))
        return wanted

    def _for_leader(self) -> Floats:
        st, dr = self.state, self.drivers
        to_end = self.net.length_m[st.edge] - st.s
        on_road = ~st.parked & ~(st.crashed & (st.v == 0))
        leader, distance = leaders(st.edge, st.s, st.next_edge, to_end, on_road, len(self.net.length_m))
        gap = distance - self.specs("length_m")[leader]
        closing = st.v - st.v[leader]
        term = dynamics.interaction(st.v, closing, gap, dr.accel, dr.brake, dr.headway_s)
        return np.where(leader >= 0, term, 0.0)

    def _for_stop(self) -> Floats:
        """Deceleration for a red signal or the end of the trip."""
        st, dr, net = self.state, self.drivers, self.net
        to_line = net.length_m[st.edge] - st.s - STOP_LINE_M
        can_stop = st.v**2 / (2 * np.maximum(to_line, 0.1)) < 3.0
        red = net.red(st.edge, self.t_s) & (to_line > 0) & can_stop
        gap = np.minimum(np.where(red, to_line, np.inf), st.park_at - st.s)
        return dynamics.interaction(st.v, st.v, gap, dr.accel, dr.brake, 0.5 * dr.headway_s)

    def _collide(self, before: Floats, h_s: float) -> None:
        """Take the impact's speed off; a wreck slows to a stop and stays."""
        st = self.state
        wreck = st.crashed
        if wreck.any():
            rolling = np.maximum(before - CRASH_SLOWING_MPS2 * h_s, 0.0)
            hit = np.maximum(before - st.impact_mps, 0.0)
            st.v = np.where(wreck, np.where(st.impact_mps > 0, hit, rolling), st.v)
            st.impact_mps = np.zeros(self.n)

    def _steer(self, v_mean: Floats, h_s: float) -> None:
        """Move along an arc towards a point ahead on the route and follow the route's distance."""
        st, net = self.state, self.net
        aim = st.s + dynamics.aim_distance(v_mean)
        length = net.length_m[st.edge]
        over = aim > length
        aim_edge = np.where(over, st.next_edge, st.edge)
        point, share = net.locate(aim_edge, np.where(over, aim - length, aim))
        aim_lat = net.point_lat[point] + share * (net.point_lat[point + 1] - net.point_lat[point])
        aim_lon = net.point_lon[point] + share * (net.point_lon[point + 1] - net.point_lon[point])
        curvature, _ = dynamics.steer(st.lat, st.lon, st.heading, v_mean, aim_lat, aim_lon)
        turn = 0.35 * h_s * np.clip(v_mean / 1.5, 0.0, 1.0)
        st.curvature = st.curvature + np.clip(curvature - st.curvature, -turn, turn)
        step_m = v_mean * h_s
        yaw = st.curvature * step_m
        st.lat, st.lon, st.heading = dynamics.move(st.lat, st.lon, st.heading, yaw, step_m)
        st.yaw_rps = yaw / h_s
        st.odometer_m = st.odometer_m + step_m
        st.s = st.s + self._progress(step_m)

    def _progress(self, step_m: Floats) -> Floats:
        """Distance along the route: the position's projection, at 0.6 to 2 times the way driven."""
        st, net = self.state, self.net
        point, share = net.locate(st.edge, st.s)
        nxt = point + 1
        part = net.point_key[nxt] - net.point_key[point]
        st.slope = (net.point_alt[nxt] - net.point_alt[point]) / part
        st.altitude = net.point_alt[point] + share * (net.point_alt[nxt] - net.point_alt[point])
        north, east = metres_per_degree(st.lat)
        dx, dy = (
            (net.point_lon[nxt] - net.point_lon[point]) * east,
            (net.point_lat[nxt] - net.point_lat[point]) * north,
        )
        px, py = (st.lon - net.point_lon[point]) * east, (st.lat - net.point_lat[point]) * north
        ahead = (px * dx + py * dy) / part - share * part
        return np.clip(ahead, 0.6 * step_m, 2.0 * step_m)

    def _change_edges(self) -> None:
        st, net = self.state, self.net
        rows = np.flatnonzero(st.s >= net.length_m[st.edge])
        if len(rows) == 0:
            return
        st.s[rows] -= net.length_m[st.edge[rows]]
        st.edge[rows] = st.next_edge[rows]
        st.park_at[rows] = np.inf
        last = rows[net.edge_to[st.edge[rows]] == st.destination[rows]]
        st.park_at[last] = self._rng.uniform(0.6, 0.9, len(last)) * net.length_m[st.edge[last]]
        st.destination[last] = self._rng.integers(0, len(net.node_lat), len(last))
        self._plan_turn(rows)

    def _park(self) -> None:
        st = self.state
        arrived = np.flatnonzero((st.v < 0.2) & (st.s > st.park_at - 4.0) & ~st.parked & ~st.crashed)
        if len(arrived):
            st.parked[arrived] = True
            st.park_at[arrived] = np.inf
            st.wake_s[arrived] = self.t_s + np.exp(self._rng.normal(4.9, 0.7, len(arrived)))

    def _wake(self) -> None:
        st = self.state
        waking = st.parked & (self.t_s >= st.wake_s)
        if waking.any():
            st.parked &= ~waking
            st.started_s = np.where(waking, self.t_s, st.started_s)
            st.wake_s = np.where(waking, np.inf, st.wake_s)

    def _startle(self, h_s: float) -> None:
        """Now and then somebody has to brake hard."""
        st = self.state
        draw = self._rng.random(self.n)
        rows = np.flatnonzero((draw < HARD_BRAKING_PER_S * h_s) & (st.v > 7.0) & ~st.crashed)
        if len(rows):
            st.emergency_until[rows] = self.t_s + self._rng.uniform(0.9, 1.9, len(rows))
            st.emergency_mps2[rows] = -self._rng.uniform(3.6, 6.8, len(rows))
