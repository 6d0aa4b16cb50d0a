"""``odograph bench`` from the first service to the card."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edge_simulator.scenario import SAMPLES
from edge_simulator.town.roads import region, towns
from infra.demo.run import LAT_DEG, LON_DEG, Fleet, running
from infra.settings.settings import Endpoints, Settings
from infra.sql import queries
from infra.stack.access.devices import GATEWAY_VEHICLES
from infra.stack.stack import Stack
from load_tests.bench import costs, machine, parts, search
from load_tests.bench.bottleneck import Limit
from load_tests.bench.card import Card, Carried
from load_tests.bench.carried import carried, limits
from load_tests.bench.load import ARCHIVE, CONFIRMED_GROWTH, STAGE_GROWTH, Seen, drained, driving, watch
from load_tests.bench.search import Tried
from load_tests.bench.ticks import rate_of
from load_tests.bench.watch import Chain, Say, chain
from load_tests.probes import CrashProbe, ViewProbe
from stream_jobs.audit.collect import current_ledger, settled_ledger
from stream_jobs.audit.ledger import Ledger

SETTLE_S = 120.0
STAGE_SETTLE_S, STAGE_S = 12.0, 30.0
SHORTEST_CONFIRMATION_S = 60.0
IDLE_S = 10.0
CLOSING_S = 75.0
"""Kept for the ledger and for stopping all."""
AT_10_HZ = "vehicles at 10 Hz, a frame of 10 samples a second each"
LOAD_NOTE = "open loop, {}, no link faults, no failures, all over {}; beside them 2 crash records a second"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is to do. Times in s. ``rate`` None: find the highest."""

    rate: float | None
    vehicles: int | None
    seed: int
    duration_s: float
    warm_up_s: float
    first: float
    highest: float
    soak_s: float
    soak_share: float
    at_most_s: float
    command: str


@dataclass(slots=True)
class Session:
    """A run in a running pipeline; ``say`` is told each step."""

    wanted: Wanted
    chain: Chain
    say: Say
    begun_s: float
    stages: list[Tried] = field(default_factory=list)
    limits: Sequence[Limit] = ()
    limits_at: float = 0.0
    notes: list[str] = field(default_factory=list)

    def left_s(self) -> float:
        """Time until the run must be at its end."""
        return self.begun_s + self.wanted.at_most_s - time.monotonic()

    def fleet(self, rate: float) -> Fleet:
        """A fleet for a rate: 10 Hz vehicles, or as many as were asked for; its road is the same for all."""
        run_id = f"bench-{time.time_ns() // 1_000_000}"
        vehicles = self.wanted.vehicles or max(1, round(rate))
        return Fleet(vehicles, rate, self.wanted.seed, run_id, link={}, faults=())

    def warm_up(self, rate: float) -> None:
        """Load while Java compiles what it needs; what fell behind is taken in before the first figure."""
        with driving(self.chain.home, self.fleet(rate), self.say):
            time.sleep(self.wanted.warm_up_s)

    def stage(self, rate: float) -> Tried:
        """Try a rate for half a minute."""
        drained(self.chain, self.say)
        load = self.fleet(rate)
        with driving(self.chain.home, load, self.say):
            seen = watch(self.chain, load, STAGE_SETTLE_S, STAGE_S, STAGE_GROWTH, self.say, f"{rate:,.0f}/s")
        tried = Tried(rate, seen.verdict, round(_taken(seen), 1))
        if tried.verdict != "held":
            self._note_limits(seen)
        self.say(f"{rate:,.0f} frames/s: {tried.verdict}; taken in {tried.taken_per_s:,.0f}/s")
        self.stages.append(tried)
        return tried

    def steady(self, rate: float, seconds: float, label: str, *, endure: bool = False) -> Carried:
        """Watch a rate for long, with latencies; see ``watch``."""
        drained(self.chain, self.say)
        load = self.fleet(rate)
        with (
            driving(self.chain.home, load, self.say),
            ViewProbe(self.chain.endpoints) as view,
            CrashProbe(self.chain.settings, self.chain.endpoints) as crash,
        ):
            time.sleep(STAGE_SETTLE_S)
            view.values_ms.clear()
            crash.values_ms.clear()
            seen = watch(self.chain, load, 0.0, seconds, CONFIRMED_GROWTH, self.say, label, endure=endure)
        batches = self._batches(seen)
        if not self.limits:
            self._note_limits(seen)
        return carried(seen, batches, view.values_ms, crash.values_ms)

    def _note_limits(self, seen: Seen) -> None:
        self.limits = limits(seen, self._batches(seen), self.chain.settings)
        self.limits_at = seen.rate

    def _batches(self, seen: Seen) -> list[dict[str, object]]:
        return self.chain.batches(seen.began_wall_s, seen.began_wall_s + seen.seconds)


def _taken(seen: Seen) -> float:
    """Records/s whose results came in, by the slowest query; the archive's come too rarely to tell."""
    rates = [rate_of(seen.ticks, query) for query in seen.ticks[-1].committed if query != ARCHIVE]
    return min(rates, default=0.0)


def bench(settings: Settings, wanted: Wanted, say: Say) -> Card:
    """Start the pipeline, load it, measure, let it settle, take the ledger; the card."""
    begun_s = time.monotonic()
    home = settings.paths.home.resolve()
    with running(settings, say) as endpoints, chain(home, settings, endpoints) as doors:
        session = Session(wanted, doors, say, begun_s)
        count = session.fleet(wanted.rate or wanted.first).vehicles
        net = region(wanted.seed, LAT_DEG, LON_DEG, towns("steady", count))
        queries.store_roads(endpoints.db_ingest_url, f"city-{wanted.seed}", net.edges())
        before = settled_ledger(home, endpoints, doors.ends, SETTLE_S)
        sizes = costs.sizes(home, settings, endpoints)
        sustained = _sustained(session)
        soak = _soaked(session, sustained)
        ledger = _settled(doors, before)
        grown = costs.sizes(home, settings, endpoints) - sizes
        spent = costs.costs(grown, ledger.appended, costs.payload_bytes(home), SAMPLES)
        card = _card(session, endpoints, sustained, soak, ledger.residual, spent)
        return replace(card, idle_cores=_idle(doors, say), secure=Stack(settings, say).secure)


def _idle(doors: Chain, say: Say) -> dict[str, float]:
    """Cores of each part while nothing flows: what it costs to be there."""
    say(f"nothing flows: {IDLE_S:g} s")
    before = parts.cpu_s(doors.home)
    time.sleep(IDLE_S)
    after = parts.cpu_s(doors.home)
    return {name: round((after[name] - before[name]) / IDLE_S, 3) for name in after if name in before}


def _card(
    session: Session,
    endpoints: Endpoints,
    sustained: Carried | None,
    soak: Carried | None,
    residual: int,
    spent: costs.Costs,
) -> Card:
    fixed = session.wanted.vehicles
    fleet = f"{fixed:,} vehicles at whatever rate, frames of {SAMPLES} samples" if fixed else AT_10_HZ
    gateways = f"one MQTT connection for each {GATEWAY_VEHICLES} vehicles, with a certificate"
    return Card(
        date=machine.today(),
        commit=machine.commit(),
        command=session.wanted.command,
        machine=machine.machine(),
        versions=machine.versions(endpoints),
        load=LOAD_NOTE.format(fleet, gateways if endpoints.device_port else "one MQTT connection"),
        sustained=sustained,
        limits=session.limits,
        limits_at=session.limits_at,
        stages=session.stages,
        costs=spent,
        residual=residual,
        soak=soak,
        notes=session.notes,
    )


def _sustained(session: Session) -> Carried | None:
    wanted = session.wanted
    session.warm_up(wanted.rate or wanted.first)
    if wanted.rate is not None:
        return session.steady(wanted.rate, wanted.duration_s, "measured")
    _climb(session)
    rate = search.best(session.stages)
    while rate:
        seconds = min(wanted.duration_s, session.left_s() - CLOSING_S - STAGE_SETTLE_S)
        if seconds < SHORTEST_CONFIRMATION_S:
            session.notes.append("no time was left for a confirmation: see --at-most")
            return None
        if seconds < wanted.duration_s:
            session.notes.append(f"confirmed for {seconds:.0f} s only: no more time was left")
        found = session.steady(rate, seconds, "confirming")
        if found.verdict == "held":
            return found
        session.notes.append(
            f"{rate:,.0f} frames/s held for {STAGE_S:g} s, not in the confirmation ({found.verdict})"
        )
        rate = search.after_failed_confirmation(rate)
    return None


def _climb(session: Session) -> None:
    """Stages upward until the search is over or only the confirmation's time is left."""
    wanted = session.wanted
    stage_s = STAGE_SETTLE_S + STAGE_S + 20.0
    while (rate := search.next_rate(session.stages, wanted.first, wanted.highest)) is not None:
        if session.left_s() <= wanted.duration_s + CLOSING_S + stage_s:
            session.notes.append("the search stopped for lack of time: see --at-most")
            return
        session.stage(rate)


def _soaked(session: Session, sustained: Carried | None) -> Carried | None:
    wanted = session.wanted
    if not wanted.soak_s or sustained is None:
        return None
    rate = wanted.soak_share * sustained.frames_per_s
    return session.steady(round(rate), wanted.soak_s, "soak", endure=True)


def _settled(doors: Chain, before: Ledger) -> Ledger:
    """The run's ledger once its residual is 0, or as it was first read after the deadline.

    One takes minutes after hours of load; that which began while frames were on their way is not the last.
    """
    end = time.monotonic() + SETTLE_S
    while True:
        begun = time.monotonic()
        ledger = current_ledger(doors.home, doors.endpoints, doors.ends) - before
        if ledger.residual == 0 or begun > end:
            return ledger
        time.sleep(1.0)
