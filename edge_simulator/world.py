"""One run's world: steps the physics, fills frames, meets faults, and hands out messages slot by slot.

The sequence of messages follows from the scenario alone: no wall clock, no network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from edge_simulator import faults, link, pulse, recorder, vehicles, vin
from edge_simulator.fleet import Fleet
from edge_simulator.frames import Encoder, Heads, SampleRing
from edge_simulator.geo import Ints
from edge_simulator.instruments import Instruments
from edge_simulator.machine import Machine
from edge_simulator.roads import RoadNetwork, city
from edge_simulator.scenario import SAMPLES, Scenario
from infra.contract.frame import SCHEMA

LONGEST_STEP_MS = 100
WARM_UP_MS = 21_000
"""Simulated before the start, so that the recorder's ring is full and traffic flows."""

Truth = dict[str, Any]


@dataclass(slots=True)
class Slot:
    """What happened up to ``end_ms`` (exclusive) on the run's clock."""

    end_ms: int
    messages: list[link.Outgoing]
    generated: int
    truth: list[Truth] = field(default_factory=list)


class World:
    """The simulated world of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        sc = scenario
        streams = [np.random.default_rng([sc.seed, k]) for k in range(2, 8)]
        draw, motion, wear, noise, luck, radio = streams
        self.scenario = sc
        self.net: RoadNetwork = city(sc.seed, sc.lat_deg, sc.lon_deg)
        self.specs = vehicles.specs(vehicles.draw(draw, sc.vehicles))
        self.vehicle_ids = [vin.make(f"{sc.seed}/{k}") for k in range(sc.vehicles)]
        self.fleet = Fleet(self.net, self.specs, motion)
        self.machine = Machine(self.specs, wear, sc.ambient_c)
        self.instruments = Instruments(self.fleet, self.machine, noise)
        planned = faults.plan(sc.faults, self.machine, luck, sc.span_ms)
        self._injector = faults.Injector(planned, self.fleet, self.machine, luck)
        self._fates = link.Fates(sc.link, radio, sc.cadence.interval_ms, sc.lateness_ms)
        self.queue = link.Queue()
        self.counts: Counter[str] = Counter(planned_faults=len(planned))
        self._substeps = -(-sc.cadence.dt_ms // LONGEST_STEP_MS)
        self._h_ms = sc.cadence.dt_ms / self._substeps
        self._ring_every = max(1, int(recorder.SAMPLE_MS // self._h_ms))
        self._ring = recorder.Ring(sc.vehicles, self._h_ms * self._ring_every)
        self._samples = SampleRing(sc.vehicles)
        self._models = [vehicles.MODELS[k] for k in self.specs.model]
        self._encoder = Encoder(self.vehicle_ids, [m.powertrain for m in self._models])
        self._seq = np.zeros(sc.vehicles, dtype=np.int64)
        self._crash_seq = np.zeros(sc.vehicles, dtype=np.int64)
        self._order = 0
        self._fine_steps = 0
        self._offset_ms = _offsets(sc)

    def slots(self) -> Iterator[Slot]:
        """The run, one sample time after the other; held-back messages come with the slot they are due in."""
        sc, dt = self.scenario, self.scenario.cadence.dt_ms
        self.warm_up()
        last = (
            None if sc.frames_per_vehicle is None else SAMPLES - 1 + sc.cadence.period * sc.frames_per_vehicle
        )
        k = 0
        while (last is None or k < last) and not self._limit_reached():
            k += 1
            slot_ms = sc.start_ms + k * dt
            truth = self._run_fine((k - 1) * dt, self._substeps)
            self._samples.record(self.instruments.fast(dt / 1000))
            made = self._emit(k, slot_ms) if k >= SAMPLES else 0
            yield Slot(slot_ms + dt, self.queue.take(slot_ms + dt), made, truth)

    def warm_up(self) -> None:
        """Simulate the time before the start, once: the recorder's ring is full then and traffic flows."""
        if self._fine_steps == 0:
            self._run_fine(-WARM_UP_MS, max(1, round(WARM_UP_MS / self._h_ms)))
            self.machine.state.crank_v[:] = np.inf  # nobody was there to report those starts

    def begin_at(self, start_ms: int) -> None:
        """Set the run's start anew, before anything was made: all times are relative to it until then."""
        self.scenario = replace(self.scenario, start_ms=start_ms)

    def births(self) -> list[link.Outgoing]:
        """Retained status messages: every vehicle says what it is."""
        at = self.scenario.start_ms
        return [self._status(k, "online", 0, at) for k in range(self.scenario.vehicles)]

    def farewells(self, at_ms: int) -> list[link.Outgoing]:
        """Retained status messages of a clean end."""
        return [self._status(k, "offline", 1, at_ms) for k in range(self.scenario.vehicles)]

    def _status(self, vehicle: int, state: str, seq: int, at_ms: int) -> link.Outgoing:
        model = self._models[vehicle]
        body = {
            "schema": SCHEMA, "vehicle_id": self.vehicle_ids[vehicle], "boot_id": self.scenario.start_ms,
            "seq": seq, "state": state, "at_ms": at_ms, "model": model.name, "powertrain": model.powertrain,
            "vehicle_class": model.vehicle_class,
        }  # fmt: skip
        return link.Outgoing(at_ms, self._next_order(), vehicle, "status", orjson.dumps(body), retain=True)

    def _limit_reached(self) -> bool:
        return self.scenario.limit is not None and self.counts["generated"] >= self.scenario.limit

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _run_fine(self, from_ms: int, steps: int) -> list[Truth]:
        """Physics in steps of at most 100 ms from ``from_ms`` after the start; returns faults that began."""
        truth: list[Truth] = []
        for k in range(steps):
            now_ms = from_ms + round((k + 1) * self._h_ms)
            bursts = []
            for event in self._injector.due(now_ms):
                truth.append(self._truth(event))
                bursts += [event] if isinstance(event, faults.Burst) else []
            self.fleet.step(self._h_ms / 1000)
            self.machine.step(self.fleet, self._h_ms / 1000)
            for burst in bursts:
                self._judge(burst)
            self._remember(now_ms)
        return truth

    def _remember(self, now_ms: int) -> None:
        """Feed the recorder's ring at 10 Hz."""
        self._fine_steps += 1
        if self._fine_steps % self._ring_every == 0:
            self._ring.record(now_ms, self.instruments.pre_crash())

    def _judge(self, burst: faults.Burst) -> None:
        """Let the recorder judge an impact; a crash goes out at once, on its own channel."""
        finding = pulse.judge(burst.accel)
        if finding is None:
            return
        i, motion = burst.fault.vehicle, self.fleet.state
        since_ms = burst.start_ms - round(self._h_ms) + finding.zero_ms % max(1, round(self._h_ms))
        zero_ms = self.scenario.start_ms + since_ms
        scene = recorder.Scene(
            vehicle_id=self.vehicle_ids[i], boot_id=self.scenario.start_ms, seq=int(self._crash_seq[i]),
            event_ms=zero_ms, lat_deg=float(motion.lat[i]), lon_deg=float(motion.lon[i]), belt_on=True,
            has_engine=not bool(self.machine.electric[i]), ignition_cycle=1000 + i,
        )  # fmt: skip
        self._crash_seq[i] += 1
        self.counts["crashes"] += 1
        payload = recorder.record(scene, self._ring.harvest(i, since_ms), finding)
        self.queue.put([link.Outgoing(zero_ms + 250, self._next_order(), i, "crash", payload)])

    def _truth(self, event: faults.Fault | faults.Burst) -> Truth:
        fault = event.fault if isinstance(event, faults.Burst) else event
        impact = isinstance(event, faults.Burst)
        onset_ms = event.start_ms if isinstance(event, faults.Burst) else fault.onset_ms
        begin = self.scenario.start_ms + onset_ms
        self.counts["begun_faults"] += 1
        ends = (
            None
            if self.scenario.frames_per_vehicle is None
            else self.scenario.start_ms + self.scenario.span_ms
        )
        return {
            "fault": fault.name, "vehicle_id": self.vehicle_ids[fault.vehicle], "from_ms": begin,
            "to_ms": begin if impact else ends, "severity": fault.severity, "details": fault.details,
        }  # fmt: skip

    def _emit(self, k: int, slot_ms: int) -> int:
        """Queue the frames of the vehicles whose turn it is; returns how many."""
        group = self._group(k % self.scenario.cadence.period)
        count = int(group.stop - group.start)
        if count == 0:
            return 0
        offset = self._offset_ms[group]
        fate, delay = self._fates.draw(count)
        t0 = slot_ms - (SAMPLES - 1) * self.scenario.cadence.dt_ms + offset
        due = slot_ms + offset + np.where(fate == 2, 0, delay)
        payloads = self._encode(group, fate, t0, due)
        self._seq[group] += 1
        self._queue_frames(group, fate, due, delay, payloads)
        self.counts["generated"] += count
        return count

    def _group(self, phase: int) -> slice:
        n, period = self.scenario.vehicles, self.scenario.cadence.period
        start, stop = n * phase // period, n * (phase + 1) // period
        if self.scenario.limit is not None:
            stop = min(stop, start + self.scenario.limit - self.counts["generated"])
        return slice(start, stop)

    def _encode(self, group: slice, fate: Ints, t0: Ints, due: Ints) -> list[bytes]:
        ahead, unset = fate == 5, fate == 6
        fix = np.where(ahead, link.CLOCK_2036_MS, np.where(unset, link.CLOCK_1970_MS, 0))
        wrong = ahead | unset
        since = t0 - self.scenario.start_ms + 60_000
        heads = Heads(
            self.scenario.start_ms, self.scenario.cadence.dt_ms, self._seq[group],
            np.where(wrong, fix + since, t0), np.where(wrong, fix + since + due - t0, due),
        )  # fmt: skip
        slow = self.instruments.slow()
        self.machine.state.crank_v[group] = np.inf
        codes = {f.vehicle: self._injector.codes(f.vehicle) for f in self._injector.active}
        return self._encoder.encode(
            group, self._samples.window(group), slow, self.instruments.flags(), codes, heads
        )

    def _queue_frames(self, group: slice, fate: Ints, due: Ints, delay: Ints, payloads: list[bytes]) -> None:
        fates, dues, delays = fate.tolist(), due.tolist(), delay.tolist()
        for k, payload in enumerate(payloads):
            name = link.name(fates[k])
            self.counts[name] += 1
            if name == "lost":
                continue
            vehicle = group.start + k
            self.queue.put([link.Outgoing(dues[k], self._next_order(), vehicle, "telemetry", payload, name)])
            if name == "duplicate":
                again = link.Outgoing(
                    dues[k] + delays[k], self._next_order(), vehicle, "telemetry", payload, name, copy=True
                )
                self.queue.put([again])
        for k in self._fates.poisoned(len(payloads)).tolist():
            vehicle = group.start + k
            bad = link.poison(self.counts["poison"], self.vehicle_ids[vehicle], payloads[k])
            self.counts["poison"] += 1
            self.queue.put([link.Outgoing(dues[k], self._next_order(), vehicle, "telemetry", bad, "poison")])


def _offsets(sc: Scenario) -> Ints:
    """Each vehicle's place within its slot: frames leave one by one, not in bursts; ms."""
    n, period, dt = sc.vehicles, sc.cadence.period, sc.cadence.dt_ms
    bounds = np.array([n * p // period for p in range(period + 1)])
    phase = np.searchsorted(bounds, np.arange(n), side="right") - 1
    size = np.maximum(bounds[phase + 1] - bounds[phase], 1)
    offsets: Ints = (np.arange(n) - bounds[phase]) * dt // size
    return offsets
