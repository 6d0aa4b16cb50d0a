"""Which way next: the turn at the coming junction, by what drivers know of the delays just ahead."""

from __future__ import annotations

import numpy as np

from edge_simulator import dynamics, streets
from edge_simulator.delays import Delays
from edge_simulator.fleet_state import State
from edge_simulator.geo import Ints, wrap_pi
from edge_simulator.junctions import Tails
from edge_simulator.network import RoadNetwork
from edge_simulator.styles import Drivers

TURNING_IN_MPS = 4.0
"""Highest speed of a turn from a lesser street into a better one without a signal."""
STUCK_S = 60.0
"""After this long before a full street a driver takes another one."""
GIVES_UP_S = 240.0
"""After this long before full streets only, a driver leaves the vehicle at the kerb."""


class Wayfinder:
    """Sets ``next_edge`` and ``turn_v`` of vehicles."""

    def __init__(self, net: RoadNetwork, who: Drivers) -> None:
        self._net, self._who = net, who
        self.delays = Delays(net)

    def plan(self, st: State, rows: Ints) -> None:
        """Choose the next edge of ``rows``."""
        self._turn_into(st, rows, self._net.next_edge(st.edge[rows], st.goal[rows], self.delays.extra_s))

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
        full_s = np.where(tails.rear_m > self._who.length_m.max() + 4.0, 0.0, np.inf)
        other = self._net.next_edge(st.edge[rows], st.goal[rows], full_s)
        found = full_s[other] == 0.0
        self._turn_into(st, rows[found], other[found])
        st.waited_s[rows[found]] = 0.5 * STUCK_S
        lost = rows[~found & (st.waited_s[rows] > GIVES_UP_S)]
        st.park_at[lost] = st.s[lost]
