"""Applies planned faults to the physics as their time comes, and runs the vehicles' own diagnosis."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from edge_simulator.faults.kinds import KINDS
from edge_simulator.faults.model import Burst, Case, CodeSet, Event, Fault
from edge_simulator.faults.plan import Arrivals
from edge_simulator.geo import Bools
from edge_simulator.motion.fleet import Fleet
from edge_simulator.vehicle.machine import Machine

ON_ROAD_ABOVE_MPS = 7.0
TICK_MS = 1000  # faults that grow, end or set codes are looked at so often
NEVER_MS = 1 << 62
SECOND_SHARE = 0.95  # what the second of two hits in a row takes of the speed that is left


class Injector:
    """Applies faults as their time comes. Drained once a step; deterministic.

    ``rng`` rings the body in a crash; ``arrivals`` bring faults at a rate.
    """

    def __init__(
        self, faults: Sequence[Fault], fleet: Fleet, machine: Machine, rng: np.random.Generator,
        arrivals: Sequence[Arrivals] = (),
    ) -> None:  # fmt: skip
        self._fleet, self._machine, self._rng, self._arrivals = fleet, machine, rng, arrivals
        self._waiting = list(faults)
        self._taken = np.zeros(fleet.n, dtype=np.bool_)
        self._taken[[f.vehicle for f in faults]] = True
        self._running: list[Case] = []
        self.codes: dict[int, list[str]] = {}
        """Trouble codes that the vehicles' own diagnosis has set, by vehicle."""
        self._coded: list[CodeSet] = []
        self._begun = 0
        self._tick_ms = self._next_ms = NEVER_MS
        self._plan_next()

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
        for process in self._arrivals:
            while process.next_ms <= now_ms:
                free = ~self._taken & (self._driving() if process.kind.on_road else True)
                fault = process.draw(free, now_ms)
                if fault is not None:
                    yield self._begin(fault, now_ms)
        self._plan_next()

    def coded(self) -> list[CodeSet]:
        """Codes set since the last call, each fault's once."""
        found, self._coded = self._coded, []
        return found

    def _plan_next(self) -> None:
        waiting = [fault.onset_ms for fault in self._waiting[:1]]
        self._next_ms = min(self._tick_ms, *waiting, *(a.next_ms for a in self._arrivals), NEVER_MS)

    def _begin(self, fault: Fault, now_ms: int) -> Event:
        self._begun += 1
        self._taken[fault.vehicle] = True
        case = Case(fault, KINDS[fault.name], self._fleet, self._machine)
        _apply(case, fault.level(now_ms))
        burst = None
        if case.kind.impact is not None:
            burst = Burst(fault, now_ms, case.kind.impact(case, self._rng))
        if "again_after_ms" in fault.details:  # a second hit follows, on the same vehicle
            details = fault.details | {"share_of_speed": SECOND_SHARE, "impact": 2}
            at_ms = now_ms + details.pop("again_after_ms")
            self._waiting.append(replace(fault, onset_ms=at_ms, full_ms=at_ms, details=details))
            self._waiting.sort(key=lambda f: f.onset_ms)
        if case.busy:
            self._running.append(case)
            self._tick_ms = min(self._tick_ms, now_ms - now_ms % TICK_MS + TICK_MS)
        return Event(fault, f"{fault.name}-{self._begun}", burst)

    def _tick(self, now_ms: int) -> None:
        running, self._running = self._running, []
        for case in running:
            fault, kind = case.fault, case.kind
            if fault.end_ms is not None and fault.end_ms <= now_ms:  # the vehicle is sound again
                _apply(case, 0.0)
                if kind.mend is not None:
                    kind.mend(case)
                self._taken[fault.vehicle] = False
                self.codes.pop(fault.vehicle, None)
                continue
            if case.level < 1 or kind.keeps_on:
                _apply(case, fault.level(now_ms))
            self._diagnose(case, now_ms)
            if case.busy:
                self._running.append(case)
        self._tick_ms = now_ms - now_ms % TICK_MS + TICK_MS if self._running else NEVER_MS

    def _diagnose(self, case: Case, now_ms: int) -> None:
        kind, fault = case.kind, case.fault
        if kind.seen is None or (case.coded and kind.latched):
            return
        case.since_s = (now_ms - fault.onset_ms) / 1000
        if kind.seen(case):
            case.noticed_ms = now_ms if case.noticed_ms is None else case.noticed_ms
            case.coded = now_ms - case.noticed_ms >= 1000 * kind.seen_s
        else:
            case.noticed_ms, case.coded = None, False
        if not case.coded:
            self.codes.pop(fault.vehicle, None)
            return
        code = str(fault.details.get("code", kind.code))
        self.codes[fault.vehicle] = [code]
        self._coded += [] if case.reported else [CodeSet(fault, code, now_ms)]
        case.reported = True

    def _driving(self) -> Bools:
        motion = self._fleet.state
        driving: Bools = (motion.v > ON_ROAD_ABOVE_MPS) & ~motion.parked & ~motion.crashed
        return driving

    def _on_the_move(self, fault: Fault, now_ms: int) -> Fault | None:
        """The fault itself; on the road it goes to the next sound vehicle that drives, or to None."""
        if not KINDS[fault.name].on_road or fault.details.get("impact") == 2:
            return fault
        driving = self._driving()
        fit = driving & ~self._taken
        fit[fault.vehicle] = driving[fault.vehicle]
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


def _apply(case: Case, level: float) -> None:
    case.before, case.level = case.level, level
    if case.kind.apply is not None:
        case.kind.apply(case)
