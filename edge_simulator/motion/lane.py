"""One step of the vehicles on the road, in road order: what each sees, how fast and where it goes next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import dynamics
from edge_simulator.motion.fleet_state import State
from edge_simulator.motion.styles import Drivers
from edge_simulator.motion.traffic import (
    FREE_M,
    STOP_LINE_M,
    Approach,
    Tails,
    Verdict,
    fronts,
    gaps,
    judge,
    tails,
)
from edge_simulator.town.network import LANES, RoadNetwork

SIGHT_M = 12.0
SIGHT_S = 3.5  # A driver thinks of the junction from SIGHT_M + SIGHT_S * speed before the stop line on


@dataclass(slots=True)
class Lane:
    """Columns gathered from state and drivers, each [n_on_road], in road order."""

    rows: Ints  # which vehicle each entry is
    edge: Ints
    next_edge: Ints
    track: Ints
    next_track: Ints
    s: Floats
    v: Floats
    a: Floats
    to_end: Floats
    own_m: Floats
    accel: Floats
    per_closing: Floats
    headway_s: Floats
    gap: Floats
    leader: Ints
    last: Tails
    point: Ints
    share: Floats

    @classmethod
    def of(cls, net: RoadNetwork, st: State, who: Drivers, rows: Ints) -> Lane:
        """The vehicles ``rows``, which are in road order, at least one."""
        edge, s, next_edge, own_m = st.edge[rows], st.s[rows], st.next_edge[rows], who.length_m[rows]
        to_end = net.length_m[edge] - s
        side = st.lane[rows]
        track = LANES * edge + side
        next_track = LANES * next_edge + np.minimum(side, net.lanes[next_edge] - 1)
        front = fronts(track)
        tail = tails(track, front, LANES * len(net.length_m))
        v = st.v[rows]
        gap, leader = gaps(s, own_m, to_end, next_track, front, tail)
        point, share = net.locate(edge, s)
        return cls(
            rows, edge, next_edge, track, next_track, s, v, st.a[rows], to_end, own_m,
            who.accel[rows],
            who.per_closing[rows], who.headway_s[rows], gap, leader, _last(tail, s - own_m, v), point, share,
        )  # fmt: skip

    def wanted_v(self, net: RoadNetwork, st: State, who: Drivers, pass2: Floats | None) -> Floats:
        """The lowest of limit, vehicle, bend, coming turn and obstruction (``pass2``, squared), m/s."""
        rows = self.rows
        v2 = net.point_v2[self.point] + self.share * net.parts.dv2[self.point]
        v2 *= who.corner2[rows]
        turn = st.turn_v[rows]
        turn *= turn
        turn += 2 * who.approach[rows] * np.maximum(self.to_end - 3.0, 0.0)
        np.minimum(v2, turn, out=v2)
        if pass2 is not None:
            np.minimum(v2, pass2, out=v2)
        limit = np.minimum(net.limit_mps[self.edge] * who.limit_factor[rows], who.top_mps[rows])
        return np.minimum(limit, np.sqrt(v2))

    def near(self) -> Ints:
        """Places of the vehicles that must think of the junction ahead."""
        return np.flatnonzero(self.to_end < (SIGHT_M + STOP_LINE_M) + SIGHT_S * self.v)

    def judge(self, net: RoadNetwork, st: State, near: Ints, t_s: float) -> tuple[Verdict, Approach]:
        """Who of the vehicles at ``near`` must stop before the junction."""
        rows = self.rows[near]
        passed: Bools = st.through[rows] | (self.to_end[near] <= STOP_LINE_M)
        ahead = self.leader[near]
        alone = self.track[ahead] != self.track[near]
        alone |= ahead == near
        clear = st.through[self.rows[ahead]] | (self.to_end[ahead] <= STOP_LINE_M)
        approach = Approach(
            self.edge[near], self.track[near], self.next_track[near], self.to_end[near], self.v[near],
            self.own_m[near], passed, alone | clear, st.waited_s[rows],
        )  # fmt: skip
        return judge(net, approach, self.last, t_s), approach

    def next_v(
        self, st: State, who: Drivers, wanted: Floats, stop_m: Floats, t_s: float, h_s: float
    ) -> Floats:
        """Speed after the step, m/s. ``stop_m`` is the distance to where one has to stop, inf for nowhere."""
        rows, v, brake = self.rows, self.v, who.brake[self.rows]
        free = dynamics.wanted_accel(v, wanted, self.accel, brake)
        lead_v = v[self.leader]
        hold = dynamics.interaction(v, v - lead_v, self.gap, self.accel, self.headway_s, self.per_closing)
        at = np.flatnonzero(stop_m < FREE_M)
        own_v = v[at]
        halt = dynamics.interaction(
            own_v, own_v, stop_m[at], self.accel[at], 0.5 * self.headway_s[at], self.per_closing[at]
        )
        hold[at] = np.maximum(hold[at], halt)
        command = np.minimum(free, self.accel - hold)
        np.copyto(command, -0.5, where=(v <= 0.05) & (hold > self.accel))
        hardest = who.hardest[rows]
        floor = np.minimum(who.floor[rows], dynamics.needed_accel(v, lead_v, self.gap, hardest))
        a = dynamics.limit_accel(command, self.a, v, h_s, who.pull[rows], floor)
        self._moods(st, a, command, t_s, h_s)
        next_v = np.maximum(v + a * h_s, 0.0)
        safe = dynamics.safe_speed(self.gap, lead_v, hardest, h_s)
        return np.minimum(next_v, np.maximum(np.maximum(safe, v - hardest * h_s), 0.0))

    def _moods(self, st: State, a: Floats, command: Floats, t_s: float, h_s: float) -> None:
        """Emergency braking, and sprints where the road is free; changes ``a`` in place."""
        at = np.flatnonzero(st.emergency_until[self.rows] > t_s)
        if len(at) == 0:
            return
        wish, jerk = st.emergency_mps2[self.rows[at]], dynamics.JERK_EMERGENCY_MPS3 * h_s
        fast = np.clip(wish, self.a[at] - jerk, self.a[at] + 0.5 * jerk)
        sprints = wish > 0
        a[at] = np.where(
            sprints, np.where(command[at] > 0.4, np.maximum(a[at], fast), a[at]), np.minimum(a[at], fast)
        )


def _last(tail: Ints, rear_m: Floats, v: Floats) -> Tails:
    """The last vehicle of every track by its place, -1 for none."""
    held = np.flatnonzero(tail >= 0)
    rear, speed = np.full(len(tail), FREE_M), np.zeros(len(tail))
    rear[held], speed[held] = rear_m[tail[held]], v[tail[held]]
    return Tails(rear, speed)


STEERING_PER_M_S = 0.35  # fastest change of curvature, 1/m per s


def drive(net: RoadNetwork, st: State, lane: Lane, next_v: Floats, h_s: float) -> None:
    """Move the vehicles of ``lane`` by one step at the mean of old and new speed."""
    rows = lane.rows
    v_mean = 0.5 * (lane.v + next_v)
    lat, lon, x, y = st.lat[rows], st.lon[rows], st.east[rows], st.north[rows]
    per_lat, per_lon = net.metric.metres(lat)
    ahead = dynamics.aim_distance(v_mean)
    ahead -= lane.to_end
    over = ahead > 0
    edge = np.where(over, lane.next_edge, lane.edge)
    aim_lat, aim_lon = net.position(edge, np.where(over, ahead, ahead + (lane.to_end + lane.s)))
    wanted = dynamics.pursuit((aim_lon - lon) * per_lon, (aim_lat - lat) * per_lat, x, y, v_mean)
    turn = np.minimum(v_mean * (STEERING_PER_M_S * h_s / 1.5), STEERING_PER_M_S * h_s)
    curvature = st.curvature[rows]
    wanted -= curvature
    np.minimum(wanted, turn, out=wanted)
    np.maximum(wanted, -turn, out=wanted)
    curvature += wanted
    step_m = v_mean * h_s
    yaw = curvature * step_m
    sine, cosine = dynamics.sine_cosine(0.5 * yaw)
    x, y = x * cosine + y * sine, y * cosine - x * sine
    lat += step_m * y / per_lat
    lon += step_m * x / per_lon
    x, y = x * cosine + y * sine, y * cosine - x * sine
    st.curvature[rows] = curvature
    st.lat[rows], st.lon[rows], st.east[rows], st.north[rows] = lat, lon, x, y
    heading = st.heading[rows]
    heading += yaw
    heading -= 2 * np.pi * np.floor(heading / (2 * np.pi))
    np.copyto(heading, 0.0, where=heading >= 2 * np.pi)
    st.heading[rows] = heading
    st.yaw_rps[rows] = yaw / h_s
    st.odometer_m[rows] += step_m
    st.a[rows] = (next_v - lane.v) / h_s
    st.v[rows] = next_v
    st.s[rows] = lane.s + _progress(net, st, lane, lat, lon, (per_lat, per_lon), step_m)


def _progress(
    net: RoadNetwork, st: State, lane: Lane, lat: Floats, lon: Floats, per_deg: tuple[Floats, Floats],
    step_m: Floats,
) -> Floats:  # fmt: skip
    """Distance along the route: the position's projection, at 0.6 to 2 times the distance driven.

    Never beyond the bumper ahead: the distance along the route may run ahead of the one driven.
    """
    point, parts = lane.point, net.parts
    st.slope[lane.rows] = parts.slope[point]
    st.altitude[lane.rows] = net.point_alt[point] + lane.share * parts.dalt[point]
    along = (lon - net.point_lon[point]) * per_deg[1] * parts.east[point]
    along += (lat - net.point_lat[point]) * per_deg[0] * parts.north[point]
    along -= lane.s - net.point_s[point]
    np.minimum(along, 2.0 * step_m, out=along)
    np.maximum(along, 0.6 * step_m, out=along)
    return np.minimum(along, np.maximum(lane.gap, 0.0))
