"""Records into a topic, at least once: what detectors found, the newest state of each vehicle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaException, Producer

from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic

PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.5

log = structlog.get_logger("stream_jobs.topic_writer")


class TopicWriter:
    """Writes records to the topic and waits until Kafka has them."""

    def __init__(self, bootstrap: str, prefix: str, topic: str, stop: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._topic = kafka_topic(prefix, topic)
        self._stop = stop
        self._producer: Producer | None = None

    def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Key and value of each record; tried until Kafka takes them all.

        Raises ServiceError when asked to stop meanwhile.
        """
        left = list(records)
        while left:
            left = self._attempt(left)
            if left:
                log.warning("records are not written yet, trying again", topic=self._topic, count=len(left))
                if self._stop.wait(PAUSE_S):
                    raise ServiceError(f"stopped while Kafka was away ({self._topic})")

    def _attempt(self, records: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Those that Kafka has not taken."""
        if self._producer is None:
            self._producer = Producer(
                {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0,
                 "partitioner": "murmur2_random"}
            )  # fmt: skip
        taken: set[int] = set()
        try:
            for place, (key, value) in enumerate(records):
                self._producer.produce(self._topic, value, key, on_delivery=_noting(taken, place))
                self._producer.poll(0)
            self._producer.flush(PATIENCE_S)
        except (BufferError, KafkaException) as error:
            log.warning("records cannot be written", topic=self._topic, error=str(error))
        left = [record for place, record in enumerate(records) if place not in taken]
        if left:
            self._producer.purge()
            self._producer = None
        return left


def _noting(taken: set[int], place: int) -> Callable[[object, object], None]:
    def told(error: object, _message: object) -> None:
        if error is None:
            taken.add(place)

    return told
