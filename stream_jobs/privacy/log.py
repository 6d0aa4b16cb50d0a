"""A vehicle's records out of Kafka's log, where no single record can be deleted (README)."""

import hashlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from infra.clients import kafka
from infra.contract.errors import ServiceError
from infra.contract.topics import HEADER_AGAIN, KAFKA_TOPICS, LIVE, kafka_topic, partition_of
from infra.stack.kafka import SEGMENT, SEGMENT_EACH

STORED: Final = ("alerts",)  # what others have there is in the database, and told once only
AGAIN: Final = ("crash", "dead-letter", "dead-delivery")  # others' records: again, with HEADER_AGAIN
COMPACTED: Final = tuple(topic.name for topic in KAFKA_TOPICS if topic.cleanup == "compact")
MARKER: Final = b""  # key of a record that is nobody's
TIMEOUT_S: Final = 30.0
SETTLE_S: Final = 1.0  # a topic's changed setting is in force at its brokers

Place = tuple[str, int]  # a topic's name in the contract, and a partition


class VehicleLog:
    """The log of a home, for one vehicle; crash records named in ``kept`` stay. Raises ServiceError.

    ``ends``: partitions that are to be cut, and the offsets of their markers. ``moved``: offsets of dead
    letters that were appended again, old and new; an old one may be a killed try's copy. ``found``: records
    of the vehicle, of those topics that were read.
    """

    def __init__(self, bootstrap: str, prefix: str, vehicle: str, kept: Collection[str]) -> None:
        self._bootstrap, self._prefix = bootstrap, prefix
        self._vehicle, self._key, self._kept = vehicle, vehicle.encode(), kept
        self._producer = kafka.producer(bootstrap)
        self.ends, self.moved, self.found = dict[Place, int](), dict[int, int](), Counter[str]()

    def mark(self, partitions: Mapping[str, Collection[int]]) -> None:
        """Tell the consumers that the vehicle is erased, and set the markers.

        ``partitions``: where the vehicle's archived records lay, by topic.
        """
        names = {topic: self._name(topic) for topic in (*LIVE, *STORED, *AGAIN, *COMPACTED)}
        with kafka.service_errors(f"Kafka {self._bootstrap}"):
            there = kafka.partition_counts(kafka.admin(self._bootstrap), [*names.values()])
        counts = {topic: there[name] for topic, name in names.items()}
        places = [(t, p) for t in LIVE for p in partitions.get(names[t], ()) if p < counts[t]]
        places += [(t, partition_of(self._key, counts[t])) for t in LIVE]
        for topic in (*STORED, *AGAIN):
            for p in range(counts[topic]):
                count = sum(map(self._is_ours, self._read(topic, p)))
                places += [(topic, p)] if count else []
                self.found[topic] += count
        keys = {
            topic: {m.key() or b"" for p in range(counts[topic]) for m in self._read(topic, p)
                    if self._is_ours(m)}
            for topic in COMPACTED
        }  # fmt: skip
        places += [(topic, p) for topic in COMPACTED if keys[topic] for p in range(counts[topic])]
        with self._new_segments({topic for topic, _ in places}):
            self._send("telemetry", self._key)
            for topic, some in keys.items():
                for key in some:
                    self._send(topic, key)
            self._flush()
            for topic, p in dict.fromkeys(places):
                self._send(topic, MARKER, p, partial(self.ends.__setitem__, (topic, p)))
            self._flush()

    def cut(self) -> None:
        """Delete what lies before the markers; of compacted topics Kafka does so by itself."""
        ends = {place: end for place, end in self.ends.items() if place[0] not in COMPACTED}
        asked = [TopicPartition(self._name(topic), p, end) for (topic, p), end in ends.items()]
        with kafka.service_errors(f"Kafka {self._bootstrap}: records of {self._vehicle} cannot be deleted"):
            client = kafka.admin(self._bootstrap)  # its end would end the request
            for done in client.delete_records(asked).values():
                done.result(TIMEOUT_S)

    def _name(self, topic: str) -> str:
        return kafka_topic(self._prefix, topic)

    def _read(self, topic: str, partition: int, end: int | None = None) -> Iterator[Message]:
        name = self._name(topic)
        with kafka.LogReader(self._bootstrap, "odograph-privacy") as log:
            low, high = log.bounds(name, partition)
            yield from log.messages(name, partition, low, high if end is None else end)

    def _is_ours(self, message: Message) -> bool:
        """Whether the vehicle is in it, in whatever way; a crash record that is kept is not meant."""
        value = message.value() or b""
        if self._key not in (message.key() or b"") and self._key not in value:
            return False
        if not self._kept or not str(message.topic()).endswith("crash"):
            return True
        try:
            return orjson.loads(value)["crash_id"] not in self._kept
        except (ValueError, TypeError, KeyError):
            return True

    def append_again(self) -> None:
        """Append others' records again behind the markers, which all consumers have read: from here on both
        are there, until the cut.
        """
        for (topic, partition), end in self.ends.items():
            if topic in AGAIN:
                self._append_again(topic, partition, end)

    def _append_again(self, topic: str, partition: int, end: int) -> None:
        """Each once: what a killed try has appended already stands for the record that it is a copy of."""
        copies, stands_for = self._copies(topic, partition, end), dict[int, list[int]]()
        for message in self._read(topic, partition, end):
            if message.value() is None or self._is_ours(message):
                continue
            at = int(message.offset() or 0)
            offsets = [*stands_for.pop(at, ()), at]
            later = copies.get(_digest(message) if copies else b"", deque[int]())
            while later and later[0] <= at:
                later.popleft()
            if later:
                stands_for[later.popleft()] = offsets
                continue
            told = partial(self._note, offsets) if topic == "dead-letter" else None
            headers = [*_headers(message), (HEADER_AGAIN, b"1")]
            at_ms = int(message.timestamp()[1])
            self._send(topic, message.key(), partition, told, message.value(), headers, at_ms)
        self._flush()

    def _note(self, offsets: Collection[int], new: int) -> None:
        self.moved.update(dict.fromkeys(offsets, new))

    def _copies(self, topic: str, partition: int, end: int) -> dict[bytes, deque[int]]:
        """Offsets of copies behind a marker that nothing was cut at, by what they are copies of."""
        found, is_behind = defaultdict[bytes, deque[int]](deque), False
        for message in islice(self._read(topic, partition, end), 1, None):
            is_behind |= message.value() is None and not message.key()
            if is_behind and len(_headers(message)) < len(kafka.headers_of(message)):
                found[_digest(message)].append(int(message.offset() or 0))
        return found

    def _send(
        self, topic: str, key: bytes | str | None, partition: int = -1,
        told: Callable[[int], None] | None = None, value: bytes | str | None = None,
        headers: list[Any] | None = None, at_ms: int = 0,
    ) -> None:  # fmt: skip
        def done(error: Any, message: Message) -> None:
            if error is not None:
                raise ServiceError(f"Kafka {self._bootstrap}: {topic}: {error}")
            if told is not None:
                told(int(message.offset() or 0))

        record = (self._name(topic), value, key, partition, done)
        kafka.produce(self._producer, *record, timestamp=at_ms, headers=headers or [])
        self._producer.poll(0)

    def _flush(self) -> None:
        if self._producer.flush(TIMEOUT_S):
            raise ServiceError(f"Kafka {self._bootstrap}: records were not taken within {TIMEOUT_S:g} s")

    @contextmanager
    def _new_segments(self, topics: Collection[str]) -> Iterator[None]:
        """While the block runs, an append to one of the topics begins a new segment. After a kill in it the
        next try, or ``create_topics``, ends that.
        """
        names = [self._name(topic) for topic in topics]
        self._set(names, ConfigEntry(SEGMENT, SEGMENT_EACH, incremental_operation=AlterConfigOpType.SET))
        try:
            time.sleep(SETTLE_S)
            yield
        finally:
            self._set(names, ConfigEntry(SEGMENT, None, incremental_operation=AlterConfigOpType.DELETE))

    def _set(self, topics: Collection[str], entry: ConfigEntry) -> None:
        wanted = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry]) for name in topics]
        with kafka.service_errors(f"Kafka {self._bootstrap}: settings of topics"):
            client = kafka.admin(self._bootstrap)
            for done in client.incremental_alter_configs(wanted).values():
                done.result(TIMEOUT_S)


def _headers(message: Message) -> list[tuple[str, Any]]:
    """Without that of a copy."""
    return [(name, value) for name, value in kafka.headers_of(message) if name != HEADER_AGAIN]


def _digest(message: Message) -> bytes:
    """The same of a record and of its copies."""
    told = (message.key(), message.value(), message.timestamp()[1], _headers(message))
    return hashlib.sha256(repr(told).encode()).digest()
