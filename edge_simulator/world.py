"""One run's world, slot by slot; its messages follow from the scenario alone: no wall clock, no network."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from edge_simulator import faults
from edge_simulator.edr.recorder import BlackBoxes, Sealed
from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.ground_truth import GroundTruth
from edge_simulator.motion.mishaps import LimpHome
from edge_simulator.motion.town_day import Day
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.telemetry.emitter import Emitter
from edge_simulator.telemetry.instruments import Instruments
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.town.roads import RoadNetwork, region, towns
from edge_simulator.truth import Row, TruthLog
from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine

WARM_UP_MS = 21_000  # simulated before the start, so that the recorder's ring is full and traffic flows


@dataclass(slots=True)
class Slot:
    """What happened up to ``end_ms`` (exclusive) on the run's clock."""

    end_ms: int
    messages: list[Outgoing]
    truth: list[Row] = field(default_factory=list)
    crashes: list[Sealed] = field(default_factory=list)  # sealed now; their messages come when they are due


class World:
    """The simulated world of a scenario. ``counts`` says what was made, and what became of it."""

    def __init__(self, scenario: Scenario) -> None:
        sc = self.scenario = scenario
        part = (sc.first,) if sc.first else ()
        streams = [np.random.default_rng([sc.seed, k, *part]) for k in range(2, 8)]
        draw, motion, wear, noise, luck, radio = streams
        self.net: RoadNetwork = region(sc.seed, sc.lat_deg, sc.lon_deg, towns(sc.profile, sc.vehicles))
        self.specs = vehicles.Specs(vehicles.draw(draw, sc.vehicles))
        self.vehicle_ids = [vehicles.make(f"{sc.seed}/{sc.first + k}") for k in range(sc.vehicles)]
        models = [vehicles.MODELS[k] for k in self.specs.model]
        self.truth = TruthLog(self.vehicle_ids, sc.start_ms)
        begins_at_s = sc.begins_at_s - WARM_UP_MS / 1000
        day = sc.profile == "day"
        agenda = Day(self.net, self.specs, motion, begins_at_s, sc.weekday) if day else None
        self.fleet = Fleet(self.net, self.specs, motion, agenda)
        self.limp_home = LimpHome(self.fleet, self.truth)
        self._ground_truth = GroundTruth(self.truth, self.fleet, -WARM_UP_MS, sc.truth_edges)
        stood_s = self.fleet.t_s - self.fleet.state.parked_since_s
        soak_s = np.where(self.fleet.state.parked, stood_s, 0.0) if day else None
        self.machine = Machine(self.specs, wear, sc.ambient_c, soak_s)
        self.instruments = Instruments(self.fleet, self.machine, noise, sc.gnss, sc.sensors)
        endless = sc.frames_per_vehicle is None
        planned = faults.plan(sc.faults, self.machine, luck, sc.span_ms, endless=endless)
        coming = faults.arrivals(sc.faults, self.machine, luck)
        self._injector = faults.Injector(planned, self.fleet, self.machine, luck, coming, self.truth)
        self.emitter = Emitter(sc, self.vehicle_ids, models, self.instruments, radio, self.truth)
        self.counts = self.emitter.counts
        self.counts["planned_faults"] = len(planned)
        self._substeps = -(-sc.cadence.dt_ms // sc.longest_step_ms)
        self._h_ms = sc.cadence.dt_ms / self._substeps
        self._boxes = BlackBoxes(
            self.vehicle_ids, self.fleet, self.instruments, self._h_ms, sc.recorders, sc.sign
        )
        self._sealed: list[Sealed] = []
        self._warm = False

    def slots(self) -> Iterator[Slot]:
        """The run, one sample time after the other; held-back messages come with the slot they are due in."""
        sc, st = self.scenario, self.fleet.state
        dt, frames = sc.cadence.dt_ms, sc.frames_per_vehicle
        self.warm_up()
        last = None if frames is None else SAMPLES - 1 + sc.cadence.period * frames
        for k in itertools.count(1):
            if (last is not None and k > last) or self.emitter.limit_reached():
                return
            slot_ms = self.scenario.start_ms + k * dt
            self.machine.charging = self.fleet.charging()
            self._run_fine((k - 1) * dt, self._substeps)
            self.emitter.sample(dt / 1000)
            if k == 1:
                self.emitter.radio.begin(self.scenario.start_ms, st.lat, st.lon)
            self.emitter.radio.step(slot_ms, st.lat, st.lon, self.fleet.ignition_on())
            if k >= SAMPLES:
                self.emitter.emit(k, slot_ms, self._injector.codes)
            leaving = self.emitter.take(slot_ms + dt)
            sealed, self._sealed = self._sealed, []
            yield Slot(slot_ms + dt, leaving, self.truth.take(), sealed)

    def warm_up(self) -> None:
        """Simulate the time before the start, once: the recorder's ring is full then and traffic flows."""
        if not self._warm:
            self._warm = True
            self._run_fine(-WARM_UP_MS, max(1, round(WARM_UP_MS / self._h_ms)))
            self.truth.take()  # nobody was there to see what ended

    def begin_at(self, start_ms: int) -> None:
        """Set the run's start anew, before anything was made: all times are relative to it, boot ids stay."""
        self.scenario = self.emitter.scenario = self.scenario.model_copy(update={"start_ms": start_ms})
        self.truth.start_ms = start_ms

    def end(self, now_ms: int) -> tuple[list[Outgoing], list[Row]]:
        """What is left at a run's end: messages held back or on board, in order, and open truth."""
        rest, since_ms = sorted(self.emitter.flush(now_ms)), now_ms - self.scenario.start_ms
        self._ground_truth.close(since_ms)
        self._injector.close(since_ms)
        self.limp_home.close()
        return rest, self.truth.take()

    def _run_fine(self, from_ms: int, steps: int) -> None:
        """Physics in equal steps from ``from_ms`` after the start."""
        start_ms, h_s = self.scenario.start_ms, self._h_ms / 1000
        for k in range(steps):
            now_ms = from_ms + round((k + 1) * self._h_ms)
            begun = list(self._injector.due(now_ms))
            self.fleet.step(h_s)
            self.machine.step(self.fleet.state, self.fleet.ignition_on(), h_s)
            self._ground_truth.step(now_ms)
            self.limp_home.step(now_ms, h_s)
            for fault, felt in begun:
                self.counts["begun_faults"] += 1
                if felt is not None:
                    self._boxes.process_impact(fault.vehicle, felt, now_ms)
            for record in self._boxes.sealed(now_ms, start_ms, self.emitter.boot_id):
                self._sealed.append(record)  # it goes out at once, on its own channel
                self.counts["crashes"] += 1
                for payload in record.payloads:
                    self.emitter.crash(record.vehicle, record.due_ms, payload)
            self._boxes.sample(now_ms)
