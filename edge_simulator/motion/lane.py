"""One step of the vehicles on the road: who is behind whom, how fast, who must stop, which way next.

Road order: by track (a lane of an edge), then by the distance along it: the next entry of the same track is
the vehicle ahead.
"""

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints, wrap_pi
from edge_simulator.motion import dynamics
from edge_simulator.motion.dynamics import Drivers, State
from edge_simulator.town import streets
from edge_simulator.town.roads import LANES, RoadNetwork

FREE_M = 1e6  # A gap where nobody is ahead
STOP_LINE_M = 8.0  # distance of the stop line from the middle of the junction
SIGHT_M = 12.0
SIGHT_S = 3.5  # A driver thinks of the junction from SIGHT_M + SIGHT_S * speed before the stop line on
COMFORTABLE_MPS2 = 2.8
GAP_S = 4.0
MERGE_GAP_S = 2.5  # advantage of the motorway over its ramps: those who are on it make room
BEHIND_S = 1.4  # time between two vehicles that enter the same street, beyond the first one's own length
IMPATIENT_S = 30.0
ROOM_M = 2.0
FORESEEN_S = 3.5  # a street has room if the last vehicle on it leaves enough within this time
STEERING_PER_M_S = 0.35  # fastest change of curvature, 1/m per s


class Lane:
    """The vehicles ``rows``, in road order and at least one, and what each sees; arrays [n_on_road].

    ``gap`` is the free road to the bumper ahead, m, and ``leader`` the place of that vehicle (itself where
    there is none). ``rear_m`` and ``rear_v`` are the last vehicle's of each track, [n_tracks]: its rear's
    distance from the begin, FREE_M where there is none, and its speed.
    """

    def __init__(self, net: RoadNetwork, st: State, who: Drivers, rows: Ints) -> None:
        self._net, self._st, self._who, self.rows = net, st, who, rows
        self.edge, self._next_edge, side = st.edge[rows], st.next_edge[rows], st.lane[rows]
        self.s, self.v, self.own_m = st.s[rows], st.v[rows], who.length_m[rows]
        self.to_end = net.length_m[self.edge] - self.s
        self.track = LANES * self.edge + side
        self.next_track = LANES * self._next_edge + np.minimum(side, net.lanes[self._next_edge] - 1)
        front = np.append(np.flatnonzero(self.track[1:] != self.track[:-1]), len(rows) - 1)
        last = np.concatenate([[0], front[:-1] + 1])
        tail, rear = np.full(LANES * len(net.length_m), -1, dtype=np.int64), self.s - self.own_m
        tail[self.track[last]] = last
        self.rear_m, self.rear_v = np.full(len(tail), FREE_M), np.zeros(len(tail))
        self.rear_m[self.track[last]], self.rear_v[self.track[last]] = rear[last], self.v[last]
        self.gap, self.leader = np.empty(len(rows)), np.arange(1, len(rows) + 1)
        self.gap[:-1] = rear[1:] - self.s[:-1]
        ahead = tail[self.next_track[front]]  # the first of a track looks for the last of its next one
        found = (ahead >= 0) & (ahead != front)
        self.gap[front] = np.where(found, self.to_end[front] + rear[ahead], FREE_M)
        self.leader[front] = np.where(found, ahead, front)
        self._point, self._share = net.locate(self.edge, self.s)
        # who must think of the junction ahead
        self.near = np.flatnonzero(self.to_end < (SIGHT_M + STOP_LINE_M) + SIGHT_S * self.v)

    def judge(self, near: Ints, t_s: float) -> tuple[Bools, Bools, Bools, Bools]:
        """Who of the vehicles at ``near`` must stop, who is through, whose turn it is, whose street is full.

        A vehicle that need not stop and could not stop comfortably any more is *through*: it goes first. The
        first one of each track that is not through waits for a red signal, where the street it wants has no
        room (the junction stays clear), for a vehicle that comes earlier from another street into the same
        one, and on a lesser street without a signal for whoever comes on the better one within ``GAP_S``.
        After ``IMPATIENT_S`` of waiting it goes next, whatever the rules say. One whose turn it is (first in
        its row, no red signal) waits when it stands.
        """
        st, target, v, ahead = self._st, self.next_track[near], self.v[near], self.leader[near]
        to_line, room_m = self.to_end[near] - STOP_LINE_M, self.own_m[near] + ROOM_M
        late = v * v > 2 * COMFORTABLE_MPS2 * to_line
        through = st.through[self.rows[near]] | (to_line <= 0)
        first = (self.track[ahead] != self.track[near]) | (ahead == near)
        first |= st.through[self.rows[ahead]] | (self.to_end[ahead] <= STOP_LINE_M)
        red = self._net.red(self.edge[near], t_s) & ~through & ~late
        coming = np.bincount(target[through], weights=room_m[through], minlength=len(self.rear_m))
        others = coming[target] - np.where(through, room_m, 0.0)
        full = ~(self.rear_m[target] + FORESEEN_S * self.rear_v[target] - others > room_m)
        entry = np.flatnonzero((first & ~through & ~red & ~full) | through)
        barred = np.zeros(len(near), dtype=np.bool_)
        barred[entry] = self._yields(near[entry], through[entry])
        stop = red | (barred & ~late) | full
        through = through | (late & first & ~stop)
        return stop & ~through, through, first & ~red, full

    def _yields(self, at: Ints, through: Bools) -> Bools:
        """Who of the vehicles at ``at`` lets another one go first."""
        net, edge, track, target = self._net, self.edge[at], self.track[at], self.next_track[at]
        impatient = self._st.waited_s[self.rows[at]] > IMPATIENT_S
        speed = np.maximum(self.v[at], 2.0)
        eta = self.to_end[at] / speed
        node = net.edge_to[edge]
        ramp = net.node_class[node] == streets.MOTORWAY
        lesser = (net.road_class[edge] > net.node_class[node]) & (net.signal_cycle_s[node] == 0)
        gap_s = np.where(ramp, MERGE_GAP_S, GAP_S)
        rank = eta + gap_s * lesser - 500.0 * impatient - 2000.0 * through
        clears = eta + BEHIND_S + self.own_m[at] / speed
        order = np.lexsort((rank, target))
        one, two = order[:-1], order[1:]  # the one before, from another street into the same, is in the way
        waits = (target[one] == target[two]) & (track[one] != track[two]) & (clears[one] > eta[two])
        yields = np.zeros(len(at), dtype=np.bool_)
        yields[two[waits]] = True
        crossing = lesser & ~ramp & ~impatient
        if crossing.any():
            coming = np.full(len(net.node_lat), np.inf)
            np.minimum.at(coming, node[~lesser], eta[~lesser])
            yields |= crossing & (coming[node] < eta + gap_s)
        return yields & ~through

    def wanted_v(self, pass2: Floats | None) -> Floats:
        """The lowest of limit, vehicle, bend, coming turn and obstruction (``pass2``, squared), m/s."""
        net, who, rows = self._net, self._who, self.rows
        v2 = net.point_v2[self._point] + self._share * net.part_dv2[self._point]
        v2 *= who.corner2[rows]
        turn = self._st.turn_v[rows]
        turn *= turn
        turn += 2 * who.approach[rows] * np.maximum(self.to_end - 3.0, 0.0)
        np.minimum(v2, turn, out=v2)
        if pass2 is not None:
            np.minimum(v2, pass2, out=v2)
        limit = np.minimum(net.limit_mps[self.edge] * who.limit_factor[rows], who.top_mps[rows])
        return np.minimum(limit, np.sqrt(v2))

    def next_v(self, wanted: Floats, stop_m: Floats, t_s: float, h_s: float) -> Floats:
        """Speed after the step, m/s. ``stop_m`` is the distance to where one has to stop, inf for nowhere."""
        st, who, rows, v = self._st, self._who, self.rows, self.v
        accel, per_closing, headway_s = who.accel[rows], who.per_closing[rows], who.headway_s[rows]
        last, hardest, lead_v = st.a[rows], who.hardest[rows], v[self.leader]
        free = dynamics.wanted_accel(v, wanted, accel, who.brake[rows])
        hold = dynamics.interaction(v, v - lead_v, self.gap, accel, headway_s, per_closing)
        at = np.flatnonzero(stop_m < FREE_M)
        halt = dynamics.interaction(v[at], v[at], stop_m[at], accel[at], 0.5 * headway_s[at], per_closing[at])
        hold[at] = np.maximum(hold[at], halt)
        command = np.minimum(free, accel - hold)
        np.copyto(command, -0.5, where=(v <= 0.05) & (hold > accel))
        # what just avoids the vehicle ahead, at most what tyres give; then what driver and machine can do
        need = (v - lead_v) * (v + lead_v)
        need /= np.maximum(2 * self.gap - 3.0, 1.0)
        floor = np.minimum(who.floor[rows], -np.minimum(need, hardest))
        jerk = dynamics.JERK_UP_MPS3 * h_s
        highest = np.minimum(who.pull[rows] / np.maximum(v, 2.0), np.maximum(last, 0.0) + jerk)
        lowest = np.maximum(floor, last - dynamics.JERK_DOWN_MPS3 * h_s)
        a = np.minimum(np.maximum(command, lowest), np.maximum(highest, lowest))
        at = np.flatnonzero(st.emergency_until[rows] > t_s)
        if len(at):  # emergency braking, and sprints where the road is free
            wish, jerk = st.emergency_mps2[rows[at]], dynamics.JERK_EMERGENCY_MPS3 * h_s
            fast = np.clip(wish, last[at] - jerk, last[at] + 0.5 * jerk)
            sprint = np.where(command[at] > 0.4, np.maximum(a[at], fast), a[at])
            a[at] = np.where(wish > 0, sprint, np.minimum(a[at], fast))
        safe = dynamics.safe_speed(self.gap, lead_v, hardest, h_s)
        least = np.maximum(np.maximum(safe, v - hardest * h_s), 0.0)
        next_v: Floats = np.minimum(np.maximum(v + a * h_s, 0.0), least)
        return next_v

    def drive(self, next_v: Floats, h_s: float) -> None:
        """Move the vehicles by one step at the mean of old and new speed."""
        net, st, rows = self._net, self._st, self.rows
        v_mean = 0.5 * (self.v + next_v)
        lat, lon, x, y = st.lat[rows], st.lon[rows], st.east[rows], st.north[rows]
        per_lat, per_lon = net.metric.metres(lat)
        ahead = np.clip(5.0 + 0.9 * v_mean, 6.0, 38.0)  # how far ahead the driver aims
        ahead -= self.to_end
        over = ahead > 0
        edge = np.where(over, self._next_edge, self.edge)
        aim_lat, aim_lon = net.position(edge, np.where(over, ahead, ahead + (self.to_end + self.s)))
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
        st.east[rows], st.north[rows] = x * cosine + y * sine, y * cosine - x * sine
        st.curvature[rows], st.lat[rows], st.lon[rows] = curvature, lat, lon
        heading = st.heading[rows]
        heading += yaw
        heading -= 2 * np.pi * np.floor(heading / (2 * np.pi))
        np.copyto(heading, 0.0, where=heading >= 2 * np.pi)
        st.heading[rows], st.yaw_rps[rows] = heading, yaw / h_s
        st.odometer_m[rows] += step_m
        st.a[rows], st.v[rows] = (next_v - self.v) / h_s, next_v
        st.s[rows] = self.s + self._progress((lon, lat), (per_lon, per_lat), step_m)

    def _progress(self, at: tuple[Floats, Floats], per_deg: tuple[Floats, Floats], step_m: Floats) -> Floats:
        """Distance along the route: the projection of ``at``, 0.6 to 2 times that driven, gaps kept."""
        net, st, point = self._net, self._st, self._point
        st.slope[self.rows] = net.part_slope[point]
        st.altitude[self.rows] = net.point_alt[point] + self._share * net.part_dalt[point]
        along = (at[0] - net.point_lon[point]) * per_deg[0] * net.part_east[point]
        along += (at[1] - net.point_lat[point]) * per_deg[1] * net.part_north[point]
        along -= self.s - net.point_s[point]
        np.minimum(along, 2.0 * step_m, out=along)
        np.maximum(along, 0.6 * step_m, out=along)
        return np.minimum(along, np.maximum(self.gap, 0.0))


EVERY_S, TAU_S = 5.0, 60.0
LONGEST_S = 300.0
WALKING_MPS = 1.0
TURNING_IN_MPS = 4.0  # highest speed of a turn from a lesser street into a better one without a signal
STUCK_S = 60.0  # after this long before a full street a driver takes another one
EMPTIER_M = 25.0
GIVES_UP_S = 240.0  # after this long before full streets only, a driver leaves the vehicle at the kerb
TURN_ACCEL_MPS2 = 3.6


class Wayfinder:
    """Sets ``next_edge`` and ``turn_v`` by the delays of the last minute, which drivers know of."""

    def __init__(self, net: RoadNetwork, who: Drivers) -> None:
        self._net, self._who = net, who
        self._look_s = -np.inf
        self._delay_s = np.zeros(len(net.length_m))

    def watch(self, edge: Ints, v: Floats, t_s: float) -> None:
        """Look at the traffic, every few seconds. ``edge`` and ``v`` of all vehicles on the road."""
        if t_s < self._look_s:
            return
        self._look_s = t_s + EVERY_S
        net = self._net
        count = np.bincount(edge, minlength=len(net.length_m))
        speed = np.bincount(edge, weights=v, minlength=len(net.length_m)) / np.maximum(count, 1)
        takes_s = net.length_m / np.maximum(speed, WALKING_MPS)
        now_s = np.where(count > 0, np.clip(takes_s - net.drive_s, 0.0, LONGEST_S), 0.0)
        self._delay_s += (now_s - self._delay_s) * (EVERY_S / TAU_S)

    def plan(self, st: State, rows: Ints) -> None:
        self._turn_into(st, rows, self._net.next_edge(st.edge[rows], st.goal[rows], self._delay_s))

    def _turn_into(self, st: State, rows: Ints, following: Ints) -> None:
        """Set the next edge of ``rows`` and the speed for the turn into it."""
        net, edge = self._net, st.edge[rows]
        angle = wrap_pi(net.heading_in[following] - net.heading_out[edge])
        # 17 m/s at 15 degrees, 10 at 30, 5 at 90: v^2 = TURN_ACCEL r over the distance aimed ahead
        k = 0.9 * TURN_ACCEL_MPS2 / np.maximum(np.abs(angle), 0.01)
        speed = np.clip(0.5 * (k + np.sqrt(k * (k + 20 / 0.9))), 3.0, 70.0)
        careful = (self._who.heavy[rows] > 0) & (speed < 20.0)
        speed = np.where(careful, np.maximum(2.5, 0.75 * speed), speed)
        speed *= np.sqrt(self._who.corner2[rows])
        into = net.road_class[following]
        yields = (into < net.road_class[edge]) & (net.signal_cycle_s[net.edge_to[edge]] == 0)
        yields &= into != streets.MOTORWAY
        st.next_edge[rows] = following
        st.turn_v[rows] = np.where(yields, np.minimum(speed, TURNING_IN_MPS), speed)

    def detour(self, st: State, rows: Ints, lane: Lane) -> None:
        """Another street with room for ``rows``; who finds none for long gives up."""
        full_s = np.where(lane.rear_m[::LANES] > self._who.length_m.max() + 4.0, 0.0, np.inf)
        other = self._net.next_edge(st.edge[rows], st.goal[rows], full_s)
        found = full_s[other] == 0.0
        self._turn_into(st, rows[found], other[found])
        st.waited_s[rows[found]] = 0.5 * STUCK_S
        lost = rows[~found & (st.waited_s[rows] > GIVES_UP_S)]
        st.park_at[lost] = st.s[lost]

    def choose_lane(self, st: State, rows: Ints, lane: Lane) -> None:
        """Lane of ``rows``, which have just changed edges: the slow one to leave, else the emptier one."""
        st.lane[rows] = np.minimum(st.lane[rows], self._net.lanes[st.edge[rows]] - 1)
        rows = rows[self._net.lanes[st.edge[rows]] > 1]
        if len(rows) == 0:
            return
        track, own = LANES * st.edge[rows], st.lane[rows]
        room, other_room = lane.rear_m[track + own], lane.rear_m[track + 1 - own]
        leaves = self._net.lanes[st.next_edge[rows]] == 1
        stays = np.where(leaves | (self._who.heavy[rows] > 0), own == 0, other_room < room + EMPTIER_M)
        slower = np.maximum(st.v[rows] - lane.rear_v[track + 1 - own], 0.0)
        safe = other_room > st.s[rows] + 6.0 + st.v[rows] + slower**2 / 3.0
        wish = np.where(safe & ~stays, 1 - own, own)
        _, first, count = np.unique(track + wish, return_index=True, return_counts=True)
        alone = np.isin(track + wish, (track + wish)[first[count == 1]])
        st.lane[rows] = np.where(alone, wish, own)
