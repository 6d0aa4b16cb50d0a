"""Applies planned faults to the physics as their time comes, and runs the vehicles' own diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_simulator.faults import road
from edge_simulator.faults.kinds import KINDS
from edge_simulator.faults.model import Burst, CodeSet, Event, Fault, Kind, Scene
from edge_simulator.faults.plan import Arrivals
from edge_simulator.geo import Bools
from edge_simulator.motion.fleet import Fleet
from edge_simulator.vehicle.machine import Machine

ON_ROAD_ABOVE_MPS = 7.0
TICK_MS = 1000  # faults that grow, end or set codes are looked at so often
NEVER_MS = 1 << 62


@dataclass(slots=True)
class _Running:
    """A fault that has begun, and what the vehicle's own diagnosis knows of it."""

    fault: Fault
    kind: Kind
    level: float = 0.0
    noticed_ms: int | None = None
    coded: bool = False
    reported: bool = False  # its code was set once, and is in the ground truth

    @property
    def busy(self) -> bool:
        """Whether it has to be looked at again."""
        changes = self.level < 1 or self.kind.keeps_on or self.fault.end_ms is not None
        return changes or (self.kind.seen is not None and not (self.coded and self.kind.latched))

    def over(self, now_ms: int) -> bool:
        """Whether its time is up."""
        return self.fault.end_ms is not None and self.fault.end_ms <= now_ms


class Injector:
    """Applies faults as their time comes. Drained once a step; deterministic.

    ``rng`` rings the body in a crash; ``arrivals`` bring faults at a rate.
    """

    def __init__(
        self, faults: Sequence[Fault], fleet: Fleet, machine: Machine, rng: np.random.Generator,
        arrivals: Sequence[Arrivals] = (),
    ) -> None:  # fmt: skip
        self._waiting = list(faults)
        self._fleet = fleet
        self._scene = Scene(fleet, machine)
        self._rng = rng
        self._arrivals = arrivals
        self._taken = np.zeros(fleet.n, dtype=np.bool_)
        self._taken[[f.vehicle for f in faults]] = True
        self._running: list[_Running] = []
        self.codes: dict[int, list[str]] = {}
        """Trouble codes that the vehicles' own diagnosis has set, by vehicle."""
        self._coded: list[CodeSet] = []
        self._begun = 0
        self._tick_ms = NEVER_MS
        self._next_ms = self._soonest()

    def due(self, now_ms: int) -> Iterator[Event]:
        """Faults that begin now. Grows, ends and diagnoses the others about once a second on the way."""
        if now_ms < self._next_ms or now_ms <= 0:
            return
        if now_ms >= self._tick_ms:
            self._tick(now_ms)
        for planned in [f for f in self._waiting if f.onset_ms <= now_ms]:
            fault = self._on_the_move(planned, now_ms)
            if fault is not None:
                self._waiting.remove(planned)
                yield self._begin(fault, now_ms)
        for fault in self._arrived(now_ms):
            yield self._begin(fault, now_ms)
        self._next_ms = self._soonest()

    def coded(self) -> list[CodeSet]:
        """Codes set since the last call, each fault's once."""
        found, self._coded = self._coded, []
        return found

    def _soonest(self) -> int:
        waiting = self._waiting[0].onset_ms if self._waiting else NEVER_MS
        return min(waiting, self._tick_ms, *(a.next_ms for a in self._arrivals), NEVER_MS)

    def _begin(self, fault: Fault, now_ms: int) -> Event:
        self._begun += 1
        self._taken[fault.vehicle] = True
        running = _Running(fault, KINDS[fault.name])
        self._apply(running, running.fault.level(now_ms))
        felt = road.impact(self._scene, fault, self._rng)
        burst = None if felt is None else Burst(fault, now_ms, felt)
        again = road.second_impact(fault, now_ms)
        if again is not None:
            self._waiting = sorted([*self._waiting, again], key=lambda f: f.onset_ms)
        if running.busy:
            self._running.append(running)
            self._tick_ms = min(self._tick_ms, now_ms - now_ms % TICK_MS + TICK_MS)
        return Event(fault, f"{fault.name}-{self._begun}", burst)

    def _tick(self, now_ms: int) -> None:
        """Grow, diagnose and end what is under way."""
        for running in self._running:
            if running.over(now_ms):
                self._end(running)
                continue
            if running.level < 1 or running.kind.keeps_on:
                self._apply(running, running.fault.level(now_ms))
            self._diagnose(running, now_ms)
        self._running = [r for r in self._running if r.busy and not r.over(now_ms)]
        self._tick_ms = now_ms - now_ms % TICK_MS + TICK_MS if self._running else NEVER_MS

    def _apply(self, running: _Running, level: float) -> None:
        before, running.level = running.level, level
        if running.kind.apply is not None:
            running.kind.apply(self._scene, running.fault, level, before)

    def _end(self, running: _Running) -> None:
        """Take the cause away and repair what it left; the vehicle is sound again."""
        self._apply(running, 0.0)
        if running.kind.mend is not None:
            running.kind.mend(self._scene, running.fault)
        self._taken[running.fault.vehicle] = False
        self.codes.pop(running.fault.vehicle, None)

    def _diagnose(self, running: _Running, now_ms: int) -> None:
        kind, fault = running.kind, running.fault
        if kind.seen is None or (running.coded and kind.latched):
            return
        if kind.seen(self._scene, fault, (now_ms - fault.onset_ms) / 1000):
            running.noticed_ms = now_ms if running.noticed_ms is None else running.noticed_ms
            running.coded = now_ms - running.noticed_ms >= 1000 * kind.seen_s
        else:
            running.noticed_ms, running.coded = None, False
        if running.coded:
            code = str(fault.details.get("code", kind.code))
            self.codes[fault.vehicle] = [code]
            self._coded += [] if running.reported else [CodeSet(fault, code, now_ms)]
            running.reported = True
        else:
            self.codes.pop(fault.vehicle, None)

    def _driving(self) -> Bools:
        motion = self._fleet.state
        driving: Bools = (motion.v > ON_ROAD_ABOVE_MPS) & ~motion.parked & ~motion.crashed
        return driving

    def _on_the_move(self, fault: Fault, now_ms: int) -> Fault | None:
        """The fault itself; on the road it goes to the next sound vehicle that drives, or to None."""
        if not KINDS[fault.name].on_road or fault.details.get("impact") == 2:
            return fault
        fit = self._driving()
        own = fit[fault.vehicle]
        fit &= ~self._taken
        fit[fault.vehicle] = own
        order = np.roll(np.arange(len(fit)), -fault.vehicle)
        found = order[fit[order]]
        if not len(found):
            return None
        self._taken[fault.vehicle] = False
        later = now_ms - fault.onset_ms
        end_ms = None if fault.end_ms is None else fault.end_ms + later
        return replace(
            fault, vehicle=int(found[0]), onset_ms=now_ms, full_ms=fault.full_ms + later, end_ms=end_ms
        )

    def _arrived(self, now_ms: int) -> Iterator[Fault]:
        for process in self._arrivals:
            while process.next_ms <= now_ms:
                free = ~self._taken & (self._driving() if process.kind.on_road else True)
                fault = process.draw(free, now_ms)
                if fault is not None:
                    yield fault
