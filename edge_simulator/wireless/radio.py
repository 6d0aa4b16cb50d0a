"""The link of a fleet as a whole: fates of frames, outages, store on board, device clocks, cloned devices.

It stands between a fleet's frames and its queue of messages. What is switched off costs nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import Scenario
from edge_simulator.telemetry.outbox import Device, Outgoing, Sequences
from edge_simulator.wireless.devices import Clocks, Clones
from edge_simulator.wireless.outage import Outages, PastOutage, Store
from edge_simulator.wireless.settings import FATES, LinkShares
from infra.contract import frame

FATE_NAMES = (*FATES, "plain")
LATE, LATE_BEYOND, DUPLICATE, DISORDER, LOST, CLOCK_AHEAD, CLOCK_UNSET, PLAIN = range(len(FATE_NAMES))
CLOCK_SAYS_MS = {"clock_ahead": 2_085_978_496_000, "clock_unset": 0}
"""What broken clocks say: the day the 32-bit seconds of NTP roll over (2036), and 1970."""
UP_MS = 60_000  # a device with such a clock has been up so long when the run begins
HUGE_BYTES = 10_000_000
HUGE_EVERY = 500  # one poison message in so many is of HUGE_BYTES
NEST_DEPTH = 200

Truth = dict[str, Any]


def fates(
    shares: LinkShares, rng: np.random.Generator, interval_ms: int, lateness_ms: int, n: int
) -> tuple[Ints, Ints]:
    """Fate (index into FATE_NAMES) and delay in ms of ``n`` frames; a duplicate's is its copy's.

    Drawn before encoding, so that a frame can carry the time it is really sent.
    """
    fate = np.searchsorted(np.cumsum(shares.fates), rng.random(n), side="right")
    span = rng.random(n)
    most = max(lateness_ms - 2 * interval_ms - 3000, 2500)
    delay = np.select(
        [fate == LATE, fate == LATE_BEYOND, fate == DUPLICATE, fate == DISORDER],
        [
            2000 + span * (most - 2000),
            lateness_ms + 3000 + span * 12_000,
            50 + span * 2000,
            interval_ms * (1.05 + 0.4 * span) + 20,
        ],
        0.0,
    )
    return fate.astype(np.int64), delay.astype(np.int64)


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
        rng: np.random.Generator, counts: Counter[str],
    ) -> None:  # fmt: skip
        self._sc, self._ids, self._powertrain, self._counts = sc, vehicle_ids, powertrain, counts
        self._rng = rng
        away, ticking, self._doubles = rng.spawn(3)
        self._outages = Outages(sc.link, away, sc.vehicles, sc.span_ms, counts)
        self.sequences = Sequences()
        self.store = Store(sc.link, self._restamp, counts, lambda item: self.sequences.dropped(item.payload))
        self._clocks = Clocks(sc.link, ticking, sc.vehicles)
        self._clones: Clones | None = None
        self._start_ms = sc.start_ms
        self._now_ms = 0
        self._truth: list[Truth] = []

    def step(self, start_ms: int, slot_ms: int, lat: Floats, lon: Floats, on: Bools) -> None:
        """Bring link and clocks to ``slot_ms``, before its frames; ``start_ms`` is always the run's start."""
        self._now_ms = slot_ms - start_ms
        if self._clones is None:
            self._start_ms, share = start_ms, self._sc.link.clone_share
            made = Clones(share, self._doubles, self._ids, self._powertrain, lat, lon, start_ms)
            self._clones = made
            self._counts["cloned_vehicles"] = len(made.pairs)
            self._counts["free_clocks"] = int(self._clocks.free.sum())
            for source, victim in made.pairs.items():
                details = {"boot_id": made.boot_id, "moves_like": self._ids[source]}
                self._report("clone", victim, 0, None, details)
            for vehicle, error in self._clocks.worst():
                self._report("clock", vehicle, 0, None, {"cause": "free_running", **error})
        for vehicle, until_ms in self._clocks.start(on, self._now_ms).items():
            self._report("clock", vehicle, self._now_ms, until_ms, {"cause": "not_set"})
        ended = self._outages.step(self._now_ms, lat, lon)
        self.store.link_back([outage.vehicle for outage in ended], slot_ms)
        self._report_outages(ended)

    def fates(self, rows: Ints) -> tuple[Ints, Ints]:
        """Fates and delays of frames; without a link nothing happens to them on the air: they are stored."""
        sc = self._sc
        fate, delay = fates(sc.link, self._rng, sc.cadence.interval_ms, sc.lateness_ms, len(rows))
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
            off_ms = (
                np.where(ahead, CLOCK_SAYS_MS["clock_ahead"], CLOCK_SAYS_MS["clock_unset"]) + UP_MS - start
            )
            first, sent = np.where(broken, t0 + off_ms, first), np.where(broken, due + off_ms, sent)
        return first, sent

    def clones(self, rows: Ints, payloads: Sequence[bytes], room: int | None) -> list[tuple[int, int, bytes]]:
        """Place in ``rows``, victim and frame of each clone reporting with them; at most ``room``."""
        found = [] if self._clones is None else list(self._clones.frames(rows, payloads, room))
        self._counts["clone_frames"] += len(found)
        return found

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
        self._report_outages(self._outages.close(now_ms - self._start_ms))
        return self.store.flush(now_ms)

    def counted_clones(self) -> list[tuple[Device, int]]:
        """How far each cloned device counted."""
        return [] if self._clones is None else self._clones.counted()

    def truth(self) -> list[Truth]:
        """What became known since the last call."""
        found, self._truth = self._truth, []
        return found

    def _report_outages(self, ended: Sequence[PastOutage]) -> None:
        for vehicle, from_ms, to_ms, cause in ended:
            self._report("outage", vehicle, from_ms, to_ms, {"cause": cause})

    def _report(self, kind: str, vehicle: int, from_ms: int, to_ms: int | None, details: Truth) -> None:
        self._truth.append({
            "kind": kind, "vehicle_id": self._ids[vehicle], "from_ms": self._start_ms + from_ms,
            "to_ms": None if to_ms is None else self._start_ms + to_ms, "details": details,
        })  # fmt: skip
