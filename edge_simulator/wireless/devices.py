"""The devices: clocks that err, drift or are not set, and second devices under a vehicle's identity.

Arrays are [n_vehicles]. True time is the run's; a device only knows its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.telemetry.outbox import Device
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
        self._set, self._rng = settings, rng
        self.right = not settings.has_clock_errors
        """Whether every clock shows true time: nothing has to be asked then."""
        self._offset_ms, self._ppm, self._boot_ms = np.zeros((3, n))
        self._unset_until_ms: Floats = np.full(n, -np.inf)
        self.free: Bools = np.zeros(n, dtype=np.bool_)
        self._was_on: Bools = np.zeros(n, dtype=np.bool_)
        if self.right:
            return
        self.free = rng.random(n) >= settings.gnss_sync
        far = self.free & (rng.random(n) < settings.clock_far_share)
        usual, rate = rng.standard_normal(n), rng.standard_normal(n)
        self._offset_ms = (
            1000 * np.where(far, settings.clock_far_s, settings.clock_offset_s) * usual * self.free
        )
        self._ppm = np.where(far, settings.clock_far_ppm, settings.clock_drift_ppm) * rate
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
        return {k: int(self._unset_until_ms[k]) for k in unset.tolist()}

    def unset(self, rows: Ints, now_ms: int) -> Bools:
        """Whose clock is not set yet, of ``rows``."""
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

    def worst(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The vehicles whose clock is wrong for the whole run: error at the start and drift."""
        far = np.abs(self._offset_ms) > REPORTED_OFFSET_MS
        for k in np.flatnonzero(far | (self.free & (np.abs(self._ppm) > REPORTED_DRIFT_PPM))).tolist():
            offset_ms, drift_ppm = float(self._offset_ms[k]), float(self._ppm[k])
            yield k, {"offset_ms": round(offset_ms, 1), "drift_ppm": round(drift_ppm, 2)}


class Clones:
    """Which vehicle's motion (the source) is also reported under whose identity (the victim).

    A victim's clone moves like a source of the same kind of powertrain, the farthest of a few drawn ones.
    """

    def __init__(
        self, share: float, rng: np.random.Generator, vehicle_ids: Sequence[str], powertrain: Sequence[str],
        lat: Floats, lon: Floats, start_ms: int,
    ) -> None:  # fmt: skip
        n, kinds = len(powertrain), np.array(powertrain)
        self._ids = vehicle_ids
        self.boot_id = start_ms - BOOT_AHEAD_MS
        victims = np.full(n, -1, dtype=np.int64)
        wanted = max(1, round(share * n)) if share > 0 and n > 1 else 0
        for victim in rng.permutation(n)[:wanted].tolist():
            free = np.flatnonzero((victims < 0) & (np.arange(n) != victim))
            alike = free[kinds[free] == kinds[victim]]
            drawn = rng.permutation(alike if len(alike) else free)[:CANDIDATES]
            away = (lat[drawn] - lat[victim]) ** 2 + (lon[drawn] - lon[victim]) ** 2
            victims[drawn[away.argmax()]] = victim
        self._is_source = victims >= 0
        self.pairs = {source: int(victims[source]) for source in np.flatnonzero(self._is_source).tolist()}
        self._seq = dict.fromkeys(self.pairs, 0)

    def frames(
        self, rows: Ints, payloads: Sequence[bytes], room: int | None
    ) -> Iterator[tuple[int, int, bytes]]:
        """Place in ``rows``, victim and frame of each clone that reports with them; at most ``room``."""
        for place in np.flatnonzero(self._is_source[rows])[:room].tolist() if self.pairs else ():
            source = int(rows[place])
            victim = self.pairs[source]
            own = {"vehicle_id": self._ids[victim], "boot_id": self.boot_id, "seq": self._seq[source]}
            self._seq[source] += 1
            yield place, victim, frame.encode(orjson.loads(payloads[place]) | own)

    def counted(self) -> list[tuple[Device, int]]:
        """How far each cloned device counted."""
        return [((self._ids[v], self.boot_id), self._seq[s]) for s, v in self.pairs.items()]
