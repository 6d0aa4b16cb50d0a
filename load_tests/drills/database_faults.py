"""C7: PostgreSQL with a standby. The primary is killed amid COPY, and while the standby lags behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from infra.clients.db import session
from infra.contract.errors import ServiceError
from infra.stack import probes
from infra.stack.postgres import PostgresPair
from infra.stack.supervisor import COMMANDS, odograph
from load_tests.drills import pair_faults
from load_tests.drills.aggregates import accounted, balanced, windows
from load_tests.drills.alert_faults import CRASHES
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

PROGRAMS: Final = ("jobs", "events", "maintenance", "downlink", "watch", "dashboard")
READY_S: Final = 300.0
BEGIN_S: Final = 120.0
LASTING_S: Final = 3600.0
AGAIN_S: Final = 15.0
CATCH_S: Final = 120.0
LAG_BATCHES: Final = 2
LAG_S: Final = 20.0
OLD_S: Final = 5.0
TURN_S: Final = 0.05
ASYNCHRONOUS: Final = "asynchronous"
COPIES: Final = "SELECT count(*) FROM pg_stat_progress_copy WHERE command = 'COPY FROM'"
WAITS: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
SENDERS: Final = "SELECT pid FROM pg_stat_replication"
LINES: Final = "SELECT query_id, batch_id FROM odograph.batch_ledger"
OFFSETS: Final = "SELECT consumer, topic, partition, next_offset FROM odograph.consumer_offset"
COUNTS: Final = """
SELECT (SELECT count(*) FROM odograph.batch_ledger),
       (SELECT sum(next_offset) FROM odograph.consumer_offset),
       (SELECT count(*) FROM odograph.query_progress),
       (SELECT max(success_at) FROM odograph.maintenance_task),
       (SELECT max(at) FROM odograph.stage_sample),
       (SELECT max(expires_at) FROM odograph.lease WHERE name = 'downlink')
"""
COUNTED: Final = ("windows", "events", "progress", "maintenance", "watch", "lease")
CREATE: Final = "CREATE TABLE odograph.drill_row (n bigint PRIMARY KEY)"


@dataclass(slots=True)
class Witness:
    """Writes numbered rows and reads what is committed, as any client of the pair does."""

    url: str
    acknowledged: list[int] = field(default_factory=list)
    lines: set[tuple[str, int]] = field(default_factory=set)
    """Of the ledger, as far as they were seen."""
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    gap_s: float = 0.0
    """The longest time between two acknowledged rows."""
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While the block runs."""
        thread = threading.Thread(target=self._run, name="witness", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        number, last_s = 0, time.monotonic()
        while not self._stop.is_set():
            with suppress(psycopg.Error), session(self.url, autocommit=True) as connection:
                while not self._stop.wait(TURN_S):
                    number += 1
                    connection.execute("INSERT INTO odograph.drill_row VALUES (%s)", (number,))
                    self.acknowledged.append(number)
                    self.gap_s, last_s = max(self.gap_s, time.monotonic() - last_s), time.monotonic()
                    self.lines |= set(connection.execute(LINES))
                    self.offsets |= {(c, t, p): n for c, t, p, n in connection.execute(OFFSETS)}
            self._stop.wait(TURN_S)

    def missing(self) -> list[str]:
        """What was committed by now and is no more."""
        acknowledged, seen, known = {*self.acknowledged}, {*self.lines}, dict(self.offsets)
        with session(self.url) as connection:
            rows = {n for (n,) in connection.execute("SELECT n FROM odograph.drill_row")}
            lines = set(connection.execute(LINES).fetchall())
            offsets = {(c, t, p): n for c, t, p, n in connection.execute(OFFSETS)}
        back = sum(offsets.get(place, -1) < offset for place, offset in known.items())
        lost = len(acknowledged - rows), len(seen - lines), back
        return [f"{n} {of}" for n, of in zip(lost, ("rows", "batches", "offsets"), strict=True) if n]


@dataclass(slots=True)
class Failover:
    """What became of one: by what writes, how long until they go on, s."""

    fault: str
    again_s: dict[str, float]
    old_wrote: int
    lost: list[str]
    restarted: list[str]
    """Programs that had ended."""


def c7(site: Site, load: Load, mutant: str | None) -> Verdict:
    """Kill -9 the primary, promote the standby, bring the old one back; then the other way round."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    pair = site.cluster.pair
    if pair is None:
        raise ServiceError("drill: c7 needs two servers of PostgreSQL")
    if mutant == ASYNCHRONOUS:
        pair.synchronous = False
        pair.follow()
    with session(site.endpoints.db_owner_url) as connection:
        connection.execute(CREATE)
    site.bridge()
    for name in PROGRAMS:
        site.start(name, odograph(*COMMANDS[name]))
    for name in PROGRAMS:
        site.wait_ready(name, READY_S)
    site.simulate("c7", *Load(load.rate, LASTING_S, load.seed).arguments("--fault", f"crash={CRASHES:g}"))
    flows(site, "c7", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    witness = Witness(site.endpoints.db_owner_url)
    found = []
    with witness.at_work():
        for number in range(load.times):
            fault = (amid_copy, lagging)[number % 2]
            found.append(_failed_over(site, pair, witness, fault))
            site.say(f"{found[-1].fault}: writes again after {max(found[-1].again_s.values()):g} s")
    away = {name: probes.readyz(site.endpoints.http_ports[name]) for name in ("bridge", *PROGRAMS)}
    site.stop("c7")
    finish(site, "c7", BEGIN_S)
    return _judged(site, log, witness, found, away, mutant)


def amid_copy(site: Site, pair: PostgresPair) -> None:
    """Kill the primary while it takes in rows: the jobs stand still with a COPY that is not at its end."""
    end = time.monotonic() + CATCH_S
    while time.monotonic() < end:
        if not pair.row(pair.primary, COPIES)[0]:
            continue
        site.signal_group("jobs", signal.SIGSTOP)
        caught = pair.row(pair.primary, COPIES)[0]
        if caught:
            pair_faults.kill(pair)
        site.signal_group("jobs", signal.SIGCONT)
        if caught:
            return
    raise ServiceError(f"drill: no COPY was caught within {CATCH_S:g} s")


def lagging(site: Site, pair: PostgresPair) -> None:
    """Kill it when the standby gets nothing: commits wait for that one, or go on where it is asynchronous."""
    os.kill(pair.row(pair.primary, SENDERS)[0], signal.SIGSTOP)  # it sends nothing more
    before, end = _counts(site)[0], time.monotonic() + LAG_S
    while time.monotonic() < end and _counts(site)[0] < before + LAG_BATCHES:
        if pair.row(pair.primary, WAITS)[0]:
            break
        time.sleep(TURN_S)
    pair_faults.kill(pair)


def _failed_over(
    site: Site, pair: PostgresPair, witness: Witness, fault: Callable[[Site, PostgresPair], None]
) -> Failover:
    fault(site, pair)
    fallen_s = time.monotonic()
    pair_faults.promote(pair)
    before, again_s, restarted = _counts(site), dict[str, float](), list[str]()

    def all_again() -> bool:
        restarted.extend(_kept_running(site))
        for name, old, new in zip(COUNTED, before, _counts(site), strict=True):
            if new != old:
                again_s.setdefault(name, round(time.monotonic() - fallen_s, 1))
        return len(again_s) == len(COUNTED)

    with suppress(ServiceError):
        until(all_again, BEGIN_S, "everything writes again")
    for name in COUNTED:
        again_s.setdefault(name, BEGIN_S)
    pair_faults.bring_back(pair)
    wrote = _writes_at(pair, pair.standby)
    lost = witness.missing()
    pair_faults.rejoin(pair)
    return Failover(fault.__name__, again_s, wrote, lost, restarted)


def _kept_running(site: Site) -> list[str]:
    """Start what has ended again, as the supervisor does; its names.

    The jobs end where their ledger has lost batches, and make these good at their next start.
    """
    ended = [name for name in PROGRAMS if site.ended_by_itself(name)]
    for name in ended:
        site.start(name, odograph(*COMMANDS[name]))
    return ended


def _counts(site: Site) -> tuple[Any, ...]:
    with session(site.endpoints.db_owner_url) as connection:
        return connection.execute(COUNTS).fetchone() or ()


def _writes_at(pair: PostgresPair, server: str) -> int:
    """How many writes a server takes within ``OLD_S``, offered by whoever knows its own address only."""
    taken, end = 0, time.monotonic() + OLD_S
    while time.monotonic() < end:
        with suppress(psycopg.Error):
            pair.row(server, "INSERT INTO odograph.drill_row VALUES (-1) RETURNING n")
            taken += 1
        time.sleep(TURN_S)
    return taken


def _judged(
    site: Site, log: Log, witness: Witness, found: list[Failover], away: dict[str, str | None],
    mutant: str | None,
) -> Verdict:  # fmt: skip
    ledger = balanced(site)
    written = sent(site.home, "c7")
    missing = compare(log, written)
    equal = windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True)
    slowest = max(((s, name, each.fault) for each in found for name, s in each.again_s.items()))
    lost = [f"{each.fault}: {words}" for each in found for words in each.lost]
    wrote = sum(each.old_wrote for each in found)
    not_ready = [f"{name}: {why}" for name, why in away.items() if why]
    promises = (
        Promise("committed rows are intact", not lost and bool(witness.acknowledged),
                ", ".join(lost) or f"{len(witness.acknowledged)} rows, {len(witness.lines)} batches"),
        Promise(f"each writes again within {AGAIN_S:g} s", slowest[0] <= AGAIN_S,
                "{:g} s: {}, {}".format(*slowest)),
        Promise("the old primary takes no write", wrote == 0, f"{wrote}"),
        Promise("every program is ready", not not_ready, "; ".join(not_ready) or "all are"),
        *nothing_lost(missing),
        accounted(ledger),
        equal.promise(),
        trips(site, log),
    )  # fmt: skip
    figures: dict[str, Any] = counts(missing) | {each.fault: each.again_s for each in found}
    figures["restarted"] = [name for each in found for name in each.restarted]
    return Verdict("c7", promises, figures | {"client_gap_s": round(witness.gap_s, 1)}, mutant)
