"""Kafka clients: their common settings, errors as ServiceError, and a reader of stretches of the log."""

import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, cast

import orjson
import structlog
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, TopicMetadata  # type: ignore[attr-defined]

from infra.contract.errors import ConfigError, ServiceError, raised_as
from infra.contract.topics import kafka_topic

TIMEOUT_S: Final = 5.0
LOST: Final = (KafkaException, ServiceError)  # what is raised when Kafka is away or not ready
BATCH: Final = 5000
CA, CERT = "?ca=", "&cert="
"""In an address with TLS, before the authorities' file and our certificate with its key (PEM)."""
log = structlog.get_logger("infra.clients.kafka")
_SEQ: Final = re.compile(rb'"seq"\s*:\s*(\d+)')
_BOOT: Final = re.compile(rb'"boot_id"\s*:\s*(\d+)')


def _parts(bootstrap: str) -> tuple[str, str, str]:
    """Servers, authorities' file, our certificate's file of ``host:port[,host:port][?ca=FILE&cert=FILE]``."""
    servers, _, files = bootstrap.partition(CA)
    ca, _, certificate = files.partition(CERT)
    return servers, ca, certificate


def access(bootstrap: str) -> dict[str, str]:
    """The client's settings of an address. Raises ConfigError for a file that cannot be used."""
    servers, ca, certificate = _parts(bootstrap)
    context, file = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca
    try:
        if ca:
            context.load_verify_locations(ca)
        if file := certificate:  # a password, even an empty one: OpenSSL asks at the terminal otherwise
            context.load_cert_chain(certificate, password="")
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"certificates for Kafka {servers}: {file}: {error}") from error
    ours = {"ssl.certificate.location": certificate, "ssl.key.location": certificate} if certificate else {}
    tls = {"security.protocol": "ssl", "ssl.ca.location": ca, **ours} if ca else {}
    return {"bootstrap.servers": servers, **tls}


def java_access(bootstrap: str) -> dict[str, str]:
    """The same as options of Spark."""
    servers, *files = _parts(bootstrap)
    options = {"kafka.bootstrap.servers": servers}
    for store, file in zip(("truststore", "keystore"), filter(None, files), strict=False):
        options |= {"kafka.security.protocol": "SSL", f"kafka.ssl.{store}.type": "PEM"}
        options[f"kafka.ssl.{store}.location"] = file
    return options


def consumer(bootstrap: str, group: str, settings: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer that commits nothing by itself and is told where to begin; ``settings`` override.

    To read what the log does not hold, or holds no more, is an error: nobody begins anew unasked.
    """
    common = {
        **access(bootstrap), "group.id": group, "auto.offset.reset": "error",
        "enable.auto.commit": False, "enable.auto.offset.store": False, "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
    }  # fmt: skip
    return Consumer(common | dict(settings or {}))


NEW_PARTITION_MS: Final = 20_000


def producer(bootstrap: str, settings: Mapping[str, Any] | None = None) -> Producer:
    """An idempotent producer that chooses partitions as ``contract.topics`` does; ``settings`` override.

    It uses a partition that was added within ``NEW_PARTITION_MS``.
    """
    common = {
        **access(bootstrap), "acks": "all", "enable.idempotence": True,
        "partitioner": "murmur2_random", "log_level": 0,
        "topic.metadata.refresh.interval.ms": NEW_PARTITION_MS,
    }  # fmt: skip
    return Producer(common | dict(settings or {}))


def produce(client: Producer, *record: Any, **more: Any) -> None:
    """The client's ``produce``, which waits while its queue is full; callbacks come meanwhile."""
    while True:
        try:
            client.produce(*record, **more)
        except BufferError:
            client.poll(0.1)
        else:
            return


def admin(bootstrap: str) -> AdminClient:
    """A client for topics and the cluster."""
    return AdminClient(access(bootstrap) | {"log_level": 0})


def topics_of(bootstrap: str, timeout_s: float = TIMEOUT_S) -> dict[str, TopicMetadata]:
    """All topics of a cluster by their full names. Raises ServiceError."""
    with service_errors(f"Kafka {bootstrap}"):
        return admin(bootstrap).list_topics(timeout=timeout_s).topics


def service_errors(what: str) -> AbstractContextManager[None]:
    """The client's errors as ServiceError, which begins with ``what``."""
    return raised_as(ServiceError, what, KafkaException, TimeoutError)


def partition_counts(
    client: Consumer | AdminClient, topics: Sequence[str], timeout_s: float = TIMEOUT_S
) -> dict[str, int]:
    """Partitions of each topic by its full name. Raises KafkaException; ServiceError where one is missing."""
    known = client.list_topics(timeout=timeout_s).topics
    missing = [name for name in topics if name not in known or known[name].error is not None]
    if missing:
        raise ServiceError(
            f"topics are missing: {', '.join(missing)}; `odograph up`, or `odograph install`, creates them"
        )
    return {name: len(known[name].partitions) for name in topics}


def log_generations(bootstrap: str, topics: Iterable[str]) -> dict[str, str]:
    """The identity of each topic's log by its full name: what its offsets are places in. Raises ServiceError.

    It is the topic's id, random, given by Kafka when the topic was made: one that was made anew has another,
    and so has its mirror in another cluster. (A cluster's own id would be the same for the former.)
    """
    client = admin(bootstrap)  # its end would end the request
    with service_errors(f"Kafka {bootstrap}: ids of topics"):
        asked = client.describe_topics(TopicCollection([*topics]), request_timeout=TIMEOUT_S)
        return {name: str(found.result(TIMEOUT_S + 1).topic_id) for name, found in asked.items()}


def resumed(held: int, bounds: tuple[int, int], place: str, beyond: Literal["begin", "end"]) -> int:
    """Where to read on from ``held``: there, or where the log begins or ends if it does not hold that.

    Either is told as an error: records were never read, or the log is not the one that was. ``beyond``: what
    is read then. ``bounds``: the oldest offset kept and the next to be written of ``place``.
    """
    low, high = bounds
    if low <= held <= high or (not held and low):  # 0: nothing was read yet
        return max(low, held)
    goes_on = low if held < low or beyond == "begin" else high
    why = "retention took records that were not read" if held < low else "the log ends before what was read"
    log.error(why, place=place, read_to=held, log_begins=low, log_ends=high, goes_on_at=goes_on)
    return goes_on


def bounds(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """The oldest offset kept, and the next one to be written. Raises KafkaException, ServiceError."""
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
    if found is None:
        raise ServiceError(f"Kafka does not report the ends of {topic}/{partition} within {timeout_s:g} s")
    return int(found[0]), int(found[1])


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the log; times in ms since 1970."""

    topic: str
    partition: int
    offset: int
    received_ms: int
    value: bytes
    headers: dict[str, str]
    key: str | None = None


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """Names and values; none where a name is no text, which the client cannot read."""
    try:
        return cast("list[tuple[str, bytes | None]]", message.headers() or [])
    except UnicodeDecodeError:
        return []


def record_of(message: Message) -> Record:
    """The client's message as a record; what is no text is replaced."""
    key = message.key()
    return Record(
        topic=message.topic() or "",
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        received_ms=int(message.timestamp()[1]),
        value=message.value() or b"",
        headers={name: (value or b"").decode(errors="replace") for name, value in headers_of(message)},
        key=None if key is None else key.decode(errors="replace"),
    )


def taken(consumer: Consumer, limit: int, wait_s: float) -> list[Message]:
    """What there is, at most ``limit`` messages; waits for the first one only. Raises KafkaException."""
    found = consumer.consume(1, wait_s)
    if found and limit > 1:
        found += consumer.consume(limit - 1, 0)
    for message in found:
        if (error := message.error()) is not None:
            raise KafkaException(error)
    return found


def identity(value: bytes) -> tuple[int, int] | None:
    """Boot id and sequence number of a payload, as far as it can be read; None where it has neither.

    Of what is no JSON (a dead letter) the first number after the key is taken.
    """
    try:
        message: Any = orjson.loads(value)
        return int(message["boot_id"]), int(message["seq"])
    except (ValueError, TypeError, KeyError):
        seq, boot = _SEQ.search(value), _BOOT.search(value)
        return (int(boot[1]) if boot else -1, int(seq[1])) if seq else None


class LogReader:
    """Reads offsets and stretches of records, without a group's offsets. Raises ServiceError."""

    def __init__(self, bootstrap: str, group: str = "odograph-reader", timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._consumer = consumer(bootstrap, group, {"enable.partition.eof": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The oldest offset kept, and the next one to be written."""
        with service_errors(f"Kafka {self._bootstrap}: offsets of {topic}"):
            return bounds(self._consumer, topic, partition, self._timeout_s)

    def partitions(self, topic: str) -> int:
        with service_errors(f"Kafka {self._bootstrap}: partitions of {topic}"):
            return partition_counts(self._consumer, [topic], self._timeout_s)[topic]

    def generation(self, topic: str) -> str:
        return log_generations(self._bootstrap, [topic])[topic]

    def spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """``bounds`` of each partition that the topic has now."""
        return {partition: self.bounds(topic, partition) for partition in range(self.partitions(topic))}

    def since(self, topic: str, partition: int, at_ms: int) -> int:
        """The first offset received at ``at_ms`` or later by the log's time index; the end without one."""
        with service_errors(f"Kafka {self._bootstrap}: times of {topic}"):
            asked = [TopicPartition(topic, partition, at_ms)]
            offset = int(self._consumer.offsets_for_times(asked, timeout=self._timeout_s)[0].offset)
        return offset if offset >= 0 else self.bounds(topic, partition)[1]

    def at(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at an offset; None where retention has taken it."""
        low, high = self.bounds(topic, partition)
        within = low <= offset < high
        return next(self.records(topic, partition, offset, offset + 1), None) if within else None

    def records(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Record]:
        """Records of offsets begin..end-1, as far as retention has left them."""
        begin = max(begin, self.bounds(topic, partition)[0])
        return map(record_of, self.messages(topic, partition, begin, end))

    def messages(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Message]:
        """The client's messages of offsets begin..end-1, which ends early at the partition's end."""
        if begin >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, begin)])
        try:
            yield from self._until(topic, begin, end)
        finally:
            self._consumer.unassign()  # or it would go on fetching

    def _until(self, topic: str, begin: int, end: int) -> Iterator[Message]:
        until_s = time.monotonic() + self._timeout_s
        while time.monotonic() < until_s:
            for message in self._consumer.consume(min(BATCH, end - begin), timeout=0.2):
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
                until_s = time.monotonic() + self._timeout_s
        raise ServiceError(f"Kafka {self._bootstrap}: {topic} gives nothing for {self._timeout_s:g} s")


@contextmanager
def following(
    bootstrap: str, group: str, topics: Sequence[str], take: Callable[[Record], None]
) -> Iterator[Callable[[int, float], None]]:
    """``take`` gets all that the topics hold, and in the block what comes behind it, when that is asked for.

    It is by what the block is given: at most so many records, waiting so long (s) for the first. Raises LOST.
    """
    places: list[TopicPartition] = []
    with LogReader(bootstrap) as log:
        for topic in topics:
            for partition, (low, end) in log.spans(topic).items():
                for record in log.records(topic, partition, low, end):
                    take(record)
                places.append(TopicPartition(topic, partition, end))
    reader = consumer(bootstrap, group)

    def more(limit: int, wait_s: float) -> None:
        for message in taken(reader, limit, wait_s):
            take(record_of(message))

    try:
        reader.assign(places)
        yield more
    finally:
        reader.close()


class LogEnds(LogReader):
    """How much was ever appended to the contract's topics: by Kafka, whatever retention took since."""

    def __init__(self, bootstrap: str, prefix: str, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(bootstrap, "odograph-log-ends", timeout_s)
        self._prefix = prefix

    def topic(self, name: str) -> str:
        """The full name of the contract's topic ``name``."""
        return kafka_topic(self._prefix, name)

    def ends(self, name: str) -> dict[int, int]:
        """The next offset of each partition of the contract's topic ``name``."""
        return {p: high for p, (_, high) in self.spans(self.topic(name)).items()}

    def appended(self, name: str) -> int:
        """Records ever appended to the contract's topic ``name``."""
        return sum(self.ends(name).values())

    def kept(self, name: str) -> int:
        """Records that lie in the contract's topic ``name``."""
        return sum(high - low for low, high in self.spans(self.topic(name)).values())
