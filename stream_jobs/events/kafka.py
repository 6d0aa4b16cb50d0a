"""The event store's side of Kafka: its consumer and its topics' partitions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from infra.clients import kafka
from infra.clients.kafka import LOST
from infra.contract.errors import ServiceError
from infra.contract.frame import LAST_MS
from stream_jobs.events.rows import Record

BATCH: Final = 1000
READ_S: Final = 0.25
STALL_TIMEOUT_S: Final = 3.0
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)

Place = tuple[str, int]
"""Topic (short name) and partition."""


def wait_for_partitions(bootstrap: str, topics: Sequence[str], stop: threading.Event) -> dict[str, int]:
    """Number of partitions of each topic, as soon as Kafka answers and has them all; {} after ``stop``."""
    log = structlog.get_logger()
    client = kafka.admin(bootstrap)
    for delay_s in backoff():
        try:
            return kafka.partition_counts(client, topics, STALL_TIMEOUT_S)
        except LOST as error:
            log.warning("waiting", service="kafka", reason=str(error))
        if stop.wait(delay_s):
            break
    return {}


def backoff() -> Iterator[float]:
    """Growing pauses between attempts, s; without end."""
    return chain(BACKOFF_S, repeat(BACKOFF_S[-1]))


class Reader:
    """Reads all partitions of some topics from given offsets. ``names``: short name by full name."""

    def __init__(self, bootstrap: str, names: Mapping[str, str]) -> None:
        self._names = names
        self._consumer = kafka.consumer(bootstrap, "odograph-events")
        self._counts: dict[str, int] = {}

    def places(self) -> list[Place]:
        """Every partition there is."""
        self._counts = kafka.partition_counts(self._consumer, list(self._names), STALL_TIMEOUT_S)
        return [(self._names[name], p) for name, count in self._counts.items() for p in range(count)]

    def assign(self, offsets: Mapping[Place, int]) -> None:
        """Read on from ``offsets``."""
        full = {short: name for name, short in self._names.items()}
        self._consumer.assign([TopicPartition(full[t], p, offset) for (t, p), offset in offsets.items()])

    def read(self) -> list[Record]:
        """What there is, at most a batch; waits for the first record only."""
        messages = self._consumer.consume(1, READ_S)
        if messages:
            messages += self._consumer.consume(BATCH - 1, 0)
        return [self._record(message) for message in messages if not _failed(message.error())]

    def _record(self, message: Any) -> Record:
        return Record(
            topic=self._names[message.topic()],
            partition=message.partition(),
            offset=message.offset(),
            at_ms=min(max(message.timestamp()[1], 0), LAST_MS),
            key=message.key(),
            value=message.value() or b"",
            headers=_headers(message),
        )

    def lag(self, held: Mapping[Place, int]) -> dict[str, int]:
        """Records by topic that were not read yet, as last told; raises ServiceError where a topic grew."""
        if kafka.partition_counts(self._consumer, list(self._names), STALL_TIMEOUT_S) != self._counts:
            raise ServiceError("a topic has new partitions; starting again to read them")
        lag = dict.fromkeys(self._names.values(), 0)
        for place in self._consumer.assignment():
            short = self._names[place.topic]
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            lag[short] += max(0, end - held[short, place.partition])
        return lag

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


def _headers(message: Any) -> dict[str, bytes]:
    """Its headers; none where a name is no text."""
    try:
        found = message.headers() or []
    except UnicodeDecodeError:
        return {}
    return {name: value for name, value in found if value is not None}


def _failed(error: KafkaError | None) -> bool:
    if error is not None:
        raise KafkaException(error)
    return False
