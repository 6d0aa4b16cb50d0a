"""Records into a topic, at least once: what detectors found, dead letters."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from infra.clients import kafka
from infra.clients.db import described
from infra.clients.kafka import Record
from infra.clients.leases import Term
from infra.contract.errors import ContractError, ServiceError
from infra.contract.topics import (
    DETAIL_CHARS,
    HEADER_FIRST_RECEIVED_MS,
    HEADER_MQTT_TOPIC,
    HEADER_RECEIVED_MS,
    HEADER_SCHEMA,
    KEPT_BYTES,
    kafka_topic,
    why_headers,
)
from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import ATTEMPT_S, Database, Refused

KEY_BYTES: Final = 64  # a longer key names no vehicle
UPLINK_HEADERS: Final = (HEADER_MQTT_TOPIC, HEADER_RECEIVED_MS, HEADER_SCHEMA, HEADER_FIRST_RECEIVED_MS)
"""Headers of a record that its dead letter keeps."""
FLUSH_S: Final = 10.0
PAUSE_S: Final = 0.5
TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG)

log = structlog.get_logger("stream_jobs.app.topic_writer")


class Message(NamedTuple):
    """One record; ``at_ms`` 0: now."""

    key: str | bytes | None
    value: bytes
    headers: Sequence[tuple[str, str | bytes | None]] = ()
    at_ms: int = 0


class TopicWriter:
    """Writes records to one topic and waits until Kafka has them. For one thread at a time.

    Where ``stop`` is the term of a lease, nothing is written without it.
    """

    def __init__(self, bootstrap: str, prefix: str, name: str, stop: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._topic = kafka_topic(prefix, name)
        self._stop = stop
        self._producer: Producer | None = None

    def open(self) -> Producer:
        """The producer; it connects by itself, which takes up to a second, and writes nothing by that."""
        if self._producer is None:
            self._producer = kafka.producer(self._bootstrap)
        return self._producer

    def write(self, records: Sequence[tuple[Any, ...]]) -> None:
        """Records by the fields of Message; tried until Kafka takes them all.

        What Kafka refuses for what it is goes in with half of its bytes, and again: a reader sees it cut.
        Raises ServiceError when asked to stop meanwhile.
        """
        left = [Message(*record) for record in records]
        while left:
            if isinstance(self._stop, Term):
                self._stop.require()
            left = self._attempt(left)
            if left:
                log.warning("not written yet, trying again", topic=self._topic, count=len(left))
                if self._stop.wait(PAUSE_S):
                    raise ServiceError(f"stopped while Kafka was away ({self._topic})")

    def bury(self, refused: Sequence[Refused]) -> None:
        """Rows that the database does not take, into the topic of dead letters."""
        for row in refused:
            log.warning("row left out", table=row.table, reason=described(row.error))
        self.write([_letter(row) for row in refused])

    def _attempt(self, records: Sequence[Message]) -> list[Message]:
        """Those that Kafka has not taken, as they are to be tried again."""
        producer, left = self.open(), dict(enumerate(records))

        def told(place: int, error: KafkaError | None, _message: object = None) -> None:
            if error is None:
                del left[place]
            elif error.code() in TOO_LARGE:
                value = left[place].value
                left[place] = left[place]._replace(value=value[: len(value) // 2])

        try:
            for place, (key, value, headers, at_ms) in enumerate(records):
                told_of_it = partial(told, place)
                producer.produce(
                    self._topic, value, key, on_delivery=told_of_it, timestamp=at_ms, headers=[*headers]
                )
                producer.poll(0)
        except KafkaException as error:
            told(place, error.args[0])
            log.warning("cannot be written", topic=self._topic, error=str(error))
        except BufferError:
            pass  # the rest goes in next time
        with suppress(KafkaException):
            producer.flush(FLUSH_S)
        again = [*left.values()]
        if again:
            producer.purge()
            self._producer = None
        return again


def dead_letter(record: Record, error: ContractError) -> Message:
    """The dead letter that a record becomes which the store cannot take: one that Kafka does take."""
    why = why_headers(error.reason, f"{error.detail} (event store, topic {record.topic})"[:DETAIL_CHARS])
    kept = [(name, record.headers[name][:DETAIL_CHARS]) for name in UPLINK_HEADERS if name in record.headers]
    key = record.key if record.key is not None and len(record.key) <= KEY_BYTES else None
    return Message(key, record.value[:KEPT_BYTES], [*kept, *why], record.received_ms)


def _letter(refused: Refused) -> Message:
    """The row as JSON, under its vehicle where it has one."""
    value = orjson.dumps(refused.row, default=str)[:KEPT_BYTES]
    detail = f"{refused.table} does not take it: {described(refused.error)}"
    return Message(refused.row.get("vehicle_id"), value, why_headers("refused", detail[:DETAIL_CHARS]))


def dead_lettering(
    settings: Settings, where: Endpoints, name: str, stop: threading.Event, attempt_s: float = ATTEMPT_S
) -> Database:
    """The way into the database for jobs whose rows may be left out."""
    letters = TopicWriter(where.kafka_bootstrap, settings.kafka.prefix, "dead-letter", stop)
    return Database(where.db_ingest_url, name, stop, attempt_s, letters.bury)
