"""Gears: each vehicle's gear with its ratio and the engine speeds that ask for a change."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.vehicle.vehicles import Specs

STANDING_KMH = 1.0
"""Below it no gear is in."""
HURRY_SHARE = 0.625
HURRY_DELAY = 0.8
"""Asking for this share of the engine's power and more delays the shift up by their product, a half."""


class Gearbox:
    """Gears of a fleet. ``gear`` 0 is none; ``rpm_per_kmh`` is the ratio in force (first gear's in 0)."""

    def __init__(self, specs: Specs) -> None:
        n, most = specs.rpm_per_kmh.shape
        self._all = np.arange(n)
        self._ratios = np.hstack([specs.rpm_per_kmh[:, :1], specs.rpm_per_kmh])
        gears = np.arange(most + 1)
        down = np.where(gears > 1, specs("shift_down_rpm")[:, None], 0.0)
        up = np.where(gears < specs.gears[:, None], specs("shift_up_rpm")[:, None], np.inf)
        down[:, 1] = up[:, 0] = STANDING_KMH * specs.rpm_per_kmh[:, 0]
        self._down_rpm, self._up_rpm = down, up
        self._per_w = HURRY_DELAY / (1000 * specs("power_kw"))
        self.gear: Ints = np.zeros(n, dtype=np.int64)
        self.rpm_per_kmh: Floats = self._ratios[:, 0].copy()
        self._down, self._up = down[:, 0].copy(), up[:, 0].copy()

    def shift(self, v_kmh: Floats, wheel_w: Floats) -> Floats:
        """Shift by at most one gear where it is time; returns the geared speed, rpm, [n_vehicles]."""
        rpm: Floats = self.rpm_per_kmh * v_kmh
        rows = np.flatnonzero((rpm > self._up) | (rpm < self._down))
        if len(rows):
            rows = rows[self._in_time(rows, rpm[rows], wheel_w[rows])]
            rpm[rows] = self._shift(rows, rpm[rows], v_kmh[rows])
        return rpm

    def _in_time(self, rows: Ints, rpm: Floats, wheel_w: Floats) -> Bools:
        """Which shift: a driver who asks for power stays in gear for longer."""
        delay = np.minimum(np.maximum(wheel_w * self._per_w[rows], 0.0), HURRY_DELAY * HURRY_SHARE)
        late: Bools = (rpm > self._up[rows] * (1 + delay)) | (rpm < self._down[rows]) | (self.gear[rows] == 0)
        return late

    def _shift(self, rows: Ints, rpm: Floats, v_kmh: Floats) -> Floats:
        gear = self.gear[rows] + np.where(rpm > self._up[rows], 1, -1)
        gear[v_kmh < STANDING_KMH] = 0
        self.gear[rows] = gear
        self.rpm_per_kmh[rows] = self._ratios[rows, gear]
        self._down[rows], self._up[rows] = self._down_rpm[rows, gear], self._up_rpm[rows, gear]
        return self.rpm_per_kmh[rows] * v_kmh
