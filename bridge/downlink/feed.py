"""The topic ``alerts`` as a destination reads it: its place in the log, what it delivers and gives up."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from infra.clients import kafka
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.downlink import Silences, silence_file
from infra.contract.errors import ContractError, ServiceError
from infra.contract.frame import Frame
from infra.contract.messages import ALERT_LATE_MS, SEVERITIES, decode_alert
from infra.contract.topics import HEADER_DETAIL, HEADER_RECEIVED_MS, VEHICLE_ID, kafka_topic
from infra.settings.settings import Endpoints, Settings

ASK_S: Final = 5.0
KEEP_S: Final = 600.0
"""Offsets are committed anew at least so often: Kafka forgets a group that is quiet for 7 days."""

HEADER_DESTINATION: Final = "destination"

READ: Final[dict[str, Any]] = {
    "queued.min.messages": 1000,  # a dead webhook's backlog stays in Kafka, not in our memory
    "queued.max.messages.kbytes": 4096,
}

Skip = Literal["broken", "late", "stale", "severity", "repeat", "ended", "silenced"]
"""Why an alert is not delivered: no alert at all; found late; found in time and read too late; not severe
enough for this destination; a repetition; the end of an alert; silenced (infra.contract.downlink)."""

REPEATS_KEPT: Final = 100_000
ALERT_ID: Final = re.compile(r"[!-~]{1,128}")  # it becomes a header of HTTP and a key that receivers keep
BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0)


class Found(NamedTuple):
    """A record of the topic ``alerts``; ``at_ms`` is its Kafka timestamp."""

    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes


def read(found: Found) -> Frame:
    """The alert in a record; raises ContractError. Its ids are fit for an MQTT topic and an HTTP header."""
    alert = decode_alert(found.value)
    if ALERT_ID.fullmatch(alert["alert_id"]) is None:
        raise ContractError("bad_identity", "alert_id is not 1 to 128 characters of ASCII without spaces")
    if VEHICLE_ID.fullmatch(alert["vehicle_id"]) is None:
        raise ContractError("bad_identity", f"vehicle_id {alert['vehicle_id']!r} is not a VIN")
    return alert


def late(alert: Frame) -> bool:
    """Whether it was found too late to notify anybody: the same on every replay."""
    return bool(alert["received_ms"] - alert["event_ms"] > ALERT_LATE_MS)


def suppressed(alert: Frame, silences: Silences, now_ms: int) -> Skip | None:
    """Why an alert is delivered to nobody: it only says that one is over, or somebody silenced it."""
    if alert.get("ended") is True:
        return "ended"
    return "silenced" if silences.cover(alert["vehicle_id"], alert["rule"], now_ms) else None


def valid_s(alert: Frame, now_ms: int) -> int:
    """How long a vehicle may still receive it, s; 0 or less: stale, a driver would act on what is over."""
    return int(min(alert["event_ms"], now_ms) + ALERT_LATE_MS - now_ms) // 1000


def severe(alert: Frame, least: str) -> bool:
    """Whether it is of severity ``least`` or above."""
    return SEVERITIES.index(alert["severity"]) >= SEVERITIES.index(least)


@dataclass(slots=True)
class Repeats:
    """What a destination received, by the alerts' own receive times; a higher severity is no repetition."""

    every_ms: int
    _last: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def is_one(self, alert: Frame) -> bool:
        """Whether one of its vehicle and rule was delivered within ``every_ms``, as severe or more."""
        at_ms, severity = self._last.get((alert["vehicle_id"], alert["rule"]), (-self.every_ms, -1))
        recent = alert["received_ms"] - at_ms < self.every_ms
        return recent and SEVERITIES.index(alert["severity"]) <= severity

    def delivered(self, alert: Frame) -> None:
        """It was delivered now."""
        if len(self._last) >= REPEATS_KEPT:
            self._last.clear()
        place = (alert["vehicle_id"], alert["rule"])
        self._last[place] = (alert["received_ms"], SEVERITIES.index(alert["severity"]))


class Feed:
    """Alerts from where ``group`` stands. Partitions are assigned: a destination may take its time.

    A group that never committed begins at the end: 30 old days are not delivered. Raises ``kafka.LOST``.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = kafka.consumer(bootstrap, group, READ)
        self._next: dict[int, int] = {}
        self._kept_s = 0.0

    def __enter__(self) -> Feed:
        try:
            count = kafka.partition_counts(self._consumer, [self._topic], ASK_S)[self._topic]
            self._next = self._positions(range(count))
            self._consumer.assign(self._places())
            self._keep()
        except BaseException:
            self._consumer.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _positions(self, partitions: range) -> dict[int, int]:
        """Where to begin: as committed; else at the end, or at the beginning of a partition added since."""
        asked = [TopicPartition(self._topic, p) for p in partitions]
        held = {place.partition: place.offset for place in self._consumer.committed(asked, timeout=ASK_S)}
        known = any(offset >= 0 for offset in held.values())
        return {p: held[p] if held[p] >= 0 else (0 if known else self._end(p)) for p in partitions}

    def _end(self, partition: int) -> int:
        ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=ASK_S)
        if ends is None:
            raise ServiceError(f"Kafka does not report the end of {self._topic}/{partition}")
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
        self._next |= moved
        if moved or time.monotonic() - self._kept_s > KEEP_S:
            self._keep()

    def _keep(self) -> None:
        self._consumer.commit(offsets=self._places(), asynchronous=False)
        self._kept_s = time.monotonic()

    def lag(self) -> int:
        """Records not settled yet, by the ends that Kafka reported last."""
        behind = 0
        for partition, offset in self._next.items():
            ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            behind += max(0, ends[1] - offset) if ends is not None else 0
        return behind


def _found(message: Any) -> Found:
    if message.error() is not None:
        raise KafkaException(message.error())
    return Found(
        message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value() or b""
    )


def send_to_dlq(bootstrap: str, topic: str, found: Found, destination: str, detail: str) -> None:
    """Record an alert that ``destination`` did not take; raises ServiceError until Kafka has it."""
    failures: list[KafkaError | None] = []
    producer = kafka.producer(bootstrap, {"delivery.report.only.error": True})
    headers: list[tuple[str, str | bytes | None]] = [
        (HEADER_DESTINATION, destination.encode()),
        (HEADER_DETAIL, detail[:500].encode()),
        (HEADER_RECEIVED_MS, b"%d" % found.at_ms),
    ]
    producer.produce(
        topic, found.value, found.key, headers=headers, on_delivery=lambda error, _: failures.append(error)
    )
    unsent = producer.flush(ASK_S)
    if unsent or failures:
        why = ", ".join(map(str, failures)) or f"{unsent} unsent"
        raise ServiceError(f"a dead delivery cannot be written: {why}")


@dataclass(frozen=True, slots=True)
class Where:
    """Names and addresses that every destination needs; ``group`` begins the consumer groups' names."""

    bootstrap: str
    mqtt: MqttBroker
    mqtt_root: str
    client_id: str
    alerts: str
    dead: str
    group: str
    silences: Path

    @classmethod
    def of(cls, settings: Settings, endpoints: Endpoints) -> Where:
        """The names in force."""
        prefix = settings.kafka.prefix
        return cls(
            endpoints.kafka_bootstrap, endpoints.mqtt, settings.mqtt.root,
            f"{settings.bridge.client_id}-downlink", kafka_topic(prefix, "alerts"),
            kafka_topic(prefix, "dead-delivery"), f"{prefix}downlink", silence_file(settings.paths.home),
        )  # fmt: skip


class DownlinkMetrics:
    """Counters of one process by destination, ``vehicles`` or a webhook's name; safe between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by = ["destination"]
        self.read = self._counter("alerts_read", "Alerts read from Kafka.", by)
        self.delivered = self._counter("delivered", "Alerts acknowledged by PUBACK or 2xx.", by)
        self.skipped = self._counter("skipped", "Alerts that were not to be delivered.", [*by, "reason"])
        self.undelivered = self._counter("undelivered", "Alerts given up and recorded.", by)
        self.attempts = self._counter("attempts", "Attempts at a webhook.", [*by, "outcome"])
        self.restarts = self._counter("restarts", "Beginnings after trouble.", by)
        self.nobody = self._counter("no_subscriber", "Alerts for which the broker knows no session.", [])
        self.lag = Gauge("odograph_downlink_lag_records", "Not settled yet.", by, registry=self.registry)
        self.ready = Gauge("odograph_downlink_ready", "1 while it can deliver.", by, registry=self.registry)
        self.delay_s = Histogram(
            "odograph_downlink_delivery_seconds", "From Kafka's timestamp to the acknowledgement.", by,
            buckets=BOUNDS_S, registry=self.registry,
        )  # fmt: skip

    def _counter(self, name: str, meaning: str, labels: list[str]) -> Counter:
        return Counter(f"odograph_downlink_{name}", meaning, labels, registry=self.registry)


class Delivery:
    """How one destination is served until trouble or ``stop``."""

    def __init__(self, name: str, at: Where, metrics: DownlinkMetrics) -> None:
        self.name = name
        self.at = at
        self.metrics = metrics
        self.silences = Silences(at.silences)
        self.log = structlog.get_logger().bind(destination=name)

    def serve(self, stop: threading.Event, ready: Callable[[], None]) -> None:
        """Deliver; call ``ready`` once everything is connected. Raises KafkaException, ServiceError."""
        raise NotImplementedError

    def skip(self, reason: Skip) -> None:
        """Count an alert that is not to be delivered."""
        self.metrics.skipped.labels(self.name, reason).inc()

    def delivered(self, found: Found) -> None:
        """Count a delivery, and how long it took."""
        self.metrics.delivered.labels(self.name).inc()
        delay_ms = max(0, time.time_ns() // 1_000_000 - found.at_ms)
        self.metrics.delay_s.labels(self.name).observe(delay_ms / 1000)

    def give_up(self, found: Found, why: str) -> None:
        """Record an alert that the destination did not take."""
        send_to_dlq(self.at.bootstrap, self.at.dead, found, self.name, why)
        self.metrics.undelivered.labels(self.name).inc()


def undelivered(settings: Settings, endpoints: Endpoints, limit: int, json: bool) -> Iterator[str]:
    """A line for each of the last ``limit`` dead deliveries, oldest first. Raises ServiceError."""
    topic = kafka_topic(settings.kafka.prefix, "dead-delivery")
    kept: deque[dict[str, Any]] = deque(maxlen=limit)
    for message in _everything(endpoints.kafka_bootstrap, topic):
        found, headers = _found(message), dict(message.headers() or [])
        row = {
            "at": datetime.fromtimestamp(found.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "offset": found.offset,
            "destination": headers.get(HEADER_DESTINATION, b"").decode(errors="replace"),
            "why": headers.get(HEADER_DETAIL, b"").decode(errors="replace"),
        }
        keys = ("alert_id", "vehicle_id", "rule", "severity")
        try:
            alert = decode_alert(found.value)
            kept.append(row | {key: alert[key] for key in keys})
        except ContractError as error:
            kept.append(row | dict.fromkeys(keys) | {"broken": str(error)})
    columns = ("at", "destination", "severity", "vehicle_id", "rule", "alert_id", "why")
    for row in kept:
        yield orjson.dumps(row).decode() if json else "  ".join(str(row[key]) for key in columns)


def _everything(bootstrap: str, topic: str) -> Iterator[Any]:
    """All messages of a topic, up to the end as it is now; raises ServiceError."""
    with kafka.LogReader(bootstrap) as log:
        with kafka.service_errors(f"Kafka {bootstrap}"):
            partitions = kafka.partition_counts(kafka.admin(bootstrap), [topic])[topic]
        for partition in range(partitions):
            yield from log.messages(topic, partition, *log.bounds(topic, partition))
