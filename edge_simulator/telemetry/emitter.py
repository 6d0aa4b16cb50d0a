"""From the state of the world to messages: the frames whose turn it is, and what the link makes of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, count
from typing import Any

import numpy as np
import orjson

from edge_simulator.geo import Bools, Ints, Rows
from edge_simulator.scenario import SAMPLES, Scenario, rate_at
from edge_simulator.telemetry.encoding import Encoder, SampleRing
from edge_simulator.telemetry.instruments import Instruments
from edge_simulator.telemetry.outbox import Outgoing, Spans, sequences, take_due
from edge_simulator.truth import TruthLog
from edge_simulator.vehicle.vehicles import VehicleModel
from edge_simulator.wireless import radio as link
from infra.contract.frame import SCHEMA

NEVER_MS = -(10**15)


class ReportingSchedule:
    """Who reports: vehicles come on line as the stages say, and parked ones report rarely.

    Times are the run's clock, ms.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._sc = scenario
        n = scenario.vehicles
        golden = (5**0.5 - 1) / 2  # in the order of coming on line any first few are spread evenly
        order = np.argsort(np.arange(n) * golden % 1.0, kind="stable")
        self._place = np.argsort(order)
        self._here = self._place < self._wanted(0)  # who is on line
        self._drove_ms, self._sent_ms = np.full((2, n), NEVER_MS)
        self.everybody = not scenario.stages and scenario.parked_every_ms is None
        """Whether all vehicles report all the time."""

    def on_line(self) -> Ints:
        return np.flatnonzero(self._here)

    def advance(self, since_ms: int) -> tuple[Ints, Ints]:
        """Vehicles that come on line and that leave, as the stages want it ``since_ms`` after the start."""
        before, self._here = self._here, self._place < self._wanted(since_ms)
        return np.flatnonzero(self._here & ~before), np.flatnonzero(before & ~self._here)

    def reporting(self, rows: slice, parked: Bools, now_ms: int) -> Ints:
        """Which of ``rows`` report now: on line, and under way or with their parked interval over."""
        every, due = self._sc.parked_every_ms, self._here[rows]
        if every is not None:
            self._drove_ms[rows] = np.where(parked[rows], self._drove_ms[rows], now_ms)
            trip_ends = now_ms - self._drove_ms[rows] <= self._sc.cadence.interval_ms  # that is reported too
            due = due & (trip_ends | (now_ms - self._sent_ms[rows] >= every))
        found: Ints = np.flatnonzero(due) + rows.start
        self._sent_ms[found] = now_ms
        return found

    def rate(self, parked: Bools) -> float:
        """Frames/s that are due now: of those on line, the ones under way, and rarely the parked ones."""
        here, interval_ms = self._here, self._sc.cadence.interval_ms
        moving, standing = np.count_nonzero(here & ~parked), np.count_nonzero(here & parked)
        return 1000 * (moving / interval_ms + standing / (self._sc.parked_every_ms or interval_ms))

    def _wanted(self, since_ms: int) -> int:
        n, stages = self._sc.vehicles, self._sc.stages
        return min(n, round(n * rate_at(stages, since_ms) / self._sc.full_rate)) if stages else n


class Emitter:
    """Makes the messages of a fleet and queues them; ``counts`` says what became of them.

    ``scenario`` may be set anew before the first message: all times are relative to its start. The devices'
    ``boot_id`` stays: last wills, which a broker is told while they connect, have it too.
    """

    def __init__(
        self, scenario: Scenario, vehicle_ids: Sequence[str], models: Sequence[VehicleModel],
        instruments: Instruments, radio: np.random.Generator, truth: TruthLog,
    ) -> None:  # fmt: skip
        self.scenario, self._ids, self._models, self._instruments = scenario, vehicle_ids, models, instruments
        self.boot_id = scenario.start_ms
        n, period = scenario.vehicles, scenario.cadence.period
        powertrains = [m.powertrain for m in models]
        self._samples = SampleRing(n)
        self._encoder = Encoder(vehicle_ids, powertrains)
        self._rows = np.arange(n)
        self._seq, self._status_seq = np.zeros((2, n), dtype=np.int64)
        # slot p begins with vehicle n * p // period; in it each has its time, so that frames leave one by one
        slot = ((self._rows + 1) * period - 1) // n
        first, end = n * slot // period, n * (slot + 1) // period
        self._offset_ms = (self._rows - first) * scenario.cadence.dt_ms // (end - first)
        self._reporting = ReportingSchedule(scenario)
        self._order = count(1)
        self.queue: list[Outgoing] = []
        self.counts: Counter[str] = Counter()
        self.radio = link.Radio(scenario, vehicle_ids, powertrains, radio, self.counts, truth)

    def sample(self, dt_s: float) -> None:
        self._samples.record(self._instruments.fast(dt_s))

    def crash(self, vehicle: int, due_ms: int, payload: bytes) -> None:
        self.queue.append(Outgoing(due_ms, next(self._order), vehicle, "crash", payload))

    def take(self, until_ms: int) -> list[Outgoing]:
        """Messages that leave the vehicles before ``until_ms``, in order."""
        return self.radio.through(take_due(self.queue, until_ms), until_ms)

    def flush(self, now_ms: int) -> list[Outgoing]:
        """All that is left, in order: what was held back and what is on board."""
        return [*take_due(self.queue), *self.radio.flush(now_ms)]

    def births(self) -> list[Outgoing]:
        """Retained status messages: every vehicle that reports from the start says what it is."""
        return self._status(self._reporting.on_line(), "online", self.scenario.start_ms)

    def wills(self) -> list[Outgoing]:
        """What is said for each vehicle that goes without a farewell, those that are not on line yet too."""
        return self._status(self._rows, "offline", self.scenario.start_ms)

    def farewells(self, at_ms: int) -> list[Outgoing]:
        return self._status(self._reporting.on_line(), "offline", at_ms)

    def _status(self, vehicles: Ints, state: str, at_ms: int) -> list[Outgoing]:
        found = []
        for k in vehicles.tolist():
            model = self._models[k]
            body = orjson.dumps({
                "schema": SCHEMA, "vehicle_id": self._ids[k], "boot_id": self.boot_id,
                "seq": int(self._status_seq[k]), "state": state, "at_ms": at_ms, "model": model.name,
                "powertrain": model.powertrain, "vehicle_class": model.vehicle_class,
            })  # fmt: skip
            found.append(Outgoing(at_ms, next(self._order), k, "status", body, retain=True))
        self._status_seq[vehicles] += 1
        return found

    def target_rate(self) -> float:
        """Frames/s that are due now."""
        return self._reporting.rate(self._instruments.parked())

    def limit_reached(self) -> bool:
        return self.scenario.limit is not None and self.counts["generated"] >= self.scenario.limit

    def emit(self, k: int, slot_ms: int, codes: Mapping[int, list[str]]) -> None:
        """Queue the frames of the vehicles whose turn it is; ``codes`` are trouble codes by vehicle.

        Vehicles come on line with a birth, and leave with a farewell.
        """
        coming, leaving = self._reporting.advance(slot_ms - self.scenario.start_ms)
        self.queue += self._status(coming, "online", slot_ms) + self._status(leaving, "offline", slot_ms)
        group = self._group(k % self.scenario.cadence.period, slot_ms)
        rows, offset = self._rows[group], self._offset_ms[group]
        if len(rows) == 0:
            return
        fate, delay = self.radio.fates(rows)
        t0 = slot_ms - (SAMPLES - 1) * self.scenario.cadence.dt_ms + offset
        due = slot_ms + offset + np.where(fate == link.DUPLICATE, 0, delay)
        begun, sent = self.radio.stamps(rows, fate, t0, due)
        slow = self._instruments.slow(group, SAMPLES * self.scenario.cadence.dt_ms / 1000)
        flags = {name: states[group] for name, states in self._instruments.flags().items()}
        heads: dict[str, int | Ints] = {"seq": self._seq[group], "t0_ms": begun, "sent_ms": sent}
        heads |= {"boot_id": self.boot_id, "dt_ms": self.scenario.cadence.dt_ms}
        payloads = self._encoder.encode(group, self._samples.window(group), slow, flags, codes, heads)
        for vehicle in rows[fate == link.LOST].tolist():
            self.radio.lost.add((self._ids[vehicle], self.boot_id), int(self._seq[vehicle]))
        self._seq[group] += 1
        self._queue_frames(rows, fate, due, delay, payloads)
        self.counts["generated"] += len(rows)
        limit = self.scenario.limit
        room = None if limit is None else max(0, limit - self.counts["generated"])
        clones = list(self.radio.clones.frames(rows, payloads, room))
        self.queue.extend(
            Outgoing(int(due[place]), next(self._order), victim, "telemetry", payload, "clone")
            for place, victim, payload in clones
        )
        self.counts["generated"] += len(clones)
        self.counts["clone_frames"] += len(clones)

    def sequences(self) -> Iterator[dict[str, Any]]:
        """A row a device: how far it counted, and which of its frames did not leave (yet)."""
        own = [((name, self.boot_id), n) for name, n in zip(self._ids, self._seq.tolist(), strict=True)]
        waiting = (*self.queue, *self.radio.store.frames())
        held = (m.payload for m in waiting if m.channel == "telemetry" and not m.copy and m.flag != "poison")
        counted, radio = [*own, *self.radio.clones.counted()], self.radio
        return sequences(counted, lost=radio.lost, dropped=radio.dropped, on_board=Spans(held))

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

    def _queue_frames(
        self, vehicles: Ints, fate: Ints, due: Ints, delay: Ints, payloads: list[bytes]
    ) -> None:
        """Queue the frames of a slot, each with what happens to it, which is counted."""
        flags = [link.FATE_NAMES[k] for k in fate.tolist()]
        self.counts.update(flags)
        # the order counts on
        rows = zip(due.tolist(), self._order, vehicles.tolist(), payloads, flags, strict=False)
        items = [Outgoing(at, order, k, "telemetry", body, flag) for at, order, k, body, flag in rows]
        self.queue.extend(compress(items, (fate != link.LOST).tolist()))
        for k in np.flatnonzero(fate == link.DUPLICATE).tolist():
            again = replace(items[k], due_ms=int(due[k] + delay[k]), order=next(self._order), copy=True)
            self.queue.append(again)
        for k in self.radio.poisoned(len(payloads)):
            bad = link.poison(self.counts["poison"], self._ids[items[k].vehicle], payloads[k])
            self.counts["poison"] += 1
            self.queue.append(replace(items[k], order=next(self._order), payload=bad, flag="poison"))
