"""The link of a fleet as a whole: fates of frames, outages, store on board, device clocks, cloned devices.

It stands between a fleet's frames and its queue of messages. What is switched off costs nothing.
Arrays are [n_vehicles]. True time is the run's; a device only knows its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import Scenario
from edge_simulator.telemetry.outbox import Device, Outgoing, Spans, identity
from edge_simulator.truth import TruthLog
from edge_simulator.wireless.outage import Outages, Store
from edge_simulator.wireless.settings import FATES, LinkShares
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
        astray = settings.gnss_sync < 1 and (settings.clock_offset_s > 0 or settings.clock_far_share > 0)
        self.right = not (astray or settings.clock_drift_ppm > 0 or settings.clock_boot_share > 0)
        """Whether every clock shows true time (but for a frame's fate): nothing has to be asked then."""
        self._offset_ms, self._ppm, self._boot_ms = np.zeros((3, n))
        self._unset_until_ms: Floats = np.full(n, -np.inf)
        self.free: Bools = np.zeros(n, dtype=np.bool_)
        self._was_on: Bools = np.zeros(n, dtype=np.bool_)
        if self.right:
            return
        self.free = rng.random(n) >= settings.gnss_sync
        far = self.free & (rng.random(n) < settings.clock_far_share)
        usual, rate = rng.standard_normal(n), rng.standard_normal(n)
        spread_s = np.where(far, settings.clock_far_s, settings.clock_offset_s)
        self._offset_ms = 1000 * spread_s * usual * self.free
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
        return self._unset_until_ms[rows] > now_ms

    def read(self, rows: Ints, true_ms: Ints, now_ms: int, start_ms: int) -> Ints:
        """What the clocks of ``rows`` say at ``true_ms`` after the start, by their state at ``now_ms``."""
        since_s = true_ms / 1000
        adrift_s = np.where(self.free[rows], since_s, np.remainder(since_s, SYNC_S))
        shown = start_ms + true_ms + np.rint(self._offset_ms[rows] + 1e-3 * self._ppm[rows] * adrift_s)
        uptime = np.maximum(true_ms - self._boot_ms[rows], 0.0)
        return np.where(self.unset(rows, now_ms), uptime, shown).astype(np.int64)

    def worst(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The vehicles whose clock is wrong for the whole run: error at the start and drift."""
        far = np.abs(self._offset_ms) > REPORTED_OFFSET_MS
        for k in np.flatnonzero(far | (self.free & (np.abs(self._ppm) > REPORTED_DRIFT_PPM))).tolist():
            offset_ms, drift_ppm = float(self._offset_ms[k]), float(self._ppm[k])
            yield k, {"offset_ms": round(offset_ms, 1), "drift_ppm": round(drift_ppm, 2)}


class Clones:
    """Which vehicle's motion (the source) is also reported under whose identity (the victim)."""

    def __init__(
        self, rng: np.random.Generator, vehicle_ids: Sequence[str], powertrain: Sequence[str]
    ) -> None:
        self._rng, self._ids, self._kinds, self.boot_id = rng, vehicle_ids, np.array(powertrain), 0
        self.pairs: dict[int, int] = {}  # victim by source
        self._seq: dict[int, int] = {}

    def draw(self, share: float, lat: Floats, lon: Floats, start_ms: int) -> None:
        """Find the pairs: a source of the same kind of powertrain, the farthest of a few drawn ones."""
        n, kinds, rng = len(self._ids), self._kinds, self._rng
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


FATE_NAMES = (*FATES, "plain")
LATE, LATE_BEYOND, DUPLICATE, DISORDER, LOST, CLOCK_AHEAD, CLOCK_UNSET, PLAIN = range(len(FATE_NAMES))
CLOCK_SAYS_MS = {"clock_ahead": 2_085_978_496_000, "clock_unset": 0}
"""What broken clocks say: the day the 32-bit seconds of NTP roll over (2036), and 1970."""
UP_MS = 60_000  # a device with such a clock has been up so long when the run begins
HUGE_BYTES = 10_000_000
HUGE_EVERY = 500  # one poison message in so many is of HUGE_BYTES
NEST_DEPTH = 200


def poison(kind: int, vehicle_id: str, payload: bytes) -> bytes:
    """A message nobody can understand, made of a good one.

    Cut short, under a foreign identity, with NaN, no UTF-8, nested too deep, or too large; now and then huge.
    """
    if kind % HUGE_EVERY == HUGE_EVERY - 1:
        return payload.ljust(HUGE_BYTES)
    nest = b"[" * NEST_DEPTH + b"]" * NEST_DEPTH
    other = ("X" if vehicle_id[0] != "X" else "Y") + vehicle_id[1:]
    spoiled: tuple[Callable[[], bytes], ...] = (
        lambda: payload[: len(payload) // 2],
        lambda: payload.replace(vehicle_id.encode(), other.encode(), 1),
        lambda: payload.replace(b'"dt_ms":', b'"x":NaN,"dt_ms":', 1),
        lambda: b"\xff\xfe" + payload,
        lambda: payload.replace(b'"dt_ms":', b'"x":' + nest + b',"dt_ms":', 1),
        lambda: payload.ljust(frame.MAX_BYTES + 1),
    )
    return spoiled[kind % len(spoiled)]()


class Radio:
    """The link of a fleet. ``rng`` draws the fates; all else has generators spawned from it."""

    def __init__(
        self, sc: Scenario, vehicle_ids: Sequence[str], powertrain: Sequence[str],
        rng: np.random.Generator, counts: Counter[str], truth: TruthLog,
    ) -> None:  # fmt: skip
        self._sc, self._ids, self._counts, self._rng, self._truth = sc, vehicle_ids, counts, rng, truth
        away, ticking, doubles = rng.spawn(3)
        self._outages = Outages(sc.link, away, sc.vehicles, sc.span_ms, counts, truth)
        self.lost, self.dropped = Spans(), Spans()  # by the link, and by a store on board that is full
        self.store = Store(
            sc.link, self._restamp, counts, lambda item: self.dropped.add(*identity(item.payload))
        )
        self._clocks = Clocks(sc.link, ticking, sc.vehicles)
        self.clones = Clones(doubles, vehicle_ids, powertrain)
        self._start_ms = sc.start_ms
        self._now_ms = 0

    def begin(self, start_ms: int, lat: Floats, lon: Floats) -> None:
        """The run's start is known, and where vehicles are then: who has a clone, whose clock is wrong."""
        self._start_ms = start_ms
        self.clones.draw(self._sc.link.clone_share, lat, lon, start_ms)
        self._counts["cloned_vehicles"] = len(self.clones.pairs)
        self._counts["free_clocks"] = int(self._clocks.free.sum())
        for source, victim in self.clones.pairs.items():
            details = {"boot_id": self.clones.boot_id, "moves_like": self._ids[source]}
            self._truth.add("clone", victim, 0, None, details=details)
        for vehicle, error in self._clocks.worst():
            self._truth.add("clock", vehicle, 0, None, details={"cause": "free_running", **error})

    def step(self, slot_ms: int, lat: Floats, lon: Floats, on: Bools) -> None:
        """Bring link and clocks to ``slot_ms``, before its frames."""
        self._now_ms = slot_ms - self._start_ms
        for vehicle, until_ms in self._clocks.start(on, self._now_ms).items():
            self._truth.add("clock", vehicle, self._now_ms, until_ms, details={"cause": "not_set"})
        self.store.link_back(self._outages.step(self._now_ms, lat, lon), slot_ms)

    def fates(self, rows: Ints) -> tuple[Ints, Ints]:
        """Fate (index into FATE_NAMES) and delay in ms of frames; a duplicate's is its copy's.

        Drawn before encoding, so that a frame can carry the time it is really sent. Without a link nothing
        happens to frames on the air: they are stored.
        """
        interval_ms, lateness_ms = self._sc.cadence.interval_ms, self._sc.lateness_ms
        drawn = np.searchsorted(np.cumsum(self._sc.link.fates), self._rng.random(len(rows)), side="right")
        span = self._rng.random(len(rows))
        most = max(lateness_ms - 2 * interval_ms - 3000, 2500)
        delays = np.select(
            [drawn == LATE, drawn == LATE_BEYOND, drawn == DUPLICATE, drawn == DISORDER],
            [
                2000 + span * (most - 2000),
                lateness_ms + 3000 + span * 12_000,
                50 + span * 2000,
                interval_ms * (1.05 + 0.4 * span) + 20,
            ],
            0.0,
        )
        fate, delay = drawn.astype(np.int64), delays.astype(np.int64)
        if not self._outages.some:
            return fate, delay
        spared = self._outages.offline[rows] & (fate != CLOCK_AHEAD) & (fate != CLOCK_UNSET)
        return np.where(spared, PLAIN, fate), np.where(spared, 0, delay)

    def poisoned(self, n: int) -> list[int]:
        share = self._sc.link.poison
        return np.flatnonzero(self._rng.random(n) < share).tolist() if share else []

    def stamps(self, rows: Ints, fate: Ints, t0: Ints, due: Ints) -> tuple[Ints, Ints]:
        """First sample's and sending time of frames as their devices' clocks have them."""
        first, sent, start, now = t0, due, self._start_ms, self._now_ms
        if not self._clocks.right:
            self._counts["clock_boot"] += int(self._clocks.unset(rows, now).sum())
            first, sent = (self._clocks.read(rows, at - start, now, start) for at in (t0, due))
        ahead = fate == CLOCK_AHEAD
        broken = ahead | (fate == CLOCK_UNSET)
        if broken.any():
            says_ms = np.where(ahead, CLOCK_SAYS_MS["clock_ahead"], CLOCK_SAYS_MS["clock_unset"])
            off_ms = says_ms + UP_MS - start
            first, sent = np.where(broken, t0 + off_ms, first), np.where(broken, due + off_ms, sent)
        return first, sent

    def through(self, due: list[Outgoing], until_ms: int) -> list[Outgoing]:
        """Of the messages due before ``until_ms`` those that leave, and what is uploaded by then."""
        if not self._counts["outages"]:
            return due
        if self._outages.some:
            due = self._kept_back(due, self._outages.offline)
        uploads = list(self.store.release(until_ms, self._outages.offline))
        return sorted(due + uploads) if uploads else due

    def _kept_back(self, due: list[Outgoing], offline: Bools) -> list[Outgoing]:
        """Put into the store what a vehicle without a link would send; returns the rest.

        A frame to be repeated left in the slot it was made in, so only its copy can meet an outage.
        """
        away = set(np.flatnonzero(offline).tolist())
        free = []
        for item in due:
            if item.vehicle not in away or item.flag == "clone":
                free.append(item)
            elif item.copy or item.flag == "poison":  # made by the air: nothing is on the air
                self._counts["duplicate" if item.copy else "poison"] -= 1
            else:
                self.store.put(item)
        return free

    def _restamp(self, item: Outgoing, now_ms: int) -> int:
        """``sent_ms`` of a stored frame that leaves now. A frame with a broken clock keeps to that clock."""
        since_ms = now_ms - self._start_ms
        if item.flag in CLOCK_SAYS_MS:
            return CLOCK_SAYS_MS[item.flag] + since_ms + UP_MS
        if self._clocks.right:
            return now_ms
        row, true_ms = np.array([item.vehicle]), np.array([since_ms])
        return int(self._clocks.read(row, true_ms, since_ms, self._start_ms)[0])

    def flush(self, now_ms: int) -> list[Outgoing]:
        """End all outages and hand out what is still on board: the end of a run."""
        self._outages.close(now_ms - self._start_ms)
        return self.store.flush(now_ms)
