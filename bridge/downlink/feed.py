"""The topic ``alerts`` as one destination reads it, and the topic of what nobody took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Producer, TopicPartition

from bridge.downlink.alerts import Found
from infra.clients import kafka
from infra.contract.errors import ServiceError
from infra.contract.topics import HEADER_DETAIL, HEADER_RECEIVED_MS

ASK_S: Final = 5.0
KEEP_S: Final = 600.0
"""Offsets are committed anew at least so often: Kafka forgets a group that is quiet for 7 days."""

HEADER_DESTINATION: Final = "destination"

READ: Final[dict[str, Any]] = {
    "queued.min.messages": 1000,  # a dead webhook's backlog stays in Kafka, not in our memory
    "queued.max.messages.kbytes": 4096,
}


class Feed:
    """Alerts from where ``group`` stands; a context manager. KafkaException and ServiceError: Kafka is away.

    Partitions are assigned, not subscribed: no rebalance, no deadline between two reads, so a destination
    may take its time. A group that never committed begins at the end: nobody is told of 30 old days.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = kafka.consumer(bootstrap, group, READ)
        self._next: dict[int, int] = {}
        self._kept_s = 0.0

    def __enter__(self) -> Feed:
        try:
            known = self._consumer.list_topics(self._topic, timeout=ASK_S).topics[self._topic]
            if known.error is not None:
                raise ServiceError(f"topic {self._topic} is missing; `odograph up` creates it")
            self._next = self._positions(sorted(known.partitions))
            self._consumer.assign(self._places())
            self._keep()
        except BaseException:
            self._consumer.close()
            raise
        return self

    def _positions(self, partitions: list[int]) -> dict[int, int]:
        """Where to begin: as committed; else at the end, or at the beginning of a partition added since."""
        asked = [TopicPartition(self._topic, p) for p in partitions]
        held = {place.partition: place.offset for place in self._consumer.committed(asked, timeout=ASK_S)}
        known = any(offset >= 0 for offset in held.values())
        return {p: held[p] if held[p] >= 0 else (0 if known else self._end(p)) for p in partitions}

    def _end(self, partition: int) -> int:
        ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=ASK_S)
        if ends is None:
            raise ServiceError(f"Kafka does not tell the end of {self._topic}/{partition}")
        return int(ends[1])

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, p, offset) for p, offset in self._next.items()]

    def read(self, limit: int, wait_s: float) -> list[Found]:
        """What there is, at most ``limit``; waits for the first record only."""
        messages = self._consumer.consume(1, wait_s)
        if messages and limit > 1:
            messages += self._consumer.consume(limit - 1, 0)
        return [_found(message) for message in messages]

    def commit(self, moved: Mapping[int, int]) -> None:
        """Everything before these offsets is settled; returns when Kafka has it."""
        if moved:
            self._next |= moved
        if moved or time.monotonic() - self._kept_s > KEEP_S:
            self._keep()

    def _keep(self) -> None:
        self._consumer.commit(offsets=self._places(), asynchronous=False)
        self._kept_s = time.monotonic()

    def lag(self) -> int:
        """Records not settled yet, by the ends that Kafka last told."""
        behind = 0
        for partition, offset in self._next.items():
            ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            behind += max(0, ends[1] - offset) if ends is not None else 0
        return behind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()


def _found(message: Any) -> Found:
    if message.error() is not None:
        raise KafkaException(message.error())
    return Found(
        message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value() or b""
    )


def bury(bootstrap: str, topic: str, found: Found, destination: str, detail: str) -> None:
    """Record an alert that ``destination`` did not take; raises ServiceError until Kafka has it."""
    failures: list[str] = []

    def reported(error: KafkaError | None, _message: Any) -> None:
        failures.extend([] if error is None else [str(error)])

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    headers: list[tuple[str, str | bytes | None]] = [
        (HEADER_DESTINATION, destination.encode()),
        (HEADER_DETAIL, detail[:500].encode()),
        (HEADER_RECEIVED_MS, b"%d" % found.at_ms),
    ]
    producer.produce(topic, found.value, found.key, headers=headers, on_delivery=reported)
    unsent = producer.flush(ASK_S)
    if unsent or failures:
        raise ServiceError(f"a dead delivery cannot be written: {failures or f'{unsent} unsent'}")


def everything(bootstrap: str, topic: str) -> Iterator[tuple[Found, dict[str, bytes]]]:
    """All records of a topic with their headers, up to the end as it is now; raises ServiceError."""
    reader = kafka.consumer(bootstrap, "odograph-reader", READ)
    try:
        known = reader.list_topics(topic, timeout=ASK_S).topics[topic]
        for partition in sorted(known.partitions):
            place = TopicPartition(topic, partition, OFFSET_BEGINNING)
            low, high = reader.get_watermark_offsets(place, timeout=ASK_S) or (0, 0)
            if high > low:
                reader.assign([place])
                yield from _until(reader, high)
    except KafkaException as error:
        raise ServiceError(f"Kafka {bootstrap}: {error.args[0].str()}; see odograph status") from error
    finally:
        reader.close()


def _until(reader: Any, high: int) -> Iterator[tuple[Found, dict[str, bytes]]]:
    while True:
        message = reader.poll(ASK_S)
        if message is None:
            raise ServiceError(f"Kafka gave no record within {ASK_S:g} s; see odograph status")
        found = _found(message)
        yield found, dict(message.headers() or [])
        if found.offset >= high - 1:
            return
