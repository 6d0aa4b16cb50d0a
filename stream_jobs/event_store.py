"""The event store: alerts, crash records, status messages and dead letters from Kafka into the database.

Rows and the offsets after them are one transaction, and the database's offsets are the only truth: what was
stored is never stored again, what was not is read again. While Kafka or the database is away it waits.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, repeat
from typing import Any, Final

import psycopg
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg.rows import dict_row

from infra.contract.errors import ContractError, ServiceError
from infra.contract.settings import Settings, endpoints
from infra.contract.topics import kafka_topic
from infra.health import HealthServer
from stream_jobs.event_metrics import EventMetrics
from stream_jobs.event_rows import Record, clock_range, dead_letter_headers
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
from stream_jobs.rules import load_rules

CONSUMER: Final = "events"
TOPICS: Final = ("alerts", "crash", "status", "dead-letter")
BATCH: Final = 1000
READ_S: Final = 0.25
SWEEP_S: Final = 1.0
PROBE_S: Final = 5.0
PATIENCE_S: Final = 3.0
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
CONSUME: Final[dict[str, Any]] = {
    "group.id": f"odograph-{CONSUMER}",  # the library wants one; nothing is committed to it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "reconnect.backoff.max.ms": 1000,
    "log_level": 0,
}
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
    clear_times = ClearTimes.of(load_rules(settings.jobs.rules))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    port = endpoints(settings).http_ports.get(CONSUMER, 0)
    store = EventStore(settings, clear_times, stop)
    checks = {name: (lambda name=name: store.reasons[name]) for name in store.reasons}
    with HealthServer(port, checks, store.metrics.registry) as page:
        structlog.get_logger().info("serving", port=page.port)
        store.serve()


def wait_for_partitions(bootstrap: str, topics: Sequence[str], stop: threading.Event) -> dict[str, int]:
    """Number of partitions of each topic, as soon as Kafka answers and has them all; {} after ``stop``."""
    log = structlog.get_logger()
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for delay_s in _backoff():
        try:
            return _partitions(admin, topics)
        except (KafkaException, ServiceError) as error:
            log.warning("waiting", service="kafka", reason=str(error))
        if stop.wait(delay_s):
            break
    return {}


def _partitions(client: Any, topics: Sequence[str]) -> dict[str, int]:
    known = client.list_topics(timeout=PATIENCE_S).topics
    missing = [name for name in topics if name not in known or known[name].error is not None]
    if missing:
        raise ServiceError(f"topics are missing: {', '.join(missing)}; `odograph up` creates them")
    return {name: len(known[name].partitions) for name in topics}


def _backoff() -> Iterator[float]:
    return chain(BACKOFF_S, repeat(BACKOFF_S[-1]))


class EventStore:
    """The loop: read, store, clear. ``reasons`` says why a service keeps it from being ready, by service."""

    def __init__(self, settings: Settings, clear_times: ClearTimes, stop: threading.Event) -> None:
        self.metrics = EventMetrics()
        self.reasons: dict[str, str | None] = {"database": "not connected yet", "kafka": "not connected yet"}
        where = endpoints(settings)
        self._url = where.db_ingest_url
        self._bootstrap = where.kafka_bootstrap
        self._names = {kafka_topic(settings.kafka.prefix, name): name for name in TOPICS}
        self._dead_letter = kafka_topic(settings.kafka.prefix, "dead-letter")
        self._clocks = clock_range(settings.jobs)
        self._clear_times = clear_times
        self._stop = stop
        self._log = structlog.get_logger()
        self._held: Offsets = {}
        self._counts: dict[str, int] = {}

    def serve(self) -> None:
        """Until ``stop``; each time a service is lost, start again from the stored offsets."""
        backoff = _backoff()
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self._serve_connected()
            except psycopg.OperationalError as error:
                self._lost("database", error)
            except (KafkaException, ServiceError) as error:
                self._lost("kafka", error)
            except OvertakenError as error:
                self._log.warning("overtaken", reason=str(error))
            if time.monotonic() - started > 2 * PROBE_S:
                backoff = _backoff()
            self._stop.wait(0 if self._stop.is_set() else next(backoff))

    def _lost(self, service: str, error: Exception) -> None:
        self.reasons[service] = str(error).strip()
        self.metrics.retries.inc()
        self._log.warning("waiting", service=service, reason=self.reasons[service])

    def _serve_connected(self) -> None:
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row, **CONNECT) as database:
            self.reasons["database"] = None
            with closing(Consumer(CONSUME | {"bootstrap.servers": self._bootstrap})) as consumer:
                self._assign(database, consumer)
                self._follow(database, consumer)

    def _assign(self, database: psycopg.Connection[Any], consumer: Any) -> None:
        """Take every partition from where the database says."""
        self._counts = _partitions(consumer, list(self._names))
        self.reasons["kafka"] = None
        places = [(self._names[name], p) for name, count in self._counts.items() for p in range(count)]
        with database.transaction(), database.cursor() as cursor:
            self._held = load_offsets(cursor, CONSUMER, places)
        full = {short: name for name, short in self._names.items()}
        consumer.assign([TopicPartition(full[t], p, offset) for (t, p), offset in self._held.items()])

    def _follow(self, database: psycopg.Connection[Any], consumer: Any) -> None:
        sweep_at = probe_at = time.monotonic()
        while not self._stop.is_set():
            records = self._read(consumer)
            if records:
                self._store(database, records)
            now = time.monotonic()
            # Not while catching up: the vehicle's newest event may be far ahead of the findings still unread.
            if now >= sweep_at and len(records) < BATCH:
                with database.cursor() as cursor:
                    self.metrics.cleared.inc(clear(cursor, self._clear_times))
                sweep_at = now + SWEEP_S
            if now >= probe_at:
                self._probe(consumer)
                probe_at = now + PROBE_S

    def _read(self, consumer: Any) -> list[Record]:
        """What there is, at most a batch; waits for the first record only."""
        messages = consumer.consume(1, READ_S)
        if messages:
            messages += consumer.consume(BATCH - 1, 0)
        return [self._record(message) for message in messages if not _failed(message.error())]

    def _record(self, message: Any) -> Record:
        return Record(
            topic=self._names[message.topic()],
            partition=message.partition(),
            offset=message.offset(),
            at_ms=message.timestamp()[1],
            key=message.key(),
            value=message.value() or b"",
            headers=dict(message.headers() or []),
        )

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
        self._bury(batch.rejected)
        with self.metrics.batch_s.time(), database.transaction(), database.cursor() as cursor:
            move_offsets(cursor, CONSUMER, self._held, after)
            fresh = write(cursor, batch, self._clear_times)
        self._held |= after
        self.metrics.stored(records, batch, fresh)

    def _bury(self, rejected: Sequence[tuple[Record, ContractError]]) -> None:
        """Send what cannot be stored to the dead letters; raises ServiceError until Kafka has it."""
        if not rejected:
            return
        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all", "log_level": 0})
        failures: list[str] = []
        for record, error in rejected:
            if record.topic == "dead-letter":
                raise ServiceError(f"dead letter {record.partition}/{record.offset} is refused: {error}")
            headers = dead_letter_headers(record, error)
            producer.produce(
                self._dead_letter, record.value, record.key, timestamp=record.at_ms, headers=headers,
                on_delivery=lambda failed, _: failures.append(str(failed)) if failed else None,
            )  # fmt: skip
            self._log.warning("rejected", topic=record.topic, offset=record.offset, reason=str(error))
        unsent = producer.flush(PATIENCE_S)
        if unsent or failures:
            raise ServiceError(f"dead letters cannot be written: {failures or f'{unsent} unsent'}")

    def _probe(self, consumer: Any) -> None:
        """Ask Kafka whether it is there and whether topics grew; take over the lag it told while reading."""
        if _partitions(consumer, list(self._names)) != self._counts:
            raise ServiceError("a topic has new partitions; starting again to read them")
        lag = dict.fromkeys(TOPICS, 0)
        for place in consumer.assignment():
            short = self._names[place.topic]
            _, end = consumer.get_watermark_offsets(place, cached=True)
            lag[short] += max(0, end - self._held[short, place.partition])
        for topic, records in lag.items():
            self.metrics.lag.labels(topic).set(records)


def _failed(error: KafkaError | None) -> bool:
    if error is not None:
        raise KafkaException(error)
    return False
