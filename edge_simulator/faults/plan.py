"""Which faults a run shall have, who gets which, when and how badly, all from the seed; and their coming.

Times count from the run's start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, repeat, takewhile
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from edge_simulator.edr.pulse import SAMPLE_HZ, Pulse
from edge_simulator.faults.kinds import KINDS, Case, Fault, Needs, Span
from edge_simulator.geo import Bools, Floats
from edge_simulator.motion.fleet import Fleet
from edge_simulator.truth import TruthLog
from edge_simulator.vehicle.machine import Machine
from edge_simulator.wireless.settings import Amount, Share
from infra.contract.errors import ConfigError

HOW_MANY = ("count", "share", "rate", "vehicle")
FORMS = "NAME=3 (vehicles), NAME=0.02 (share of the fleet) or NAME@5 (a 1000 vehicle-hours)"


def _in_order(span: Span) -> Span:
    if span[0] > span[1]:
        raise ValueError("the first number is larger than the second")
    return span


Count = Annotated[int, Field(ge=0, strict=True)]
Seconds = Annotated[tuple[Amount, Amount], AfterValidator(_in_order)]


@dataclass(frozen=True, slots=True, config={"extra": "forbid"})
class Wanted:
    """Faults of one name. Exactly one of ``count``, ``share``, ``rate`` and ``vehicle`` says how many.

    ``share`` is of the fleet, 0..1; ``rate`` is events in 1000 vehicle-hours of vehicles that can have it, by
    a Poisson process over the whole run; ``vehicle`` is the index of one that has it. ``onset_s`` counts
    from the run's start. ``lasts_s`` after full effect the fault is gone. A text as in FORMS does too; any
    other raises ConfigError.
    """

    name: str
    count: Count | None = None
    share: Share | None = None
    rate: Annotated[Amount, Field(gt=0)] | None = None
    onset_s: Seconds | None = None
    severity: Annotated[tuple[Share, Share], AfterValidator(_in_order)] = (0.6, 1.0)
    vehicle: Count | None = None
    lasts_s: Seconds | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, entry: Any) -> Any:
        if not isinstance(entry, str):
            return entry
        name, sign, amount = entry.partition("@" if "@" in entry else "=")
        if name not in KINDS:
            raise ConfigError(f"--fault {entry}: no fault {name!r}; there are {', '.join(KINDS)}")
        try:
            value = float(amount)
        except ValueError:
            value = -1.0
        if sign == "@" and 0 < value < float("inf"):
            return {"name": name, "rate": value}
        if sign == "=" and 0 < value < 1:
            return {"name": name, "share": value}
        if sign == "=" and value >= 0 and value.is_integer():
            return {"name": name, "count": int(value)}
        raise ConfigError(f"--fault {entry}: wanted is {FORMS.replace('NAME', name)}")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.name not in KINDS:
            raise ValueError(f"no fault {self.name!r}; there are {', '.join(KINDS)}")
        if sum(getattr(self, key) is not None for key in HOW_MANY) != 1:
            raise ValueError(f"fault {self.name}: exactly one of {', '.join(HOW_MANY)} is wanted")
        if self.rate is not None and self.onset_s is not None:
            raise ValueError(
                f"fault {self.name}: a rate goes on all the time, onset_s has no meaning with it"
            )
        return self


ONSET_SHARE: Span = (0.1, 0.45)  # of a run, where onsets fall unless said otherwise
GROWS_WITHIN_SHARE = 0.15  # of a run that ends: a fault grows faster rather than that nobody sees it
REPAIRED_S: Span = (3600.0, 4 * 3600.0)
"""After full effect, for faults that come at a rate: else all would be broken in the end (eng.)."""
PER_1000_VEHICLE_HOURS_MS = 3.6e9


def _able(needs: Needs, machine: Machine) -> Bools:
    """Which vehicles can have it, [n_vehicles]. A hybrid has both an engine and a pack."""
    engine, diesel, specs = ~machine.electric, machine.diesel, machine.specs
    found: dict[Needs, Bools] = {
        "any": np.ones_like(engine), "engine": engine, "petrol": engine & ~diesel, "diesel": engine & diesel,
        "gears": engine & (specs.gears > 1), "pack": specs("motor_kw") > 0,
    }  # fmt: skip
    return found[needs]


def plan(
    wanted: Sequence[Wanted], machine: Machine, rng: np.random.Generator, span_ms: int, *,
    endless: bool = False,
) -> list[Fault]:  # fmt: skip
    """The faults of a run by count, share and vehicle, each on its own vehicle; none that come at a rate.

    Onsets fall in the first half of ``span_ms``; unless ``endless``, a fault is complete 0.15 of it later.
    Raises ConfigError where there are more faults than vehicles that can have them.
    """
    free = np.ones(len(machine.electric), dtype=np.bool_)
    chosen = {k: _vehicles(w, machine, free, rng) for k, w in enumerate(wanted) if w.vehicle is not None}
    most_s = None if endless else GROWS_WITHIN_SHARE * span_ms / 1000
    faults: list[Fault] = []
    for k, want in enumerate(wanted):
        if want.rate is not None:
            continue
        low, high = want.onset_s or (span_ms * ONSET_SHARE[0] / 1000, span_ms * ONSET_SHARE[1] / 1000)
        faults += [
            _fault(want, vehicle, int(1000 * rng.uniform(low, high)), rng, most_s)
            for vehicle in (chosen[k] if k in chosen else _vehicles(want, machine, free, rng))
        ]
    return sorted(faults, key=lambda f: (f.onset_ms, f.vehicle))


def _vehicles(want: Wanted, machine: Machine, free: Bools, rng: np.random.Generator) -> list[int]:
    """Who gets it: the vehicle that is named, or as many as are wanted; they are not ``free`` any more."""
    able, vehicle = _able(KINDS[want.name].needs, machine), want.vehicle
    if vehicle is not None:
        if vehicle >= len(free) or not able[vehicle]:
            what = f"vehicle {vehicle} cannot have it, or there is no such vehicle"
            raise ConfigError(f"fault {want.name}: {what}")
        if not free[vehicle]:
            raise ConfigError(f"fault {want.name}: vehicle {vehicle} has a fault already; one is the most")
        found = [vehicle]
    else:
        count = want.count if want.count is not None else round((want.share or 0.0) * len(free))
        candidates = np.flatnonzero(free & able)
        if count > len(candidates):
            left = f"only {len(candidates)} are left that can have it"
            raise ConfigError(f"fault {want.name}: {count} wanted, but {left}")
        found = np.sort(rng.choice(candidates, count, replace=False)).tolist()
    free[found] = False
    return found


def _fault(
    want: Wanted, vehicle: int, onset_ms: int, rng: np.random.Generator, most_s: float | None
) -> Fault:
    """One fault, all of it drawn. ``most_s`` bounds the time it takes to grow."""
    kind = KINDS[want.name]
    severity = round(float(rng.uniform(*want.severity)), 2)
    details = kind.draw(severity, rng)
    takes_s = float(rng.uniform(*kind.takes_s))
    if most_s is not None:
        takes_s = min(takes_s, max(most_s, kind.least_s))
    full_ms = onset_ms + round(1000 * takes_s)
    lasts_s, luck = details.get("lasts_s"), float(rng.random())
    span = want.lasts_s or kind.lasts_s or (REPAIRED_S if want.rate is not None else None)
    if lasts_s is None and span is not None and not kind.for_good:
        lasts_s = span[0] + luck * (span[1] - span[0])
    end_ms = None if lasts_s is None else full_ms + round(1000 * lasts_s)
    return Fault(want.name, vehicle, onset_ms, severity, details, full_ms, end_ms)


class Arrivals:
    """Faults of one name that come at a rate as long as the run goes on: a Poisson process."""

    def __init__(self, want: Wanted, machine: Machine, rng: np.random.Generator) -> None:
        self.kind, self._want, self._rng = KINDS[want.name], want, rng
        self._able = _able(self.kind.needs, machine)
        if not self._able.any():
            raise ConfigError(f"fault {want.name}: no vehicle of this run can have it")
        mean_ms = PER_1000_VEHICLE_HOURS_MS / ((want.rate or 0.0) * int(self._able.sum()))
        self._times_ms = accumulate(map(rng.exponential, repeat(mean_ms)))
        self.next_ms = 1 + int(next(self._times_ms))

    def draw(self, free: Bools, now_ms: int) -> Fault | None:
        """The fault that has come, on one of the ``free`` vehicles; None where there is none left."""
        onset_ms = now_ms if self.kind.on_road else self.next_ms
        self.next_ms = 1 + int(next(self._times_ms))
        candidates = np.flatnonzero(free & self._able)
        if not len(candidates):
            return None
        vehicle = int(self._rng.choice(candidates))
        return _fault(self._want, vehicle, onset_ms, self._rng, None)


def arrivals(wanted: Sequence[Wanted], machine: Machine, rng: np.random.Generator) -> list[Arrivals]:
    """The processes of what comes at a rate, each with a stream of random numbers of its own."""
    rated = [want for want in wanted if want.rate is not None]
    return [Arrivals(want, machine, own) for want, own in zip(rated, rng.spawn(len(rated)), strict=True)]


ON_ROAD_ABOVE_MPS = 7.0
TICK_MS = 1000  # faults that grow, end or set codes are looked at so often
SECOND_SHARE = 0.95  # what the second of two hits in a row takes of the speed that is left


class Injector:
    """Applies faults as their time comes. Drained once a step; deterministic.

    ``rng`` rings the body in a crash; ``arrivals`` bring faults at a rate. ``truth`` is told of a fault when
    it begins, of its code when that is set first, and in the end for how long the engine ran with a fault of
    it, for only then can anybody see such a fault.
    """

    def __init__(
        self, faults: Sequence[Fault], fleet: Fleet, machine: Machine, rng: np.random.Generator,
        arrivals: Sequence[Arrivals], truth: TruthLog,
    ) -> None:  # fmt: skip
        self._fleet, self._machine, self._rng, self._arrivals = fleet, machine, rng, arrivals
        self._truth = truth
        self._waiting = list(faults)
        self._taken = np.zeros(fleet.n, dtype=np.bool_)
        self._taken[[f.vehicle for f in faults]] = True
        self._running: list[Case] = []
        self.codes: dict[int, list[str]] = {}
        """Trouble codes that the vehicles' own diagnosis has set, by vehicle."""
        self._with_engine: dict[int, tuple[Fault, Floats]] = {}
        """Faults of engines, and how long each had run before (``_ran_s``), by vehicle: one at most."""
        self._begun = self._second = 0

    def due(self, now_ms: int) -> Iterator[tuple[Fault, Pulse | None]]:
        """Faults that begin now, and what hits their vehicles, if anything does.

        Grows, ends and diagnoses the others about once a second on the way.
        """
        if now_ms <= 0:
            return
        if now_ms // TICK_MS != self._second:
            self._second = now_ms // TICK_MS
            self._tick(now_ms)
        for planned in list(takewhile(lambda fault: fault.onset_ms <= now_ms, self._waiting)):
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

    def close(self, now_ms: int) -> None:
        """The truth of engines with the faults that are there at a run's end."""
        for vehicle in [*self._with_engine]:
            self._engine_ran(vehicle, now_ms)

    def _engine_ran(self, vehicle: int, until_ms: int) -> None:
        fault, before_s = self._with_engine.pop(vehicle)
        ran_s, warm_s = (self._ran_s(vehicle) - before_s).round(1).tolist()
        which = {"what": fault.name, "engine_s": ran_s, "warm_s": warm_s}
        self._truth.add("engine", vehicle, fault.onset_ms, until_ms, **which)

    def _ran_s(self, vehicle: int) -> Floats:
        """How long an engine has run since the start, in all and warm, s; [2]."""
        return np.array([self._machine.engine_s[vehicle], self._machine.warm_s[vehicle]])

    def _begin(self, fault: Fault, now_ms: int) -> tuple[Fault, Pulse | None]:
        self._begun += 1
        self._taken[fault.vehicle] = True
        case = Case(fault, KINDS[fault.name], self._fleet, self._machine)
        if case.kind.needs not in ("any", "pack"):
            self._with_engine[fault.vehicle] = (fault, self._ran_s(fault.vehicle))
        _apply(case, fault.level(now_ms))
        felt = None if case.kind.impact is None else case.kind.impact(case, self._rng)
        shown = fault.details
        if felt is not None:
            shown = shown | {"delta_v_kmh": round(float(felt.long.sum()) / SAMPLE_HZ * 3.6, 1)}
        self._truth.add(
            "fault", fault.vehicle, fault.onset_ms, fault.end_ms, fault_id=f"{fault.name}-{self._begun}",
            fault=fault.name, full_ms=self._truth.start_ms + fault.full_ms, severity=fault.severity,
            details=shown,
        )  # fmt: skip
        if "again_after_ms" in fault.details:  # a second hit follows, on the same vehicle
            details = fault.details | {"share_of_speed": SECOND_SHARE, "impact": 2}
            at_ms = now_ms + details.pop("again_after_ms")
            self._waiting.append(replace(fault, onset_ms=at_ms, full_ms=at_ms, details=details))
            self._waiting.sort(key=lambda f: f.onset_ms)
        self._running.append(case)
        return fault, felt

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
                if fault.vehicle in self._with_engine:
                    self._engine_ran(fault.vehicle, fault.end_ms)
                continue
            if case.level < 1 or kind.keeps_on:
                _apply(case, fault.level(now_ms))
            self._diagnose(case, now_ms)
            self._running.append(case)

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
        if not case.reported:
            details = {"code": code, "fault": fault.name}
            self._truth.add("code", fault.vehicle, now_ms, fault.end_ms, what="code", details=details)
        case.reported = True

    def _driving(self) -> Bools:
        motion = self._fleet.state
        return (motion.v > ON_ROAD_ABOVE_MPS) & ~motion.parked & ~motion.crashed

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
