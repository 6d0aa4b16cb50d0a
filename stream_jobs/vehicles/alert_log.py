"""What detectors found, into the topic ``alerts``: at least once, with ids that make a repeat harmless."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaException, Producer

from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic

TOPIC: Final = "alerts"
PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.5

log = structlog.get_logger("stream_jobs.vehicles")


class AlertLog:
    """Writes records to the topic and waits until Kafka has them."""

    def __init__(self, bootstrap: str, prefix: str, stop: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._topic = kafka_topic(prefix, TOPIC)
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
                log.warning("alerts are not written yet, trying again", count=len(left))
                if self._stop.wait(PAUSE_S):
                    raise ServiceError("stopped while Kafka was away (vehicles)")

    def _attempt(self, records: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Those that Kafka has not taken."""
        if self._producer is None:
            self._producer = Producer(
                {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0}
            )
        taken: set[int] = set()
        try:
            for place, (key, value) in enumerate(records):
                self._producer.produce(self._topic, value, key, on_delivery=_noting(taken, place))
                self._producer.poll(0)
            self._producer.flush(PATIENCE_S)
        except (BufferError, KafkaException) as error:
            log.warning("alerts cannot be written", error=str(error))
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
