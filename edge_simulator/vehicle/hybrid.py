"""When a parallel hybrid runs its engine, and how much of the work the engine takes. Engineering defaults.

The engine is off at standstill and at low power; it takes over where the motor is too weak for long or too
small, and then gives a little more than is asked for so that the charge comes back to its target. All arrays
are [n_hybrids].
"""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats

TARGET_SOC = 0.60
LOW_SOC = 0.48
"""The engine runs from here on until RECOVERED_SOC."""
RECOVERED_SOC = 0.54
START_W = 12_000.0
"""Shaft power that starts the engine at the target charge; more charge delays it."""
START_W_PER_SOC = 120_000.0
START_LEAST_W, START_MOST_SHARE = 3000.0, 0.8
"""It starts at 3 kW at the least and, of the motor's power, at this share at the most."""
STOP_SHARE = 0.4
"""It stops below this share of the starting power."""
RUN_LEAST_S = 4.0
CHARGE_W_PER_SOC = 120_000.0
CHARGE_MOST_W = 10_000.0
WARM_ENOUGH_C = 45.0
"""A colder engine keeps running: for the catalyst and the cabin."""


class HybridControl:
    """The engines of the hybrids: which run, and their shaft power."""

    def __init__(self, motor_w: Floats) -> None:
        n = len(motor_w)
        self._motor_w = motor_w
        self.running: Bools = np.zeros(n, dtype=np.bool_)
        self.starts = np.zeros(n, dtype=np.int64)
        """How often the engine was started."""
        self._since_s = np.zeros(n)
        self._must: Bools = np.zeros(n, dtype=np.bool_)
        self._low: Bools = np.zeros(n, dtype=np.bool_)
        self._start_w = np.full(n, START_W)
        self._charge_w = np.zeros(n)

    def plan(self, soc: Floats, coolant_c: Floats) -> None:
        """Once a second: when to start and how much to charge, from charge and coolant."""
        self._low = (soc < LOW_SOC) | (self._low & (soc < RECOVERED_SOC))
        self._must = self._low | (coolant_c < WARM_ENOUGH_C)
        over = soc - TARGET_SOC
        most = START_MOST_SHARE * self._motor_w
        self._start_w = np.clip(START_W + START_W_PER_SOC * over, START_LEAST_W, most)
        self._charge_w = np.clip(-CHARGE_W_PER_SOC * over, -CHARGE_MOST_W, CHARGE_MOST_W)

    def decide(self, shaft_w: Floats, live: Bools, h_s: float) -> Bools:
        """Start and stop engines for the power asked for; returns which run."""
        self._since_s += h_s
        start = live & ~self.running & (self._must | (shaft_w > self._start_w))
        easy = ~self._must & (shaft_w < STOP_SHARE * self._start_w) & (self._since_s >= RUN_LEAST_S)
        stop = self.running & (easy | ~live)
        changed = start | stop
        if changed.any():
            self.running = self.running ^ changed
            self.starts += start
            self._since_s[changed] = 0.0
        return self.running

    def engine_w(self, shaft_w: Floats, most_w: Floats, friction_w: Floats, coupled: Bools) -> Floats:
        """Shaft power of the engines that run: the demand with the charging share, or overrun; else 0.

        The motor covers the difference; where it cannot, the engine does.
        """
        least = np.maximum(shaft_w - self._motor_w, 0.0)
        wanted = np.clip(shaft_w + self._charge_w, least, np.maximum(0.9 * most_w, least))
        dragged = np.where(coupled, np.maximum(shaft_w, -friction_w), 0.0)
        return np.where(self.running, np.where(shaft_w < 0, dragged, wanted), 0.0)
