"""Reads single records and short stretches of the log: the door of this package to Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from infra.clients.log_records import Record, Wanted, matches
from infra.contract.errors import ServiceError

TIMEOUT_S = 5.0
BATCH = 5000
MOST_RECORDS = 1_000_000
"""A stretch is read to its end or to so many records: 5 to 20 s."""
_CONFIG = {
    "group.id": "odograph-trace",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "log_level": 0,
}


class LogReader:
    """A reader of its own, without a group's offsets; use as a context manager. Raises ServiceError."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **_CONFIG})
        self.scanned = 0
        self.cut_short = False
        """Whether a stretch was longer than what is read of it."""

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """The oldest offset kept, and the next one to be written."""
        try:
            found = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        except KafkaException as error:
            raise ServiceError(f"Kafka {self._bootstrap}: offsets of {topic}: {error}") from error
        if found is None:
            raise ServiceError(f"Kafka {self._bootstrap}: no answer within {TIMEOUT_S:g} s")
        return int(found[0]), int(found[1])

    def since(self, topic: str, partition: int, at_ms: int) -> int:
        """The first offset received at ``at_ms`` or later, by the log's time index."""
        asked = [TopicPartition(topic, partition, at_ms)]
        try:
            offset = int(self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S)[0].offset)
        except KafkaException as error:
            raise ServiceError(f"Kafka {self._bootstrap}: times of {topic}: {error}") from error
        return self.ends(topic, partition)[1] if offset == OFFSET_END or offset < 0 else offset

    def at(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at an offset; None where retention has taken it."""
        low, high = self.ends(topic, partition)
        if not low <= offset < high:
            return None
        return next((_record(m) for m in self._read(topic, partition, offset, offset + 1)), None)

    def records(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Record]:
        """Records of offsets begin..end-1, as far as retention has left them."""
        begin = max(begin, self.ends(topic, partition)[0])
        return map(_record, self._read(topic, partition, begin, end))

    def find(self, topic: str, partition: int, begin: int, wanted: Wanted, any_key: bool) -> list[Record]:
        """Records of the wanted frame from ``begin`` to the end; the newest part of a stretch too long.

        ``any_key``: records without a key are looked into as well (dead letters).
        """
        low, end = self.ends(topic, partition)
        begin = max(begin, low)
        if end - begin > MOST_RECORDS:
            begin, self.cut_short = end - MOST_RECORDS, True
        key = wanted.vehicle_id.encode()
        keys = (key, None) if any_key else (key,)
        found = []
        for message in self._read(topic, partition, begin, end):
            self.scanned += 1
            value = message.value() or b""
            if message.key() in keys and matches(value, wanted) and (message.key() or key in value):
                found.append(_record(message))
        return found

    def _read(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Message]:
        """Messages of offsets begin..end-1."""
        if begin >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, begin)])
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            messages = self._consumer.consume(min(BATCH, end - begin), timeout=0.2)
            if messages:
                until_s = time.monotonic() + TIMEOUT_S
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise ServiceError(f"Kafka {self._bootstrap}: reading {topic}: {error}")
                if (message.offset() or 0) >= end:
                    return
                yield message
                if message.offset() == end - 1:
                    return
            if time.monotonic() > until_s:
                raise ServiceError(f"Kafka {self._bootstrap}: {topic} gives nothing for {TIMEOUT_S:g} s")


def _record(message: Message) -> Record:
    key = message.key()
    pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    headers = {name: (value or b"").decode(errors="replace") for name, value in pairs}
    return Record(
        topic=message.topic() or "",
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        received_ms=int(message.timestamp()[1]),
        value=message.value() or b"",
        headers=headers,
        key=None if key is None else key.decode(errors="replace"),
    )
