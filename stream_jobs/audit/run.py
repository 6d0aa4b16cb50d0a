"""The audit as the command line asks for it: what is closed is balanced, what is younger is in flight.

What was received before the horizon is in archive, windows and dead letters' table; what came after it may be
absent from one of them, and that is no loss.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from infra.clients.db import asked, connected, sql_of
from infra.clients.kafka import LogEnds, identity
from infra.contract.errors import OdographError, ServiceError
from infra.contract.seq_ranges import Ranges
from infra.contract.topics import DEFERRED, kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.stack import query_offsets
from infra.stack.mosquitto import broker_figures
from stream_jobs.audit.archive import Clone, cloned_vehicles, horizon_ms
from stream_jobs.audit.collect import POLL_S, Account, collect, current_ledger
from stream_jobs.audit.edge import Device, ranges_by_device
from stream_jobs.audit.ledger import WHOLE, Ledger, Scope

SQL: Final = sql_of(__file__)

WINDOWS, ARCHIVE, EVENTS = "telemetry", "archive", "events"
TELEMETRY, DEAD_LETTER = "telemetry", "dead-letter"
READS: Final = {WINDOWS: TELEMETRY, ARCHIVE: TELEMETRY, DEFERRED: DEFERRED, EVENTS: DEAD_LETTER}
"""Consumers that an audit waits for, and the topic of each; DEFERRED is the archive's query once more."""
DISORDER_MS: Final = 2_000  # how far a partition's records lie out of order of receipt: the bridge's batches
RETRY_S: Final = 10.0  # a frame between broker and log is in no source: so long what lacks is asked for again

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Horizon:
    """All consumers have committed everything received before ``moment_ms``. ``committed`` and ``ends`` are
    next offsets by partition: of each consumer, of each topic.
    """

    moment_ms: int
    slowest: str
    committed: Mapping[str, Offsets]
    ends: Mapping[str, Offsets]
    log: str  # the log that the offsets of telemetry are places in

    def behind(self, consumer: str) -> int:
        """Records that it has not committed yet."""
        committed, ends = self.committed[consumer], self.ends[READS[consumer]]
        return sum(max(0, end - committed.get(p, 0)) for p, end in ends.items())


def current_horizon(settings: Settings, addresses: Endpoints) -> Horizon:
    """Raises ServiceError where a service is away, or a query with work to do has never finished a batch."""
    prefix = settings.kafka.prefix
    committed: dict[str, Offsets] = {}
    with connected(addresses.db_ingest_url) as database:
        newest = query_offsets.all_committed(database)
        for query in (WINDOWS, ARCHIVE, DEFERRED):  # before the log's ends: what comes meanwhile is in flight
            done = newest.get(ARCHIVE if query == DEFERRED else query)
            committed[query] = {} if done is None else done.ends.get(kafka_topic(prefix, READS[query]), {})
        committed[EVENTS] = dict(database.execute(SQL["next_offsets"], (EVENTS, DEAD_LETTER)).fetchall())
    now_ms = time.time_ns() // 1_000_000
    waiting = dict.fromkeys(READS, now_ms)  # receipt of the first record that waits; now where none does
    with LogEnds(addresses.kafka_bootstrap, prefix) as log:
        ends = {topic: log.ends(topic) for topic in set(READS.values())}
        generation = log.generation(log.topic(TELEMETRY))
        for consumer, topic in READS.items():
            for partition, end in ends[topic].items():
                begin = committed[consumer].get(partition, 0)
                first = next(iter(log.records(log.topic(topic), partition, begin, end)), None)
                if first is not None:
                    waiting[consumer] = min(waiting[consumer], first.received_ms)
    never = [query for query in (WINDOWS, ARCHIVE) if not committed[query] and any(ends[TELEMETRY].values())]
    if never:
        raise ServiceError(
            f"{' and '.join(never)} never finished a batch: nothing can be balanced yet; see: odograph status"
        )
    slowest = min(waiting, key=lambda consumer: waiting[consumer])
    moment_ms = waiting[slowest] - DISORDER_MS - settings.jobs.unwritten_ms
    return Horizon(moment_ms, slowest, committed, ends, generation)


def in_flight(settings: Settings, addresses: Endpoints, horizon: Horizon) -> dict[Device, Ranges]:
    """Frames in the log that archive or dead letters' table do not have yet, by device."""
    found: list[tuple[str, int, int]] = []
    with LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as log:
        for consumer in (ARCHIVE, DEFERRED, EVENTS):
            topic, committed = READS[consumer], horizon.committed[consumer]
            for partition, end in horizon.ends[topic].items():
                for record in log.records(log.topic(topic), partition, committed.get(partition, 0), end):
                    named = identity(record.value)
                    if named is not None and record.key is not None:
                        found.append((record.key, *named))
    return ranges_by_device(found)


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found. ``ledger``: the sums over everything since the start, where nothing is in flight;
    ``in_flight``: records asked for that are younger than the horizon: nothing can be said of them yet.
    """

    account: Account
    ledger: Ledger | None
    clones: Sequence[Clone]
    in_flight: int
    horizon: Horizon

    @property
    def residual(self) -> int:
        """The larger of both balances' residuals: frames and records unaccounted for."""
        account = self.account
        if self.ledger is None:
            return account.residual
        missing = max(0, self.ledger.missing_on_the_way)
        explained = min(missing, (account.broker_dropped or 0) + account.lost_with_session)
        return max(account.residual, self.ledger.residual - explained)


def audit(settings: Settings, addresses: Endpoints, wanted: Scope, wait_s: float) -> Audit:
    """Balance the part of a scope that is closed; waits at most ``wait_s`` until nothing of it is in flight.

    Raises ServiceError.
    """
    end_s = time.monotonic() + wait_s
    dropped: int | None = None
    with suppress(OdographError):  # an outer broker need not tell; what is missing stays unexplained then
        dropped = broker_figures(*addresses.brokers).dropped
    balanced = partial(collect, settings, addresses, broker_dropped=dropped)
    limits, window_ms = clock_limits(settings), settings.jobs.window_s * 1000
    ((dropped_ms,),) = asked(addresses.db_ingest_url, SQL["horizon"])
    expired_ms = horizon_ms(settings.paths.home, limits.ahead_ms, window_ms)
    known = [ms for ms in (dropped_ms, expired_ms) if ms is not None]
    wanted = wanted.kept(max(known, default=None), time.time_ns() // 1_000_000)
    if wanted.whole:
        quiet = _quiet(settings, addresses, balanced, end_s)
        if quiet is not None:
            return quiet
        wanted = replace(wanted, until_ms=time.time_ns() // 1_000_000)
    topic = kafka_topic(settings.kafka.prefix, TELEMETRY)
    retry_until_s = max(end_s, time.monotonic() + RETRY_S)
    while True:
        seen = current_horizon(settings, addresses)
        waiting = partial(in_flight, settings, addresses, seen)
        closed = wanted.closed(seen.moment_ms, limits.lateness_ms, window_ms)
        archived = (topic, seen.log, seen.committed[ARCHIVE])
        account = balanced(closed, asked_ms=wanted.until_ms, committed=archived, waiting=waiting)
        young = account.open_records
        young += seen.behind(ARCHIVE) if closed.until_ms < wanted.until_ms else 0
        settled = account.residual == 0 and (young == 0 or time.monotonic() > end_s)
        if settled or time.monotonic() > retry_until_s:
            return Audit(account, None, cloned_vehicles(settings.paths.home), young, seen)
        time.sleep(POLL_S)


def _quiet(
    settings: Settings, addresses: Endpoints, balanced: Callable[..., Account], end_s: float
) -> Audit | None:
    """The audit of everything, where two readings agree and nothing waits; None where data flows."""
    last: Ledger | None = None
    with LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as ends:
        while True:
            seen = current_horizon(settings, addresses)
            waits = any(seen.behind(consumer) for consumer in READS)
            now = None if waits else current_ledger(settings.paths.home, addresses, ends)
            over = time.monotonic() > end_s
            if now is not None and now == last and (now.residual == 0 or over):
                found = balanced(WHOLE, committed=(ends.topic(TELEMETRY), seen.log, ends.ends(TELEMETRY)))
                return Audit(found, now, cloned_vehicles(settings.paths.home), 0, seen)
            if over and (now is None or last not in (None, now)):
                return None
            last = now
            time.sleep(POLL_S)
