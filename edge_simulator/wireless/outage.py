"""Who has no link: vehicles that lose it now and then or at a set time, and all of them within a dead zone.

State is arrays [n_vehicles]; a step in which nothing changes costs one comparison (and, where there is a dead
zone, one look at the positions a second). Times are ms after the run's start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints, metres_per_degree
from edge_simulator.wireless.link_settings import LinkShares

FIRST_WITHIN = 0.5
"""The first outage of a vehicle begins in this part of the run (of the mean gap, where that is shorter)."""
ZONE_CHECK_MS = 1000


@dataclass(frozen=True, slots=True)
class Spell:
    """An outage that is over: one vehicle without a link from ``from_ms`` to ``to_ms``."""

    vehicle: int
    from_ms: int
    to_ms: int
    cause: str


class Outages:
    """Keeps who is offline. ``rng`` is its own; ``n`` vehicles, a run of ``span_ms``."""

    def __init__(self, settings: LinkShares, rng: np.random.Generator, n: int, span_ms: int) -> None:
        self._set = settings
        self._rng = rng
        self.offline: Bools = np.zeros(n, dtype=np.bool_)
        self.some = False
        """Whether anybody is offline."""
        self.begun = 0
        self._begin_ms = self._first(n, span_ms)
        self._end_ms: Floats = np.full(n, -np.inf)
        self._since_ms = np.zeros(n, dtype=np.int64)
        self._zoned: Bools = np.zeros(n, dtype=np.bool_)
        self._change_ms = float(self._begin_ms.min(initial=np.inf))
        self._look_ms = 0 if settings.dead_zone_radius_m > 0 else math.inf
        self._causes: dict[int, str] = {}

    def _first(self, n: int, span_ms: int) -> Floats:
        """When each vehicle first loses the link, inf for never; the share is met in whole vehicles."""
        begin = np.full(n, np.inf)
        share = self._set.outage_share
        if share > 0:
            prone = self._rng.permutation(n)[: max(1, round(share * n))]
            at_s = self._set.outage_at_s
            window = FIRST_WITHIN * min(span_ms, 1000 * self._set.outage_gap_s)
            drawn = self._rng.uniform(0, window, len(prone))
            begin[prone] = drawn if at_s is None else 1000 * at_s
        return begin

    def step(self, now_ms: int, lat: Floats, lon: Floats) -> tuple[list[int], list[Spell]]:
        """Bring the state to ``now_ms``; returns who has the link back, and the outages that ended."""
        if now_ms < self._change_ms and now_ms < self._look_ms:
            return [], []
        before = self.offline
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + ZONE_CHECK_MS
            self._zoned = self._within(now_ms, lat, lon)
        if now_ms >= self._change_ms:
            self._change(now_ms)
        self.offline = self._zoned | (self._end_ms > now_ms)
        self.some = bool(self.offline.any())
        self._start(np.flatnonzero(self.offline & ~before), now_ms)
        return self._stop(np.flatnonzero(before & ~self.offline), now_ms)

    def close(self, now_ms: int) -> tuple[list[int], list[Spell]]:
        """End all outages, as at the end of a run."""
        rows = np.flatnonzero(self.offline)
        self.offline = np.zeros_like(self.offline)
        self.some = False
        return self._stop(rows, now_ms)

    def _change(self, now_ms: int) -> None:
        """Let outages begin whose time has come, and draw the next ones."""
        rows = np.flatnonzero(self._begin_ms <= now_ms)
        self._end_ms[rows] = now_ms + 1000 * self._lengths_s(len(rows))
        again = self._rng.exponential(1000 * self._set.outage_gap_s, len(rows))
        self._begin_ms[rows] = np.inf if self._set.outage_at_s is not None else self._end_ms[rows] + again
        ahead = self._end_ms[self._end_ms > now_ms]
        self._change_ms = float(min(self._begin_ms.min(), ahead.min(initial=np.inf)))

    def _lengths_s(self, count: int) -> Floats:
        if self._set.outage_max_s > 0:
            return self._rng.uniform(self._set.outage_min_s, self._set.outage_max_s, count)
        return self._rng.lognormal(math.log(self._set.outage_median_s), self._set.outage_spread, count)

    def _within(self, now_ms: int, lat: Floats, lon: Floats) -> Bools:
        zone = self._set
        if not 1000 * zone.dead_zone_from_s <= now_ms < 1000 * zone.dead_zone_to_s:
            return np.zeros(len(lat), dtype=np.bool_)
        north, east = metres_per_degree(np.float64(zone.dead_zone_lat_deg))
        dy, dx = (lat - zone.dead_zone_lat_deg) * north, (lon - zone.dead_zone_lon_deg) * east
        inside: Bools = dx * dx + dy * dy < zone.dead_zone_radius_m**2
        return inside

    def _start(self, rows: Ints, now_ms: int) -> None:
        self.begun += len(rows)
        self._since_ms[rows] = now_ms
        scheduled = "loss" if self._set.outage_at_s is None else "scheduled"
        self._causes.update((row, "dead_zone" if self._zoned[row] else scheduled) for row in rows.tolist())

    def _stop(self, rows: Ints, now_ms: int) -> tuple[list[int], list[Spell]]:
        back = rows.tolist()
        spells = [Spell(k, int(self._since_ms[k]), now_ms, self._causes.pop(k)) for k in back]
        return back, spells
