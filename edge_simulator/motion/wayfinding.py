"""Which way next: the turn at the coming junction, by what drivers know of the delays just ahead."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats, Ints, wrap_pi
from edge_simulator.motion import dynamics
from edge_simulator.motion.fleet_state import State
from edge_simulator.motion.styles import Drivers
from edge_simulator.motion.traffic import Tails
from edge_simulator.town import streets
from edge_simulator.town.network import LANES, RoadNetwork

EVERY_S, TAU_S = 5.0, 60.0
LONGEST_S = 300.0
WALKING_MPS = 1.0


TURNING_IN_MPS = 4.0  # highest speed of a turn from a lesser street into a better one without a signal
STUCK_S = 60.0  # after this long before a full street a driver takes another one
EMPTIER_M = 25.0
GIVES_UP_S = 240.0  # after this long before full streets only, a driver leaves the vehicle at the kerb


class Wayfinder:
    """Sets ``next_edge`` and ``turn_v`` of vehicles.

    What drivers know is the delay of each edge beyond free flow, from the speeds of the last minute or so.
    """

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
        """Choose the next edge of ``rows``."""
        self._turn_into(st, rows, self._net.next_edge(st.edge[rows], st.goal[rows], self._delay_s))

    def _turn_into(self, st: State, rows: Ints, following: Ints) -> None:
        """Set the next edge of ``rows`` and the speed for the turn into it."""
        net, edge = self._net, st.edge[rows]
        angle = wrap_pi(net.heading_in[following] - net.heading_out[edge])
        speed = dynamics.turn_speed(angle, self._who.heavy[rows])
        speed *= np.sqrt(self._who.corner2[rows])
        yields = (net.road_class[following] < net.road_class[edge]) & (
            net.signal_cycle_s[net.edge_to[edge]] == 0
        )
        joins = net.road_class[following] == streets.MOTORWAY
        st.next_edge[rows] = following
        st.turn_v[rows] = np.where(yields & ~joins, np.minimum(speed, TURNING_IN_MPS), speed)

    def detour(self, st: State, rows: Ints, tails: Tails) -> None:
        """Another street with room for ``rows``; who finds none for long gives up."""
        full_s = np.where(tails.rear_m[::LANES] > self._who.length_m.max() + 4.0, 0.0, np.inf)
        other = self._net.next_edge(st.edge[rows], st.goal[rows], full_s)
        found = full_s[other] == 0.0
        self._turn_into(st, rows[found], other[found])
        st.waited_s[rows[found]] = 0.5 * STUCK_S
        lost = rows[~found & (st.waited_s[rows] > GIVES_UP_S)]
        st.park_at[lost] = st.s[lost]

    def choose_lane(self, st: State, rows: Ints, tails: Tails) -> None:
        """Lane of ``rows``, which have just changed edges: the slow one to leave, else the emptier one."""
        st.lane[rows] = np.minimum(st.lane[rows], self._net.lanes[st.edge[rows]] - 1)
        rows = rows[self._net.lanes[st.edge[rows]] > 1]
        if len(rows) == 0:
            return
        track, own = LANES * st.edge[rows], st.lane[rows]
        room, other_room = tails.rear_m[track + own], tails.rear_m[track + 1 - own]
        leaves = self._net.lanes[st.next_edge[rows]] == 1
        stays = np.where(leaves | (self._who.heavy[rows] > 0), own == 0, other_room < room + EMPTIER_M)
        slower = np.maximum(st.v[rows] - tails.v[track + 1 - own], 0.0)
        safe = other_room > st.s[rows] + 6.0 + st.v[rows] + slower**2 / 3.0
        wish = np.where(safe & ~stays, 1 - own, own)
        _, first, count = np.unique(track + wish, return_index=True, return_counts=True)
        alone = np.isin(track + wish, (track + wish)[first[count == 1]])
        st.lane[rows] = np.where(alone, wish, own)
