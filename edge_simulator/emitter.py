"""From the state of the world to messages: the frames whose turn it is, and what the link makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import orjson

from edge_simulator import link
from edge_simulator.frames import Encoder, Heads, SampleRing
from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.instruments import Instruments
from edge_simulator.outbox import Outgoing, Queue
from edge_simulator.radio import Radio
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.vehicles import VehicleModel
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
        self._seq = np.zeros(sc.vehicles, dtype=np.int64)
        self._offset_ms = _offsets(sc)
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
        """Retained status messages: every vehicle says what it is."""
        at = self.scenario.start_ms
        return [self._status(k, "online", 0, at) for k in range(self.scenario.vehicles)]

    def farewells(self, at_ms: int) -> list[Outgoing]:
        """Retained status messages of a clean end."""
        return [self._status(k, "offline", 1, at_ms) for k in range(self.scenario.vehicles)]

    def _status(self, vehicle: int, state: str, seq: int, at_ms: int) -> Outgoing:
        model = self._models[vehicle]
        body = {
            "schema": SCHEMA, "vehicle_id": self._ids[vehicle], "boot_id": self.scenario.start_ms,
            "seq": seq, "state": state, "at_ms": at_ms, "model": model.name, "powertrain": model.powertrain,
            "vehicle_class": model.vehicle_class,
        }  # fmt: skip
        return Outgoing(at_ms, self._next_order(), vehicle, "status", orjson.dumps(body), retain=True)

    def limit_reached(self) -> bool:
        """Whether as many frames were made as were asked for."""
        return self.scenario.limit is not None and self.counts["generated"] >= self.scenario.limit

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def emit(self, k: int, slot_ms: int, codes: Codes) -> int:
        """Queue the frames of the vehicles whose turn it is; returns how many."""
        group = self._group(k % self.scenario.cadence.period)
        count = int(group.stop - group.start)
        if count == 0:
            return 0
        offset = self._offset_ms[group]
        rows = np.arange(group.start, group.stop)
        fate, delay = self.radio.fates(rows, *self._fates.draw(count))
        t0 = slot_ms - (SAMPLES - 1) * self.scenario.cadence.dt_ms + offset
        due = slot_ms + offset + np.where(fate == 2, 0, delay)
        payloads = self._encode(group, fate, t0, due, codes)
        self._seq[group] += 1
        self._queue_frames(group, fate, due, delay, payloads)
        self.counts["generated"] += count
        return count + self._queue_clones(rows, due, payloads)

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

    def _group(self, phase: int) -> slice:
        n, period = self.scenario.vehicles, self.scenario.cadence.period
        start, stop = n * phase // period, n * (phase + 1) // period
        if self.scenario.limit is not None:
            stop = min(stop, start + self.scenario.limit - self.counts["generated"])
        return slice(start, stop)

    def _encode(self, group: slice, fate: Ints, t0: Ints, due: Ints, codes: Codes) -> list[bytes]:
        ahead, unset = fate == link.CLOCK_AHEAD, fate == link.CLOCK_UNSET
        fix = np.where(ahead, link.CLOCK_2036_MS, np.where(unset, link.CLOCK_1970_MS, 0))
        wrong = ahead | unset
        since = t0 - self.scenario.start_ms + link.UP_MS
        begun, sent = self.radio.stamps(np.arange(group.start, group.stop), t0, due)
        heads = Heads(
            self.scenario.start_ms, self.scenario.cadence.dt_ms, self._seq[group],
            np.where(wrong, fix + since, begun), np.where(wrong, fix + since + due - t0, sent),
        )  # fmt: skip
        slow = self._instruments.slow(reported=group)
        return self._encoder.encode(
            group, self._samples.window(group), slow, self._instruments.flags(), codes, heads
        )

    def _queue_frames(self, group: slice, fate: Ints, due: Ints, delay: Ints, payloads: list[bytes]) -> None:
        fates, dues, delays = fate.tolist(), due.tolist(), delay.tolist()
        for k, payload in enumerate(payloads):
            name = link.name(fates[k])
            self.counts[name] += 1
            if name == "lost":
                continue
            vehicle = group.start + k
            self.queue.put([Outgoing(dues[k], self._next_order(), vehicle, "telemetry", payload, name)])
            if name == "duplicate":
                again = Outgoing(
                    dues[k] + delays[k], self._next_order(), vehicle, "telemetry", payload, name, copy=True
                )
                self.queue.put([again])
        for k in self._fates.poisoned(len(payloads)).tolist():
            vehicle = group.start + k
            bad = link.poison(self.counts["poison"], self._ids[vehicle], payloads[k])
            self.counts["poison"] += 1
            self.queue.put([Outgoing(dues[k], self._next_order(), vehicle, "telemetry", bad, "poison")])


def _offsets(sc: Scenario) -> Ints:
    """Each vehicle's place within its slot: frames leave one by one, not in bursts; ms."""
    n, period, dt = sc.vehicles, sc.cadence.period, sc.cadence.dt_ms
    bounds = np.array([n * p // period for p in range(period + 1)])
    phase = np.searchsorted(bounds, np.arange(n), side="right") - 1
    size = np.maximum(bounds[phase + 1] - bounds[phase], 1)
    offsets: Ints = (np.arange(n) - bounds[phase]) * dt // size
    return offsets
