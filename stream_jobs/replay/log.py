"""Replay's records into Kafka and out of it, by key and partition as before.

The time of receipt that a record had is its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

from infra.clients import kafka
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.frame import SCHEMA
from infra.contract.shard import partition as partition_of
from infra.contract.topics import HEADER_FIRST_RECEIVED_MS, HEADER_RECEIVED_MS, HEADER_SCHEMA
from stream_jobs.archive.writer import RECORD

TIMEOUT_S: Final = 10.0
FLUSH_S: Final = 60.0
AT_ONCE: Final = 5_000
RECORD_TYPES: Final = (pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.binary())
_WRITE: Final[dict[str, Any]] = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 262_144,
    "queue.buffering.max.kbytes": 131_072,
    "message.timeout.ms": 60_000,
}


class Writer:
    """Writes records of one topic; a new one begins where the last one ended, whatever ended it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._failures: list[str] = []
        self._producer = kafka.producer(bootstrap, _WRITE)

    def write(self, rows: pa.Table, skip: Sequence[int] = (), now_ms: int | None = None) -> None:
        """Rows of partition, key, received_ms, value in their order; returns when Kafka has them all.

        ``skip``: so many of each partition are there already. ``now_ms``: received then; the time they had
        goes into a header. Raises ServiceError.
        """
        left = list(skip)
        wanted = rows.select(("partition", "key", "received_ms", "value"))
        for batch in wanted.to_batches(max_chunksize=AT_ONCE):
            columns = (column.to_pylist() for column in batch.columns)
            for partition, key, received_ms, value in zip(*columns, strict=True):
                if left and left[partition] > 0:
                    left[partition] -= 1
                    continue
                at_ms = received_ms if now_ms is None else now_ms
                headers = [(HEADER_RECEIVED_MS, b"%d" % at_ms), (HEADER_SCHEMA, b"%d" % SCHEMA)]
                if now_ms is not None:
                    headers.append((HEADER_FIRST_RECEIVED_MS, b"%d" % received_ms))
                self.put(partition, key, value, at_ms, headers)
        self.flush()

    def put(self, partition: int, key: Any, value: Any, at_ms: int, headers: list[tuple[str, Any]]) -> None:
        """One record, into the client's queue."""
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition, self._noted, timestamp=at_ms, headers=headers
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _noted(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def flush(self) -> None:
        """Wait until Kafka has everything; raises ServiceError."""
        unsent = self._producer.flush(FLUSH_S)
        if unsent or self._failures:
            why = self._failures[0] if self._failures else f"{unsent} records without an answer"
            raise ServiceError(f"Kafka {self._bootstrap}: {self._topic} does not take records: {why}")


class Log(kafka.LogReader):
    """Offsets and records of the log by topic. Raises ServiceError."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "odograph-replay", TIMEOUT_S)

    def ends(self, topic: str) -> tuple[int, ...]:
        """The next offset of each partition that the topic has now."""
        return tuple(high for _, high in self.spans(topic).values())

    def read(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Message]:
        """Records of offsets begin..end-1; raises ConfigError where Kafka keeps them no more."""
        low, high = self.bounds(topic, partition)
        if begin < low:
            raise ConfigError(
                f"{topic} partition {partition}: offset {begin} is gone, the oldest kept is {low}; "
                "older records are in the archive: odograph replay --day"
            )
        return self.messages(topic, partition, begin, min(end, high))

    def batches(self, topic: str, partition: int, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """The same as the archive's records (RECORD), AT_ONCE at a time."""
        messages = self.read(topic, partition, begin, end)
        while some := [*islice(messages, AT_ONCE)]:
            rows = [
                (topic, partition, m.offset(), m.key() or b"", int(m.timestamp()[1]), m.value()) for m in some
            ]
            arrays = [pa.array(c, k) for c, k in zip(zip(*rows, strict=True), RECORD_TYPES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*RECORD])


def copy_crashes(bootstrap: str, source: str, target: str, since_ms: int, until_ms: int) -> int:
    """Crash records received in [since, until) into the run's topic, behind those that a killed copy left
    there; how many. Each goes where its key belongs: the two topics may differ in partitions.
    """
    copied = 0
    writer = Writer(bootstrap, target)
    with Log(bootstrap) as log:
        there = list(log.ends(target))
        for origin, end in enumerate(log.ends(source)):
            for message in log.read(source, origin, log.since(source, origin, since_ms), end):
                at_ms = int(message.timestamp()[1])
                if not since_ms <= at_ms < until_ms:
                    continue
                partition = partition_of(message.key() or b"", len(there))
                if there[partition]:
                    there[partition] -= 1
                    continue
                headers: Any = message.headers() or []
                writer.put(partition, message.key(), message.value(), at_ms, headers)
                copied += 1
        writer.flush()
    return copied
