"""The devices' own clocks: error and drift of those that run free, and clocks not set since the last start.

Arrays are [n_vehicles]. True time is the run's; a device only knows its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.wireless.link_settings import LinkShares

SYNC_S = 64.0
"""A device with GNSS time sets its clock so often; in between it drifts."""
BOOT_MS = 2000
"""A device has been up so long when its first sample is taken."""
TOLD_OFFSET_MS = 1000.0
TOLD_DRIFT_PPM = 100.0
"""A clock worse than one of these is told in the truth."""


class Clocks:
    """Reads the devices' clocks. ``rng`` is their own; times in are ms after the run's start."""

    def __init__(self, settings: LinkShares, rng: np.random.Generator, n: int) -> None:
        self._set = settings
        self._rng = rng
        self.right = not settings.has_clock_errors
        """Whether every clock shows true time: nothing has to be asked then."""
        self._offset_ms = np.zeros(n)
        self._ppm = np.zeros(n)
        self.free: Bools = np.zeros(n, dtype=np.bool_)
        self._boot_ms: Floats = np.zeros(n)
        self._unset_until_ms: Floats = np.full(n, -np.inf)
        self._was_on: Bools = np.zeros(n, dtype=np.bool_)
        self._some_unset = False
        if not self.right:
            self._draw(n)

    def _draw(self, n: int) -> None:
        s, rng = self._set, self._rng
        self.free = rng.random(n) >= s.gnss_sync
        far = self.free & (rng.random(n) < s.clock_far_share)
        usual, rate = rng.standard_normal(n), rng.standard_normal(n)
        self._offset_ms = 1000 * np.where(far, s.clock_far_s, s.clock_offset_s) * usual * self.free
        self._ppm = np.where(far, s.clock_far_ppm, s.clock_drift_ppm) * rate
        self.free &= (self._offset_ms != 0) | (self._ppm != 0)

    def start(self, on: Bools, now_ms: int) -> Ints:
        """Follow the ignition; returns the vehicles that started with a clock not set."""
        if not self._set.clock_boot_share:
            return np.empty(0, dtype=np.int64)
        started = np.flatnonzero(on & ~self._was_on)
        self._was_on = on.copy()
        unset: Ints = started[self._rng.random(len(started)) < self._set.clock_boot_share]
        if len(unset):
            self._boot_ms[unset] = now_ms - BOOT_MS
            wait_s = self._rng.uniform(self._set.clock_fix_min_s, self._set.clock_fix_max_s, len(unset))
            self._unset_until_ms[unset] = now_ms + 1000 * wait_s
        self._some_unset = bool((self._unset_until_ms > now_ms).any())
        return unset

    def unset(self, rows: Ints, now_ms: int) -> Bools:
        """Whose clock is not set yet, of ``rows``."""
        if not self._some_unset:
            return np.zeros(len(rows), dtype=np.bool_)
        waits: Bools = self._unset_until_ms[rows] > now_ms
        return waits

    def read(self, rows: Ints, true_ms: Ints, now_ms: int, start_ms: int) -> Ints:
        """What the clocks of ``rows`` say at ``true_ms`` after the start, by their state at ``now_ms``."""
        since_s = true_ms / 1000
        adrift_s = np.where(self.free[rows], since_s, np.remainder(since_s, SYNC_S))
        shown = start_ms + true_ms + np.rint(self._offset_ms[rows] + 1e-3 * self._ppm[rows] * adrift_s)
        uptime = np.maximum(true_ms - self._boot_ms[rows], 0.0)
        told: Ints = np.where(self.unset(rows, now_ms), uptime, shown).astype(np.int64)
        return told

    def fix_ms(self, vehicle: int) -> int:
        """When the clock of a vehicle is set, ms after the start."""
        return int(self._unset_until_ms[vehicle])

    def worst(self) -> dict[int, dict[str, Any]]:
        """The vehicles whose clock is wrong for the whole run: error at the start and drift."""
        bad = (np.abs(self._offset_ms) > TOLD_OFFSET_MS) | (self.free & (np.abs(self._ppm) > TOLD_DRIFT_PPM))
        return {
            k: {"offset_ms": round(float(self._offset_ms[k]), 1), "drift_ppm": round(float(self._ppm[k]), 2)}
            for k in np.flatnonzero(bad).tolist()
        }
