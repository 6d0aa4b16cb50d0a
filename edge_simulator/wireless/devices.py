"""The devices: clocks that err, drift or are not set, and second devices under a vehicle's identity.

Arrays are [n_vehicles]. True time is the run's; a device only knows its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.wireless.settings import LinkShares
from infra.contract import frame

SYNC_S = 64.0  # a device with GNSS time sets its clock so often; in between it drifts
BOOT_MS = 2000  # a device has been up so long when its first sample is taken
BOOT_AHEAD_MS = 3_600_000  # a clone was started so much earlier than the run: its boot id is its own
CANDIDATES = 8
REPORTED_OFFSET_MS = 1000.0
REPORTED_DRIFT_PPM = 100.0  # a clock worse than one of these is reported in the truth


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

    def start(self, on: Bools, now_ms: int) -> dict[int, int]:
        """Follow the ignition; returns which vehicles started with a clock not set, and when it will be."""
        if not self._set.clock_boot_share:
            return {}
        started = np.flatnonzero(on & ~self._was_on)
        self._was_on = on.copy()
        unset = started[self._rng.random(len(started)) < self._set.clock_boot_share]
        if len(unset):
            self._boot_ms[unset] = now_ms - BOOT_MS
            wait_s = self._rng.uniform(self._set.clock_fix_min_s, self._set.clock_fix_max_s, len(unset))
            self._unset_until_ms[unset] = now_ms + 1000 * wait_s
        self._some_unset = bool((self._unset_until_ms > now_ms).any())
        return {k: int(self._unset_until_ms[k]) for k in unset.tolist()}

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
        read: Ints = np.where(self.unset(rows, now_ms), uptime, shown).astype(np.int64)
        return read

    def worst(self) -> dict[int, dict[str, Any]]:
        """The vehicles whose clock is wrong for the whole run: error at the start and drift."""
        bad = (np.abs(self._offset_ms) > REPORTED_OFFSET_MS) | (
            self.free & (np.abs(self._ppm) > REPORTED_DRIFT_PPM)
        )
        return {
            k: {"offset_ms": round(float(self._offset_ms[k]), 1), "drift_ppm": round(float(self._ppm[k]), 2)}
            for k in np.flatnonzero(bad).tolist()
        }


class Clones:
    """Which vehicle's motion (the source) is also reported under whose identity (the victim).

    A victim's clone moves like a source of the same kind of powertrain, the farthest of a few drawn ones.
    """

    def __init__(
        self, share: float, rng: np.random.Generator, powertrain: Sequence[str], lat: Floats, lon: Floats
    ) -> None:
        n = len(powertrain)
        self._victim = np.full(n, -1, dtype=np.int64)
        self._seq = np.zeros(n, dtype=np.int64)
        wanted = max(1, round(share * n)) if share > 0 and n > 1 else 0
        kinds = np.array(powertrain)
        for victim in rng.permutation(n)[:wanted].tolist():
            source = self._source(victim, kinds, rng, lat, lon)
            self._victim[source] = victim
        self.pairs = {int(s): int(self._victim[s]) for s in np.flatnonzero(self._victim >= 0)}

    def _source(
        self, victim: int, kinds: np.ndarray, rng: np.random.Generator, lat: Floats, lon: Floats
    ) -> int:
        free = np.flatnonzero((self._victim < 0) & (np.arange(len(kinds)) != victim))
        alike = free[kinds[free] == kinds[victim]]
        drawn = rng.permutation(alike if len(alike) else free)[:CANDIDATES]
        away = (lat[drawn] - lat[victim]) ** 2 + (lon[drawn] - lon[victim]) ** 2
        return int(drawn[away.argmax()])

    def among(self, rows: Ints) -> list[int]:
        """Places in ``rows`` whose frames a clone sends too."""
        return np.flatnonzero(self._victim[rows] >= 0).tolist() if self.pairs else []

    def frame(self, source: int, payload: bytes, victim_id: str, start_ms: int) -> bytes:
        """The clone's own frame, made of its source's."""
        own = {"vehicle_id": victim_id, "boot_id": start_ms - BOOT_AHEAD_MS, "seq": int(self._seq[source])}
        self._seq[source] += 1
        return frame.encode(orjson.loads(payload) | own)

    def counted(self, vehicle_ids: Sequence[str], start_ms: int) -> list[tuple[tuple[str, int], int]]:
        """Vehicle id, boot id and next sequence number of each clone."""
        boot_id = start_ms - BOOT_AHEAD_MS
        return [((vehicle_ids[v], boot_id), int(self._seq[s])) for s, v in self.pairs.items()]
