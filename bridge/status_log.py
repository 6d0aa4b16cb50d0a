"""The compacted topic ``status``: followed from its beginning, and written to in the service's own name."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from types import TracebackType
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from bridge.silence import Word
from infra.clients import kafka
from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.contract.frame import SCHEMA

ASK_S: Final = 5.0
BATCH: Final = 1000
SAID_AT_ONCE: Final = 10_000
"""Words in one turn, so that the producer's queue (100,000) holds them."""

Seen = tuple[str, bytes, int]
"""Key, value and timestamp of a record."""


class StatusLog:
    """All of the topic, in order; a context manager. Raises what is in ``LOST`` while Kafka is away."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = kafka.consumer(bootstrap, "odograph-bridge-silence")
        self._producer = kafka.producer(bootstrap, {"message.timeout.ms": 10_000})
        self._missing: dict[int, int] = {}

    def __enter__(self) -> StatusLog:
        try:
            known = self._consumer.list_topics(self._topic, timeout=ASK_S).topics[self._topic]
            if known.error is not None:
                raise ServiceError(f"topic {self._topic} is missing; `odograph up` creates it")
            places = [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in sorted(known.partitions)]
            for place in places:
                low, high = self._consumer.get_watermark_offsets(place, timeout=ASK_S) or (0, 0)
                if high > low:
                    self._missing[place.partition] = high
            self._consumer.assign(places)
        except BaseException:
            self._consumer.close()
            raise
        return self

    @property
    def whole(self) -> bool:
        """Whether all that lay in the topic at the start has been read."""
        return not self._missing

    def read(self, wait_s: float) -> list[Seen]:
        """What there is, at most a batch; waits for the first record only."""
        found = self._consumer.consume(1, wait_s)
        if found:
            found += self._consumer.consume(BATCH - 1, 0)
        return [self._seen(message) for message in found]

    def _seen(self, message: Any) -> Seen:
        if message.error() is not None:
            raise KafkaException(message.error())
        end = self._missing.get(message.partition())
        if end is not None and message.offset() >= end - 1:
            del self._missing[message.partition()]
        return (message.key() or b"").decode(errors="replace"), message.value() or b"", message.timestamp()[1]

    def say(self, words: Iterable[Word]) -> int:
        """Write words of the service's own; how many. The rest is for the next turn."""
        now_ms = time.time_ns() // 1_000_000
        headers: list[tuple[str, str | bytes | None]] = [
            (topics.HEADER_RECEIVED_MS, b"%d" % now_ms),
            (topics.HEADER_SCHEMA, b"%d" % SCHEMA),
        ]
        count = 0
        for vehicle_id, value in islice(words, SAID_AT_ONCE):
            self._producer.produce(self._topic, value, vehicle_id.encode(), timestamp=now_ms, headers=headers)
            count += 1
        self._producer.poll(0)
        return count

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.flush(ASK_S if kind is None else 0)
        self._consumer.close()
