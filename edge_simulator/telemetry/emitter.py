"""From the state of the world to messages: the frames whose turn it is, and what the link makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import orjson

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.telemetry.encoding import Encoder, Heads, Rows, SampleRing
from edge_simulator.telemetry.instruments import Instruments
from edge_simulator.telemetry.outbox import Outgoing, Queue
from edge_simulator.telemetry.reporting_schedule import ReportingSchedule
from edge_simulator.vehicle.vehicles import VehicleModel
from edge_simulator.wireless import link
from edge_simulator.wireless.radio import Radio
from infra.contract.frame import SCHEMA

Codes = Mapping[int, list[str]]


class Emitter:
    """Makes the messages of a fleet and queues them; ``counts`` says what became of them.

    ``scenario`` may be set anew before the first message: all times are relative to its start.
    """

    def __init__(
        self, scenario: Scenario, vehicle_ids: Sequence[str], models: Sequence[VehicleModel],
        instruments: Instruments, radio: np.random.Generator,
    ) -> None:  # fmt: skip
        sc = self.scenario = scenario
        self._ids = vehicle_ids
        self._models = models
        self._instruments = instruments
        self._fates = link.Fates(sc.link, radio, sc.cadence.interval_ms, sc.lateness_ms)
        self._samples = SampleRing(sc.vehicles)
        self._encoder = Encoder(vehicle_ids, [m.powertrain for m in models])
        self._rows = np.arange(sc.vehicles)
        self._seq = np.zeros(sc.vehicles, dtype=np.int64)
        self._status_seq = np.zeros(sc.vehicles, dtype=np.int64)
        self._offset_ms = _offsets(sc)
        self._reporting = ReportingSchedule(sc)
        self._order = 0
        self.queue = Queue()
        self.counts: Counter[str] = Counter()
        self.radio = Radio(sc, vehicle_ids, [m.powertrain for m in models], radio, self.counts)

    def sample(self, dt_s: float) -> None:
        """Measure the fast signals of all vehicles once."""
        self._samples.record(self._instruments.fast(dt_s))

    def crash(self, vehicle: int, due_ms: int, payload: bytes) -> None:
        """Queue a crash record."""
        self.queue.put([Outgoing(due_ms, self._next_order(), vehicle, "crash", payload)])

    def tune(self, slot_ms: int, lat: Floats, lon: Floats, on: Bools) -> None:
        """Bring link and clocks to a sample time; before its frames are made."""
        self.radio.step(self.scenario.start_ms, slot_ms, lat, lon, on)

    def take(self, until_ms: int) -> list[Outgoing]:
        """Messages that leave the vehicles before ``until_ms``, in order."""
        return self.radio.through(self.queue.take(until_ms), until_ms)

    def flush(self, now_ms: int) -> list[Outgoing]:
        """All that is left, in order: what was held back and what is on board."""
        return [*self.queue.flush(), *self.radio.flush(now_ms)]

    def births(self) -> list[Outgoing]:
        """Retained status messages: every vehicle that reports from the start says what it is."""
        at = self.scenario.start_ms
        return [self._status(k, "online", at) for k in self._reporting.on_line().tolist()]

    def farewells(self, at_ms: int) -> list[Outgoing]:
        """Retained status messages of a clean end."""
        return [self._status(k, "offline", at_ms) for k in self._reporting.on_line().tolist()]

    def _status(self, vehicle: int, state: str, at_ms: int) -> Outgoing:
        model, seq = self._models[vehicle], int(self._status_seq[vehicle])
        self._status_seq[vehicle] += 1
        body = {
            "schema": SCHEMA, "vehicle_id": self._ids[vehicle], "boot_id": self.scenario.start_ms,
            "seq": seq, "state": state, "at_ms": at_ms, "model": model.name, "powertrain": model.powertrain,
            "vehicle_class": model.vehicle_class,
        }  # fmt: skip
        return Outgoing(at_ms, self._next_order(), vehicle, "status", orjson.dumps(body), retain=True)

    def target_rate(self) -> float:
        """Frames/s that are due now."""
        return self._reporting.rate(self._instruments.parked())

    def limit_reached(self) -> bool:
        """Whether as many frames were made as were asked for."""
        return self.scenario.limit is not None and self.counts["generated"] >= self.scenario.limit

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def emit(self, k: int, slot_ms: int, codes: Codes) -> int:
        """Queue the frames of the vehicles whose turn it is; returns how many."""
        self._change_shift(slot_ms)
        group = self._group(k % self.scenario.cadence.period, slot_ms)
        count = len(self._offset_ms[group])
        if count == 0:
            return 0
        offset = self._offset_ms[group]
        rows = self._rows[group]
        fate, delay = self.radio.fates(rows, *self._fates.draw(count))
        t0 = slot_ms - (SAMPLES - 1) * self.scenario.cadence.dt_ms + offset
        due = slot_ms + offset + np.where(fate == link.DUPLICATE, 0, delay)
        payloads = self._encode(group, fate, t0, due, codes)
        for vehicle in rows[fate == link.LOST].tolist():
            self.radio.sequences.lost((self._ids[vehicle], self.scenario.start_ms), int(self._seq[vehicle]))
        self._seq[group] += 1
        self._queue_frames(group, fate, due, delay, payloads)
        self.counts["generated"] += count
        return count + self._queue_clones(rows, due, payloads)

    def sequences(self) -> Iterator[dict[str, Any]]:
        """A row a device: how far it counted, and which of its frames did not leave (yet)."""
        boot_id = self.scenario.start_ms
        own = [((name, boot_id), n) for name, n in zip(self._ids, self._seq.tolist(), strict=True)]
        waiting = (*self.queue, *self.radio.store.frames())
        held = (m.payload for m in waiting if m.channel == "telemetry" and not m.copy and m.flag != "poison")
        return self.radio.sequences.rows([*own, *self.radio.counted_clones()], held)

    def _queue_clones(self, rows: Ints, due: Ints, payloads: list[bytes]) -> int:
        limit = self.scenario.limit
        room = None if limit is None else max(0, limit - self.counts["generated"])
        clones = self.radio.clones(rows, payloads, room)
        self.queue.put(
            Outgoing(int(due[place]), self._next_order(), victim, "telemetry", payload, "clone")
            for place, victim, payload in clones
        )
        self.counts["generated"] += len(clones)
        return len(clones)

    def _change_shift(self, slot_ms: int) -> None:
        """Vehicles come on line with a birth, and leave with a farewell."""
        coming, leaving = self._reporting.advance(slot_ms - self.scenario.start_ms)
        self.queue.put([self._status(k, "online", slot_ms) for k in coming.tolist()])
        self.queue.put([self._status(k, "offline", slot_ms) for k in leaving.tolist()])

    def _group(self, phase: int, slot_ms: int) -> Rows:
        """The vehicles that report in this slot: a slice when all of the slot's do."""
        n, period = self.scenario.vehicles, self.scenario.cadence.period
        turn = slice(n * phase // period, n * (phase + 1) // period)
        rows: Rows = turn
        if not self._reporting.everybody:
            rows = self._reporting.reporting(turn, self._instruments.parked(), slot_ms)
        if self.scenario.limit is None:
            return rows
        return self._rows[rows][: self.scenario.limit - self.counts["generated"]]

    def _encode(self, group: Rows, fate: Ints, t0: Ints, due: Ints, codes: Codes) -> list[bytes]:
        ahead, unset = fate == link.CLOCK_AHEAD, fate == link.CLOCK_UNSET
        fix = np.where(ahead, link.CLOCK_2036_MS, np.where(unset, link.CLOCK_1970_MS, 0))
        wrong = ahead | unset
        since = t0 - self.scenario.start_ms + link.UP_MS
        begun, sent = self.radio.stamps(self._rows[group], t0, due)
        heads = Heads(
            self.scenario.start_ms, self.scenario.cadence.dt_ms, self._seq[group],
            np.where(wrong, fix + since, begun), np.where(wrong, fix + since + due - t0, sent),
        )  # fmt: skip
        slow = self._instruments.slow(reported=group)
        flags = {name: states[group] for name, states in self._instruments.flags().items()}
        return self._encoder.encode(group, self._samples.window(group), slow, flags, codes, heads)

    def _queue_frames(self, group: Rows, fate: Ints, due: Ints, delay: Ints, payloads: list[bytes]) -> None:
        items = self._items(self._rows[group], fate, due, payloads)
        at_once = ~np.isin(fate, link.HELD_BACK) & (fate != link.LOST)
        self.queue.put_run(list(compress(items, at_once.tolist())))
        self.queue.put(items[k] for k in np.flatnonzero(~at_once & (fate != link.LOST)).tolist())
        for k in np.flatnonzero(fate == link.DUPLICATE).tolist():
            again = replace(items[k], due_ms=int(due[k] + delay[k]), order=self._next_order(), copy=True)
            self.queue.put([again])
        for k in self._fates.poisoned(len(payloads)).tolist():
            bad = link.poison(self.counts["poison"], self._ids[items[k].vehicle], payloads[k])
            self.counts["poison"] += 1
            self.queue.put([replace(items[k], order=self._next_order(), payload=bad, flag="poison")])

    def _items(self, vehicles: Ints, fate: Ints, due: Ints, payloads: list[bytes]) -> list[Outgoing]:
        """The frames of a slot as messages, with what happens to them, which is counted."""
        flags = [link.FATE_NAMES[k] for k in fate.tolist()]
        self.counts.update(flags)
        first = self._order + 1
        self._order += len(payloads)
        rows = zip(
            due.tolist(), range(first, self._order + 1), vehicles.tolist(), payloads, flags, strict=True
        )
        return [Outgoing(at, order, k, "telemetry", body, flag) for at, order, k, body, flag in rows]


def _offsets(sc: Scenario) -> Ints:
    """Each vehicle's place within its slot: frames leave one by one, not in bursts; ms."""
    n, period, dt = sc.vehicles, sc.cadence.period, sc.cadence.dt_ms
    bounds = np.array([n * p // period for p in range(period + 1)])
    phase = np.searchsorted(bounds, np.arange(n), side="right") - 1
    size = np.maximum(bounds[phase + 1] - bounds[phase], 1)
    offsets: Ints = (np.arange(n) - bounds[phase]) * dt // size
    return offsets
