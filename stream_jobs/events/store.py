"""The event store: alerts, crash records, status messages and dead letters from Kafka into the database.

Rows and the offsets after them are one transaction, and the database's offsets are the only truth: what was
stored is never stored again, what was not is read again. While Kafka or the database is away it waits; a
record that the database refuses for what it is stands alone after some halving, and becomes a dead letter.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import psycopg
import structlog
from confluent_kafka import Consumer, TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from psycopg.rows import dict_row

from infra.clients import kafka
from infra.clients.db import Cause, cause_of, described
from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.kafka import LOST, Record
from infra.clients.leases import Lease
from infra.contract.errors import ContractError, ServiceError
from infra.contract.frame import LAST_MS
from infra.contract.incidents import TABLE_KEY
from infra.contract.messages import RULE
from infra.contract.topics import EVENT_TOPICS, kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack.access import identity
from stream_jobs.alerts.derive import Finding
from stream_jobs.app.database import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connection, Database
from stream_jobs.app.topic_writer import TopicWriter, dead_letter
from stream_jobs.crashes.chunks import Rejected
from stream_jobs.crashes.verdict import AT_ONCE, settle
from stream_jobs.events import writes
from stream_jobs.events.rows import Cursor
from stream_jobs.events.writes import CONSUMER, Place
from stream_jobs.rules.cohort.judge import load_metrics
from stream_jobs.rules.model import load_causes, load_rules

BATCH: Final = 1000
READ_S: Final = 0.25
STALL_TIMEOUT_S: Final = 3.0

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60, 600)
SWEEP_S: Final = 1.0
PROBE_S: Final = 5.0
FINAL_S: Final = 120.0  # final verdicts are given, and looked at again, so often: reading is dear
Result = TypeVar("Result")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ConfigError."""
    where = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"), CONSUMER)
    with stopped_by_signals() as stop:
        store = EventStore(settings, where, stop)
        checks = {"database": lambda: store.database.problem, "kafka": lambda: store.kafka_problem}
        lease = Lease(settings, where.db_ingest_url, CONSUMER, stop)
        with HealthServer(where.health(CONSUMER), checks, store.metrics.registry, lease=lease) as page:
            structlog.get_logger().info("serving", port=page.port)
            lease.run(store.serve)


class EventStore:
    """The loop: read, store, clear. ``kafka_problem`` says why Kafka keeps it from being ready."""

    def __init__(self, settings: Settings, where: Endpoints, stop: threading.Event) -> None:
        rules, metrics = load_rules(settings.jobs.rules), load_metrics(settings.cohort.metrics)
        others = [metric.id for metric in metrics]
        self._clear_times = {rule.id: rule.clear_for_s for rule in rules} | dict.fromkeys([*others, RULE])
        self._causes = load_causes(settings.jobs.rules, rules, others)
        self._rules = writes.rule_notes(rules, metrics, self._causes)
        self.metrics = EventMetrics()
        self.kafka_problem: str | None = "not connected yet"
        self._where, self._prefix = where, settings.kafka.prefix
        self._names = {kafka_topic(settings.kafka.prefix, name): name for name in EVENT_TOPICS}
        self._clocks = clock_limits(settings)
        self._terms = settings.crash
        self._sealing = writes.Sealing(identity.device_trust(settings), identity.notary(settings))
        self._log = structlog.get_logger()
        self._held: writes.Offsets = {}
        self._generation = ""  # of the log of dead letters
        self._begin(stop)

    def _begin(self, stop: threading.Event) -> None:
        self._stop, self.database = stop, Database(self._where.db_ingest_url, CONSUMER, stop)
        self._letters, self._incidents = (
            TopicWriter(self._where.kafka_bootstrap, self._prefix, name, stop)
            for name in ("dead-letter", "incidents")
        )

    def serve(self, term: threading.Event) -> None:
        """Until ``term`` is over; each time Kafka is lost, start again from the stored offsets."""
        self._begin(term)
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self._run(partial(writes.note_rules, rows=self._rules))
                with closing(kafka.consumer(self._where.kafka_bootstrap, "odograph-events")) as consumer:
                    places = self._places(consumer)
                    self.kafka_problem = None
                    self._incidents.write([(TABLE_KEY, self._causes.encode())])
                    while self._run(self._join):  # alerts of a version that knew no incidents
                        pass
                    held, others = self._run(partial(writes.load_offsets, places=places))
                    self._generation = places["dead-letter", 0]
                    for topic, was in others.items():
                        self._log.error("another log: it is read from its beginning", topic=topic, was=was)
                    self._held = self._assign(consumer, held)
                    self._run(partial(writes.move_offsets, held=held, after=self._held))
                    self._follow(consumer)
            except LOST as error:
                self.kafka_problem = str(error).strip()
                self.metrics.retries.inc()
                self._log.warning("waiting", service="kafka", reason=self.kafka_problem)
            except writes.OvertakenError as error:
                self._log.warning("overtaken", reason=str(error))
            if time.monotonic() - started > 2 * PROBE_S:
                pause_s = FIRST_PAUSE_S
            self._stop.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        self.database.close()

    def _run(self, work: Callable[[Cursor], Result]) -> Result:

        def within(connection: Connection) -> Result:
            with connection.cursor(row_factory=dict_row) as cursor:
                return work(cursor)

        return self.database.run(within)

    def _join(self, cursor: Cursor) -> int:
        """Give alerts their incidents; told before the commit, because doing it again tells the same."""
        told = writes.join(cursor, self._causes)
        self._incidents.write(told)
        return len(told)

    def _places(self, consumer: Consumer) -> dict[Place, str]:
        """All partitions, each with the identity of its log."""
        counts = kafka.partition_counts(consumer, list(self._names), STALL_TIMEOUT_S)
        logs = kafka.log_generations(self._where.kafka_bootstrap, self._names)
        return {(short, p): logs[name] for name, short in self._names.items() for p in range(counts[name])}

    def _assign(self, consumer: Consumer, offsets: writes.Offsets) -> writes.Offsets:
        """Where reading begins: there, as far as the log holds it."""
        begun, places = writes.Offsets(), list[TopicPartition]()
        for (short, p), offset in offsets.items():
            name = kafka_topic(self._prefix, short)
            bounds = kafka.bounds(consumer, name, p, STALL_TIMEOUT_S)
            begun[short, p] = kafka.resumed(offset, bounds, f"{name}/{p}", "begin")
            places.append(TopicPartition(name, p, begun[short, p]))
        consumer.assign(places)
        return begun

    def _read(self, consumer: Consumer) -> list[Record]:
        """What there is, at most a batch, topics by their short names; waits for the first record only."""
        return [
            replace(one, topic=self._names[one.topic], received_ms=min(max(one.received_ms, 0), LAST_MS))
            for one in map(kafka.record_of, kafka.taken(consumer, BATCH, READ_S))
        ]

    def _lag(self, consumer: Consumer) -> dict[str, int]:
        """Records by topic that were not read yet, as last told; raises ServiceError where a topic grew."""
        counts = kafka.partition_counts(consumer, list(self._names), STALL_TIMEOUT_S)
        if sum(counts.values()) != len(self._held):
            raise ServiceError("a topic has new partitions; starting again to read them")
        lag = dict.fromkeys(self._names.values(), 0)
        for place in consumer.assignment():
            short = self._names[place.topic]
            _, end = consumer.get_watermark_offsets(place, cached=True)
            lag[short] += max(0, end - self._held[short, place.partition])
        return lag

    def _follow(self, consumer: Consumer) -> None:
        sweep_at = probe_at = settle_at = final_at = time.monotonic()
        while not self._stop.is_set():
            records = self._read(consumer)
            if records:
                self._store(records)
            now = time.monotonic()
            # Not while catching up: the vehicle's newest event may be far ahead of the findings still unread.
            if now >= sweep_at and len(records) < BATCH:
                self.metrics.cleared.inc(self._run(partial(writes.clear, clear_times=self._clear_times)))
                self._run(self._join)  # what the batch layer found
                sweep_at = now + SWEEP_S
            if now >= settle_at and len(records) < BATCH:
                final_too = now >= final_at
                given = self._run(partial(settle, terms=self._terms, final_too=final_too))
                for word in given:
                    self.metrics.verdicts.labels(word).inc()  # alerts do not wait for verdicts
                settle_at = now + self._terms.settle_s
                if final_too and len(given) < AT_ONCE:
                    final_at = now + FINAL_S
            if now >= probe_at:
                for topic, lag in self._lag(consumer).items():
                    self.metrics.lag.labels(topic).set(lag)
                probe_at = now + PROBE_S

    def _store(self, records: Sequence[Record]) -> None:
        """Store the records; one that the database refuses for what it is goes to the dead letters."""
        try:
            self._commit(writes.sort_out(records, self._clocks, self._generation), records)
        except psycopg.Error as error:
            if cause_of(error) is Cause.SETUP:
                raise
            half = len(records) // 2
            if half:
                self._store(records[:half])
                self._store(records[half:])
            else:
                refused = ContractError("refused", described(error))
                self._commit(writes.Batch(rejected=[(records[0], refused)]), records)

    def _commit(self, batch: writes.Batch, records: Sequence[Record]) -> None:
        after = {(record.topic, record.partition): record.offset + 1 for record in records}

        def work(cursor: Cursor) -> tuple[list[Finding], list[Rejected]]:
            writes.move_offsets(cursor, self._held, after)
            fresh, unjoined = writes.write(cursor, batch, self._clear_times, self._clocks, self._sealing)
            if fresh:
                self._join(cursor)
            # Before the commit: nothing else would know of them. Dead letters stay in their topic.
            rejected = [each for each in (*batch.rejected, *unjoined) if each[0].topic != "dead-letter"]
            self._letters.write([dead_letter(*each) for each in rejected])
            return fresh, unjoined

        with self.metrics.batch_s.time():
            fresh, unjoined = self._run(work)
        self._held |= after
        metrics, now_ms = self.metrics, time.time() * 1000
        for record in records:
            metrics.records.labels(record.topic).inc()
        for record, error in (*batch.rejected, *unjoined):
            self._log.warning("rejected", topic=record.topic, offset=record.offset, reason=str(error))
            metrics.rejected.labels(record.topic).inc()
        metrics.repeated.inc(len(batch.findings) - len(fresh))
        for found in fresh:
            metrics.findings.labels(found.severity).inc()
            metrics.visible_s.observe(max(0.0, now_ms - found.alerted_ms) / 1000)


class EventMetrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        self.records = counter("odograph_events_records", "Records stored", ["topic"])
        self.rejected = counter("odograph_events_rejected", "Records dead-lettered", ["topic"])
        self.findings = counter("odograph_events_findings", "New findings", ["severity"])
        self.repeated = counter("odograph_events_repeated", "Findings that were known")
        self.cleared = counter("odograph_events_alerts_cleared", "Alerts cleared by time")
        self.verdicts = counter("odograph_events_crash_verdicts", "Verdicts on crash records", ["verdict"])
        self.retries = counter("odograph_events_retries", "Starts after a service was away")
        self.lag = Gauge("odograph_events_lag_records", "Records not read yet", ["topic"], registry=registry)
        seconds = partial(Histogram, registry=registry, buckets=_SECONDS)
        self.batch_s = seconds("odograph_events_batch_seconds", "One transaction")
        self.visible_s = seconds(
            "odograph_events_alert_visible_seconds", "From the alerts topic to the database"
        )
