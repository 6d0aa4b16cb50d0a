"""The event store: alerts, crash records, status messages and dead letters from Kafka into the database.

Rows and the offsets after them are one transaction, and the database's offsets are the only truth: what was
stored is never stored again, what was not is read again. While Kafka or the database is away it waits.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg
import structlog
from psycopg.rows import dict_row

from infra.contract.errors import ContractError
from infra.contract.settings import Settings, endpoints
from infra.contract.topics import kafka_topic
from infra.health import HealthServer
from stream_jobs.cohort.metrics import load_metrics
from stream_jobs.crashes.settle import settle
from stream_jobs.event_kafka import BATCH, LOST, Reader, backoff, bury
from stream_jobs.event_metrics import EventMetrics
from stream_jobs.event_rows import Record, clock_range
from stream_jobs.event_writes import (
    Batch,
    ClearTimes,
    Offsets,
    OvertakenError,
    clear,
    load_offsets,
    move_offsets,
    sort_out,
    write,
)
from stream_jobs.rule_notes import note, rule_notes
from stream_jobs.rules import load_rules

CONSUMER: Final = "events"
TOPICS: Final = ("alerts", "crash", "status", "dead-letter")
SWEEP_S: Final = 1.0
PROBE_S: Final = 5.0
CONNECT: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "odograph-events",
    "options": "-c statement_timeout=30s -c lock_timeout=10s",
}


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    rules, metrics = load_rules(settings.jobs.rules), load_metrics(settings.cohort.metrics)
    clear_times = ClearTimes.of(rules, [metric.rule for metric in metrics])
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    port = endpoints(settings).http_ports.get(CONSUMER, 0)
    store = EventStore(settings, clear_times, rule_notes(rules, metrics), stop)
    checks = {name: (lambda name=name: store.reasons[name]) for name in store.reasons}
    with HealthServer(port, checks, store.metrics.registry) as page:
        structlog.get_logger().info("serving", port=page.port)
        store.serve()


class EventStore:
    """The loop: read, store, clear. ``reasons`` says why a service keeps it from being ready, by service."""

    def __init__(
        self,
        settings: Settings,
        clear_times: ClearTimes,
        rules: Sequence[Mapping[str, Any]],
        stop: threading.Event,
    ) -> None:
        self.metrics = EventMetrics()
        self.reasons: dict[str, str | None] = {"database": "not connected yet", "kafka": "not connected yet"}
        where = endpoints(settings)
        self._url = where.db_ingest_url
        self._bootstrap = where.kafka_bootstrap
        self._names = {kafka_topic(settings.kafka.prefix, name): name for name in TOPICS}
        self._dead_letter = kafka_topic(settings.kafka.prefix, "dead-letter")
        self._clocks = clock_range(settings.jobs)
        self._clear_times = clear_times
        self._rules = rules
        self._terms = settings.crash
        self._stop = stop
        self._log = structlog.get_logger()
        self._held: Offsets = {}

    def serve(self) -> None:
        """Until ``stop``; each time a service is lost, start again from the stored offsets."""
        pauses = backoff()
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self._serve_connected()
            except psycopg.OperationalError as error:
                self._lost("database", error)
            except LOST as error:
                self._lost("kafka", error)
            except OvertakenError as error:
                self._log.warning("overtaken", reason=str(error))
            if time.monotonic() - started > 2 * PROBE_S:
                pauses = backoff()
            self._stop.wait(0 if self._stop.is_set() else next(pauses))

    def _lost(self, service: str, error: Exception) -> None:
        self.reasons[service] = str(error).strip()
        self.metrics.retries.inc()
        self._log.warning("waiting", service=service, reason=self.reasons[service])

    def _serve_connected(self) -> None:
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row, **CONNECT) as database:
            with database.transaction(), database.cursor() as cursor:
                note(cursor, self._rules)
            self.reasons["database"] = None
            with closing(Reader(self._bootstrap, self._names)) as reader:
                self._assign(database, reader)
                self._follow(database, reader)

    def _assign(self, database: psycopg.Connection[Any], reader: Reader) -> None:
        """Take every partition from where the database says."""
        places = reader.places()
        self.reasons["kafka"] = None
        with database.transaction(), database.cursor() as cursor:
            self._held = load_offsets(cursor, CONSUMER, places)
        reader.assign(self._held)

    def _follow(self, database: psycopg.Connection[Any], reader: Reader) -> None:
        sweep_at = probe_at = settle_at = time.monotonic()
        while not self._stop.is_set():
            records = reader.read()
            if records:
                self._store(database, records)
            now = time.monotonic()
            # Not while catching up: the vehicle's newest event may be far ahead of the findings still unread.
            if now >= sweep_at and len(records) < BATCH:
                with database.cursor() as cursor:
                    self.metrics.cleared.inc(clear(cursor, self._clear_times))
                sweep_at = now + SWEEP_S
            if now >= settle_at and len(records) < BATCH:
                self._settle(database)
                settle_at = now + self._terms.settle_s
            if now >= probe_at:
                for topic, lag in reader.lag(self._held).items():
                    self.metrics.lag.labels(topic).set(lag)
                probe_at = now + PROBE_S

    def _settle(self, database: psycopg.Connection[Any]) -> None:
        """Verdicts on crash records that are due; alerts do not wait for them."""
        with database.transaction(), database.cursor() as cursor:
            settled = settle(cursor, self._terms)
        for word in settled.verdicts:
            self.metrics.verdicts.labels(word).inc()

    def _store(self, database: psycopg.Connection[Any], records: Sequence[Record]) -> None:
        """Store the records; one that the database refuses for what it is goes to the dead letters."""
        batch = sort_out(records, self._clocks)
        try:
            self._commit(database, batch, records)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            if len(records) > 1:
                half = len(records) // 2
                self._store(database, records[:half])
                self._store(database, records[half:])
            else:
                refused = ContractError("bad_value", str(error).strip())
                self._commit(database, Batch(rejected=[(records[0], refused)]), records)

    def _commit(self, database: psycopg.Connection[Any], batch: Batch, records: Sequence[Record]) -> None:
        after = {(record.topic, record.partition): record.offset + 1 for record in records}
        bury(self._bootstrap, self._dead_letter, batch.rejected)
        with self.metrics.batch_s.time(), database.transaction(), database.cursor() as cursor:
            move_offsets(cursor, CONSUMER, self._held, after)
            fresh, unjoined = write(cursor, batch, self._clear_times, self._clocks)
            # Before the commit: their rows go with it, and nothing else would know of them.
            bury(self._bootstrap, self._dead_letter, unjoined)
        self._held |= after
        batch.rejected.extend(unjoined)
        self.metrics.stored(records, batch, fresh)
