"""Who has no link, and what a vehicle keeps on board meanwhile and sends once the link is back.

State is arrays [n_vehicles]; a step in which nothing changes costs one comparison (and, where there is a dead
zone, one look at the positions a second). Times are ms after the run's start.
"""

import heapq
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints, metres_per_degree
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.truth import TruthLog
from edge_simulator.wireless.settings import LinkShares

FIRST_WITHIN = 0.5  # the first outage begins in this part of the run (of the mean gap, if shorter)
ZONE_CHECK_MS = 1000
Restamp = Callable[[Outgoing, int], int]  # the time its device reads when a frame leaves at a moment, ms

_SENT = re.compile(rb'"sent_ms":-?\d+')


class Outages:
    """Keeps who is offline; an outage that is over is truth. ``rng`` is its own; a run of ``span_ms``."""

    def __init__(
        self, settings: LinkShares, rng: np.random.Generator, n: int, span_ms: int, counts: Counter[str],
        truth: TruthLog,
    ) -> None:  # fmt: skip
        self._set, self._rng, self._counts, self._truth = settings, rng, counts, truth
        self.offline: Bools = np.zeros(n, dtype=np.bool_)
        self.some = False  # whether anybody is offline
        self._begin_ms = np.full(n, np.inf)
        if settings.outage_share > 0:  # the share is met in whole vehicles
            prone = rng.permutation(n)[: max(1, round(settings.outage_share * n))]
            window_ms = FIRST_WITHIN * min(span_ms, 1000 * settings.outage_gap_s)
            drawn, at_s = rng.uniform(0, window_ms, len(prone)), settings.outage_at_s
            self._begin_ms[prone] = drawn if at_s is None else 1000 * at_s
        self._end_ms: Floats = np.full(n, -np.inf)
        self._zoned: Bools = np.zeros(n, dtype=np.bool_)
        self._change_ms = float(self._begin_ms.min(initial=np.inf))
        self._next_check_ms = 0 if settings.dead_zone_radius_m > 0 else math.inf
        self._since: dict[int, tuple[int, str]] = {}  # when it began (ms), and its cause, by vehicle

    def step(self, now_ms: int, lat: Floats, lon: Floats) -> list[int]:
        """Bring the state to ``now_ms``; returns whose outage has ended."""
        if now_ms < self._change_ms and now_ms < self._next_check_ms:
            return []
        before = self.offline
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + ZONE_CHECK_MS
            self._zoned = self._within(now_ms, lat, lon)
        if now_ms >= self._change_ms:
            self._change(now_ms)
        self.offline = self._zoned | (self._end_ms > now_ms)
        self.some = bool(self.offline.any())
        drawn = "loss" if self._set.outage_at_s is None else "scheduled"
        for row in np.flatnonzero(self.offline & ~before).tolist():
            self._since[row] = (now_ms, "dead_zone" if self._zoned[row] else drawn)
            self._counts["outages"] += 1
        return self._end(np.flatnonzero(before & ~self.offline), now_ms)

    def close(self, now_ms: int) -> None:
        """End all outages, as at the end of a run."""
        rows = np.flatnonzero(self.offline)
        self.offline = np.zeros_like(self.offline)
        self.some = False
        self._end(rows, now_ms)

    def _end(self, rows: Ints, now_ms: int) -> list[int]:
        ended: list[int] = rows.tolist()
        for row in ended:
            from_ms, cause = self._since.pop(row)
            self._truth.add("outage", row, from_ms, now_ms, details={"cause": cause})
        return ended

    def _change(self, now_ms: int) -> None:
        """Let outages begin whose time has come, and draw the next ones."""
        s, rows = self._set, np.flatnonzero(self._begin_ms <= now_ms)
        if s.outage_max_s > 0:
            lengths_s = self._rng.uniform(s.outage_min_s, s.outage_max_s, len(rows))
        else:
            lengths_s = self._rng.lognormal(math.log(s.outage_median_s), s.outage_spread, len(rows))
        self._end_ms[rows] = now_ms + 1000 * lengths_s
        again_ms = self._end_ms[rows] + self._rng.exponential(1000 * s.outage_gap_s, len(rows))
        self._begin_ms[rows] = np.inf if s.outage_at_s is not None else again_ms
        ahead = self._end_ms[self._end_ms > now_ms]
        self._change_ms = float(min(self._begin_ms.min(), ahead.min(initial=np.inf)))

    def _within(self, now_ms: int, lat: Floats, lon: Floats) -> Bools:
        zone = self._set
        if not 1000 * zone.dead_zone_from_s <= now_ms < 1000 * zone.dead_zone_to_s:
            return np.zeros(len(lat), dtype=np.bool_)
        north, east = metres_per_degree(np.float64(zone.dead_zone_lat_deg))
        dy, dx = (lat - zone.dead_zone_lat_deg) * north, (lon - zone.dead_zone_lon_deg) * east
        return dx * dx + dy * dy < zone.dead_zone_radius_m**2


@dataclass(slots=True)
class _Hold:
    """What one vehicle keeps; frames oldest first."""

    frames: deque[Outgoing] = field(default_factory=deque)
    urgent: list[Outgoing] = field(default_factory=list)
    size: int = 0
    uploading: bool = False

    def pop(self, newest: bool = False) -> Outgoing:
        item = self.frames.pop() if newest else self.frames.popleft()
        self.size -= len(item.payload)
        return item


class Store:
    """The on-board stores of a fleet; only vehicles that keep something cost anything.

    A store is bounded by frames, bytes and age; what goes is counted. Stored frames leave beside the live
    ones at a bounded rate; ``sent_ms`` is written into a frame when it leaves. Messages of other channels
    (crash records) are few and precious: they are kept without a bound and leave first, as they are.
    """

    def __init__(
        self, settings: LinkShares, restamp: Restamp, counts: Counter[str],
        gone: Callable[[Outgoing], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._set, self._restamp, self._counts, self._gone = settings, restamp, counts, gone
        self._holds: dict[int, _Hold] = {}
        self._turns: list[tuple[float, int]] = []
        """Whose next stored frame leaves when: a heap of (ms, vehicle)."""

    def __len__(self) -> int:
        return sum(len(hold.frames) + len(hold.urgent) for hold in self._holds.values())

    def frames(self) -> Iterator[Outgoing]:
        for hold in self._holds.values():
            yield from hold.frames

    def put(self, item: Outgoing) -> None:
        """Keep a message of a vehicle without a link."""
        hold = self._holds.setdefault(item.vehicle, _Hold())
        if item.channel != "telemetry":
            hold.urgent.append(item)
            return
        self._counts["stored_on_board"] += 1
        self._age(hold, item.due_ms)
        full = self._set.store_full == "newest" and self._over(hold, item)
        if full or self._over(_Hold(), item):  # not even an empty store has room for it
            self._drop(item)
            return
        while hold.frames and self._over(hold, item):
            self._drop(hold.pop())
        hold.frames.append(item)
        hold.size += len(item.payload)

    def _drop(self, item: Outgoing) -> None:
        self._counts["dropped_on_board"] += 1
        self._gone(item)

    def _over(self, hold: _Hold, item: Outgoing) -> bool:
        most = self._set.store_bytes or math.inf
        return len(hold.frames) >= self._set.store_frames or hold.size + len(item.payload) > most

    def _age(self, hold: _Hold, now_ms: int) -> None:
        oldest_ms = now_ms - 1000 * self._set.store_age_s
        while hold.frames and hold.frames[0].due_ms < oldest_ms:
            self._drop(hold.pop())

    def link_back(self, vehicles: Iterable[int], now_ms: int) -> None:
        """Begin to upload what these vehicles keep."""
        for vehicle in vehicles:
            hold = self._holds.get(vehicle)
            if hold is not None and not hold.uploading:
                hold.uploading = True
                heapq.heappush(self._turns, (float(now_ms), vehicle))

    def release(self, until_ms: int, offline: Bools) -> Iterator[Outgoing]:
        """Messages that leave before ``until_ms``, each with its time."""
        while self._turns and self._turns[0][0] < until_ms:
            at, vehicle = heapq.heappop(self._turns)
            hold = self._holds[vehicle]
            if offline[vehicle]:
                hold.uploading = False
                continue
            yield from self._leaving(hold, math.floor(at), most=1)
            if hold.frames:
                heapq.heappush(self._turns, (at + 1000 / self._set.upload_rate, vehicle))
            else:
                del self._holds[vehicle]

    def flush(self, now_ms: int) -> list[Outgoing]:
        """All that is left, leaving at once: the end of a run."""
        rest = [item for hold in self._holds.values() for item in self._leaving(hold, now_ms)]
        self._turns.clear()
        self._holds.clear()
        return rest

    def _leaving(self, hold: _Hold, now_ms: int, most: int | None = None) -> Iterator[Outgoing]:
        """What leaves now: all that is urgent, and at ``most`` so many frames."""
        yield from (replace(item, due_ms=now_ms) for item in hold.urgent)
        hold.urgent.clear()
        self._age(hold, now_ms)
        for _ in range(min(len(hold.frames), most or len(hold.frames))):
            item = hold.pop(self._set.upload_order == "newest")
            payload = _SENT.sub(b'"sent_ms":%d' % self._restamp(item, now_ms), item.payload, count=1)
            flag = item.flag if item.flag.startswith("clock") else "stored"
            yield replace(item, due_ms=now_ms, payload=payload, flag=flag)
