"""Kafka as the command line needs it: reads a topic from place to place, stores records and waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from bridge.dead_letters.letter import Letter
from bridge.kafka_sink import SinkConfig, is_about_the_record
from bridge.translate import Record
from infra.clients import kafka
from infra.contract.errors import ServiceError

PATIENCE_S: Final = 10.0
STORE_S: Final = 30.0
BATCH: Final = 500


class KafkaLog:
    """The one partition of a topic, read; a context manager. Raises ServiceError where Kafka is away."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._place = TopicPartition(topic, 0)
        self._where = f"Kafka {bootstrap}: topic {topic}"
        self._consumer = kafka.consumer(
            bootstrap, "odograph-dead-letters", {"auto.offset.reset": "error", "error_cb": _heard}
        )

    def __enter__(self) -> KafkaLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def span(self) -> tuple[int, int]:
        """Offset of the oldest record, and the one after the newest."""
        try:
            known = self._consumer.list_topics(self._place.topic, timeout=PATIENCE_S).topics
            partitions = len(known[self._place.topic].partitions)
            found = self._consumer.get_watermark_offsets(self._place, timeout=PATIENCE_S)
        except KafkaException as error:
            raise ServiceError(f"{self._where}: {error.args[0].str()}") from error
        if found is None:
            raise ServiceError(f"{self._where}: no answer within {PATIENCE_S:g} s")
        if partitions != 1:
            raise ServiceError(
                f"{self._where} has {partitions} partitions; an offset names a letter in one only"
            )
        return int(found[0]), int(found[1])

    def offset_at(self, at_ms: int) -> int:
        """Offset of the first record of that time or later; the end where there is none."""
        asked = TopicPartition(self._place.topic, 0, at_ms)
        try:
            offset = int(self._consumer.offsets_for_times([asked], timeout=PATIENCE_S)[0].offset)
        except KafkaException as error:
            raise ServiceError(f"{self._where}: {error.args[0].str()}") from error
        return offset if offset >= 0 else self.span()[1]

    def read(self, first: int, end: int) -> Iterator[Letter]:
        """The records from ``first`` to before ``end``."""
        low, high = self.span()
        first, end = max(first, low), min(end, high)
        if first >= end:
            return
        self._consumer.assign([TopicPartition(self._place.topic, 0, first)])
        deadline_s = time.monotonic() + PATIENCE_S
        while first < end:
            for message in self._consumer.consume(min(BATCH, end - first), 0.2):
                error = message.error()
                if error is not None:
                    raise ServiceError(f"{self._where}: {error.str()}")
                first = int(message.offset() or 0) + 1
                deadline_s = time.monotonic() + PATIENCE_S
                yield _letter(message)
            if time.monotonic() > deadline_s:
                raise ServiceError(f"{self._where}: offset {first} is not delivered")


def _letter(message: Any) -> Letter:
    headers = {name: value or b"" for name, value in message.headers() or []}
    return Letter(message.offset(), message.timestamp()[1], message.key(), message.value() or b"", headers)


def newest_status_ms(bootstrap: str, topic: str) -> dict[str, int]:
    """Device time of the newest status message of each vehicle in the status topic."""
    newest: dict[str, int] = {}
    with KafkaLog(bootstrap, topic) as log:
        for record in log.read(*log.span()):
            if not record.value or record.vehicle_id is None:
                newest.pop(record.vehicle_id or "", None)
                continue
            at_ms = orjson.loads(record.value).get("at_ms", 0)
            newest[record.vehicle_id] = max(at_ms, newest.get(record.vehicle_id, 0))
    return newest


def store(bootstrap: str, records: Sequence[Record]) -> dict[int, str]:
    """Append the records; returns when Kafka has answered for all: why it refuses some, by their index.

    One record can be to blame for its whole batch, so the refused ones are tried again one by one. Raises
    ServiceError when Kafka is away: some may be stored then.
    """
    config = SinkConfig(bootstrap, "odograph-dead-letters", 5.0, len(records) + 1, 1 << 30).producer()
    # Without the guarantee of the bridge: one refusal does not end the producer, and nothing waits for ever.
    config |= {"enable.gapless.guarantee": False, "message.timeout.ms": int(STORE_S * 1000)}
    producer = Producer(config | {"error_cb": _heard})
    refused = _append(producer, bootstrap, dict(enumerate(records)))
    return {n: why for n in sorted(refused) for why in _append(producer, bootstrap, {n: records[n]}).values()}


def _append(producer: Any, bootstrap: str, records: Mapping[int, Record]) -> dict[int, str]:
    """Produce and wait; those that Kafka refuses for what they are."""
    failed: dict[int, KafkaError] = {}

    def reported(number: int, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failed[number] = error

    for number, record in records.items():
        try:
            producer.produce(
                record.topic, record.value, record.key, on_delivery=partial(reported, number),
                timestamp=record.timestamp_ms, headers=record.headers,
            )  # fmt: skip
        except KafkaException as error:
            failed[number] = error.args[0]
    unsent = producer.flush(STORE_S + 1)
    others = [error.str() for error in failed.values() if not is_about_the_record(error)]
    if unsent or others:
        why = others[0] if others else f"no answer for {unsent} records"
        raise ServiceError(f"Kafka {bootstrap}: {why}; nothing is lost: run it again")
    return {number: str(error.str()) for number, error in failed.items()}


def _heard(_error: KafkaError) -> None:
    """The answer to what was asked says it."""
