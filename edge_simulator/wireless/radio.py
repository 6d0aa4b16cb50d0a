"""The link of a fleet as a whole: outages, the store on board, device clocks and cloned devices.

It stands between a fleet's frames and its queue of messages. What is switched off costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import Scenario
from edge_simulator.telemetry.outbox import Device, Outgoing, Sequences
from edge_simulator.wireless import link
from edge_simulator.wireless.devices import BOOT_AHEAD_MS, Clocks, Clones
from edge_simulator.wireless.outage import Outages, PastOutage, Store

Truth = dict[str, Any]


class Radio:
    """The link of a fleet. ``rng`` is only spawned from: the fates' draws stay what they are without this.

    ``begin`` is called once, before the first frame; ``step`` before the frames of each sample time.
    """

    def __init__(
        self, sc: Scenario, vehicle_ids: Sequence[str], powertrain: Sequence[str],
        rng: np.random.Generator, counts: Counter[str],
    ) -> None:  # fmt: skip
        self._ids = vehicle_ids
        self._powertrain = powertrain
        self._counts = counts
        self._share = sc.link.clone_share
        away, ticking, self._doubles = rng.spawn(3)
        self._outages = Outages(sc.link, away, sc.vehicles, sc.span_ms)
        self.sequences = Sequences()
        self.store = Store(sc.link, self._restamp, lambda item: self.sequences.dropped(item.payload))
        self.clocks = Clocks(sc.link, ticking, sc.vehicles)
        self._clones: Clones | None = None
        self._start_ms = sc.start_ms
        self._now_ms = 0
        self._truth: list[Truth] = []

    def __len__(self) -> int:
        """Messages kept on board."""
        return len(self.store)

    def step(self, start_ms: int, slot_ms: int, lat: Floats, lon: Floats, on: Bools) -> None:
        """Bring link and clocks to ``slot_ms``; ``start_ms`` is the run's start, the same each time."""
        self._now_ms = slot_ms - start_ms
        if self._clones is None:
            self._begin(start_ms, lat, lon)
        if not self.clocks.right:
            for vehicle, until_ms in self.clocks.start(on, self._now_ms).items():
                self._report("clock", vehicle, self._now_ms, until_ms, {"cause": "not_set"})
        ended = self._outages.step(self._now_ms, lat, lon)
        self.store.link_back([outage.vehicle for outage in ended], slot_ms)
        self._report_outages(ended)

    def _begin(self, start_ms: int, lat: Floats, lon: Floats) -> None:
        self._start_ms = start_ms
        self._clones = Clones(self._share, self._doubles, self._powertrain, lat, lon)
        self._counts["cloned_vehicles"] = len(self._clones.pairs)
        self._counts["free_clocks"] = int(self.clocks.free.sum())
        for source, victim in self._clones.pairs.items():
            details = {"boot_id": start_ms - BOOT_AHEAD_MS, "moves_like": self._ids[source]}
            self._report("clone", victim, 0, None, details)
        for vehicle, details in self.clocks.worst().items():
            self._report("clock", vehicle, 0, None, {"cause": "free_running", **details})

    def fates(self, rows: Ints, fate: Ints, delay: Ints) -> tuple[Ints, Ints]:
        """Fates and delays of frames; without a link nothing happens to them on the air: they are stored."""
        if not self._outages.some:
            return fate, delay
        by_device = (fate == link.CLOCK_AHEAD) | (fate == link.CLOCK_UNSET)
        spared = self._outages.offline[rows] & ~by_device
        return np.where(spared, link.PLAIN, fate), np.where(spared, 0, delay)

    def stamps(self, rows: Ints, t0: Ints, due: Ints) -> tuple[Ints, Ints]:
        """First sample's and sending time of frames as their devices' clocks have them."""
        if self.clocks.right:
            return t0, due
        start, now = self._start_ms, self._now_ms
        self._counts["clock_boot"] += int(self.clocks.unset(rows, now).sum())
        first, sent = (self.clocks.read(rows, at - start, now, start) for at in (t0, due))
        return first, sent

    def clones(self, rows: Ints, payloads: Sequence[bytes], room: int | None) -> list[tuple[int, int, bytes]]:
        """Place in ``rows``, victim and frame of each clone reporting with them; at most ``room``."""
        if self._clones is None:
            return []
        found = []
        for place in self._clones.among(rows)[:room]:
            source = int(rows[place])
            victim = self._clones.pairs[source]
            own = self._clones.frame(source, payloads[place], self._ids[victim], self._start_ms)
            found.append((place, victim, own))
        self._counts["clone_frames"] += len(found)
        return found

    def through(self, due: list[Outgoing], until_ms: int) -> list[Outgoing]:
        """Of the messages due before ``until_ms`` those that leave, and what is uploaded by then."""
        if not self._outages.begun:
            return due
        if self._outages.some:
            due = self._kept_back(due, self._outages.offline)
        uploads = list(self.store.release(until_ms, self._outages.offline))
        self._recount()
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

    def _recount(self) -> None:
        self._counts["outages"] = self._outages.begun
        self._counts["stored_on_board"] = self.store.stored
        self._counts["dropped_on_board"] = self.store.dropped

    def _restamp(self, item: Outgoing, now_ms: int) -> int:
        """``sent_ms`` of a stored frame that leaves now. A frame with a broken clock keeps to that clock."""
        broken = {"clock_ahead": link.CLOCK_2036_MS, "clock_unset": link.CLOCK_1970_MS}.get(item.flag)
        if broken is not None:
            return broken + now_ms - self._start_ms + link.UP_MS
        if self.clocks.right:
            return now_ms
        row, true_ms = np.array([item.vehicle]), np.array([now_ms - self._start_ms])
        return int(self.clocks.read(row, true_ms, int(true_ms[0]), self._start_ms)[0])

    def flush(self, now_ms: int) -> list[Outgoing]:
        """End all outages and hand out what is still on board: the end of a run."""
        if not self._outages.begun:
            return []
        self._report_outages(self._outages.close(now_ms - self._start_ms))
        rest = self.store.flush(now_ms)
        self._recount()
        return rest

    def counted_clones(self) -> list[tuple[Device, int]]:
        """How far each cloned device counted."""
        return [] if self._clones is None else self._clones.counted(self._ids, self._start_ms)

    def truth(self) -> list[Truth]:
        """What became known since the last call."""
        found, self._truth = self._truth, []
        return found

    def _report_outages(self, ended: Sequence[PastOutage]) -> None:
        for outage in ended:
            self._report("outage", outage.vehicle, outage.from_ms, outage.to_ms, {"cause": outage.cause})

    def _report(
        self, kind: str, vehicle: int, from_ms: int, to_ms: int | None, details: dict[str, Any]
    ) -> None:
        self._truth.append({
            "kind": kind, "vehicle_id": self._ids[vehicle], "from_ms": self._start_ms + from_ms,
            "to_ms": None if to_ms is None else self._start_ms + to_ms, "details": details,
        })  # fmt: skip
