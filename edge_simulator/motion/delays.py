"""What drivers know of the streets just ahead of them: how much longer they take than on a free road."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.town.network import RoadNetwork

EVERY_S = 5.0
TAU_S = 60.0
LONGEST_S = 300.0
WALKING_MPS = 1.0


class Delays:
    """Delay of each edge beyond free flow, from the speeds driven there in the last minute or so."""

    def __init__(self, net: RoadNetwork) -> None:
        self._length_m = net.length_m
        self._free_s = net.drive_s
        self._due_s = -np.inf
        self.extra_s = np.zeros(len(net.length_m))
        """s, [n_edges]."""

    def watch(self, edge: Ints, v: Floats, t_s: float) -> None:
        """Look at the traffic, every few seconds. ``edge`` and ``v`` of all vehicles on the road."""
        if t_s < self._due_s:
            return
        self._due_s = t_s + EVERY_S
        n_edges = len(self._length_m)
        count = np.bincount(edge, minlength=n_edges)
        speed = np.bincount(edge, weights=v, minlength=n_edges) / np.maximum(count, 1)
        takes_s = self._length_m / np.maximum(speed, WALKING_MPS)
        now_s = np.where(count > 0, np.clip(takes_s - self._free_s, 0.0, LONGEST_S), 0.0)
        self.extra_s += (now_s - self.extra_s) * (EVERY_S / TAU_S)
