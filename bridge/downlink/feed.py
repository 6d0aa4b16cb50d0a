"""The topic ``alerts`` as a destination reads it: its place in the log, what it delivers and gives up."""

import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Self

import structlog
from confluent_kafka import KafkaError, TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bridge.downlink.incidents import Ask, following
from infra.clients import kafka
from infra.clients.kafka import Record
from infra.clients.leases import Term
from infra.contract.downlink import Fleets, Silences
from infra.contract.errors import ContractError, ServiceError
from infra.contract.frame import Frame
from infra.contract.messages import ALERT_LATE_MS, SEVERITIES, decode_alert
from infra.contract.topics import HEADER_DETAIL, HEADER_RECEIVED_MS, VEHICLE_ID, kafka_topic
from infra.settings.settings import Endpoints, Settings

ASK_S: Final = 5.0
KEEP_S: Final = 600.0  # offsets are committed anew this often: Kafka forgets a group that is quiet for 7 days

HEADER_DESTINATION: Final = "destination"

READ: Final[dict[str, Any]] = {
    "queued.min.messages": 1000,  # a dead webhook's backlog stays in Kafka, not in our memory
    "queued.max.messages.kbytes": 4096,
}

Skip = Literal[
    "broken", "late", "stale", "severity", "repeat", "incident", "ended", "silenced", "fleet", "settled"
]
"""Why an alert is not delivered: no alert at all; found late; found in time and read too late; not severe
enough for this destination; a repetition; of an incident that was told, as severe or more; the end of an
alert; silenced (infra.contract.downlink); its fleet is another; dealt with before, under the same id."""

REPEATS_KEPT: Final = 100_000
ALERT_ID: Final = re.compile(r"[!-~]{1,128}")  # it becomes a header of HTTP and a key that receivers keep
BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0)
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GOOD_S: Final = 10.0  # after a stretch of this the pauses begin small again


def read(value: bytes) -> Frame:
    """The alert in a record; raises ContractError. Its ids are fit for an MQTT topic and an HTTP header."""
    alert = decode_alert(value)
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
    covered = silences.cover(alert["vehicle_id"], alert["rule"], now_ms, alert["cause"])
    return "silenced" if covered else None


def valid_s(alert: Frame, now_ms: int) -> int:
    """How long a vehicle may still receive it, s; 0 or less: stale, a driver would act on what is over."""
    return int(min(alert["event_ms"], now_ms) + ALERT_LATE_MS - now_ms) // 1000


def severe(alert: Frame, least: str) -> bool:
    """Whether it is of severity ``least`` or above."""
    return SEVERITIES.index(alert["severity"]) >= SEVERITIES.index(least)


@dataclass(slots=True)
class Repeats:
    """What a destination received, by the alerts' own receive times; a higher severity is no repetition.

    ``keys``: of an alert, what is repeated. An incident that has become the fleet's is another one.
    """

    every_ms: float
    keys: tuple[str, str]
    _last: dict[tuple[Any, Any], tuple[int, str]] = field(default_factory=dict)

    def is_one(self, alert: Frame) -> bool:
        """Whether one with its keys was delivered within ``every_ms``, as severe or more."""
        last = self._last.get(self._key(alert))
        if last is None or alert["received_ms"] - last[0] >= self.every_ms:
            return False
        return alert["severity"] == last[1] or not severe(alert, last[1])

    def delivered(self, alert: Frame) -> None:
        if len(self._last) >= REPEATS_KEPT:
            self._last.clear()
        self._last[self._key(alert)] = (alert["received_ms"], alert["severity"])

    def _key(self, alert: Frame) -> tuple[Any, Any]:
        return alert[self.keys[0]], alert[self.keys[1]]


class Feed:
    """Alerts from where ``group`` stands. Partitions are assigned: a destination may take its time.

    A group that never committed begins at the end: 30 old days are not delivered; so does one whose place is
    beyond the log's end, in another log then. With ``whole`` a group that never committed begins at the
    beginning: its reader knows what it has dealt with. Raises ``kafka.LOST``.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, term: Term, *, whole: bool = False) -> None:
        self._topic, self._term, self._whole = topic, term, whole
        self._consumer = kafka.consumer(bootstrap, group, READ)
        self._next: dict[int, int] = {}
        self._kept_s = 0.0

    def __enter__(self) -> Self:
        """Begin as committed; else at the end, or at the beginning of a partition added since.

        What the log holds no more, or not yet, is told; nothing is delivered again for it.
        """
        try:
            count = kafka.partition_counts(self._consumer, [self._topic], ASK_S)[self._topic]
            asked = [TopicPartition(self._topic, p) for p in range(count)]
            held = {place.partition: place.offset for place in self._consumer.committed(asked, timeout=ASK_S)}
            known = self._whole or any(offset >= 0 for offset in held.values())
            for partition, offset in held.items():
                bounds = kafka.bounds(self._consumer, self._topic, partition, ASK_S)
                begin = offset if offset >= 0 else 0 if known else bounds[1]
                self._next[partition] = kafka.resumed(begin, bounds, f"{self._topic}/{partition}", "end")
            self._consumer.assign(self._places())
            self._keep()
        except BaseException:
            self._consumer.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, p, offset) for p, offset in self._next.items()]

    def read(self, limit: int, wait_s: float) -> list[Record]:
        """What there is, at most ``limit``; waits for the first record only."""
        return [kafka.record_of(message) for message in kafka.taken(self._consumer, limit, wait_s)]

    def commit(self, settled: Mapping[int, int]) -> None:
        """Everything before these offsets is settled; returns when Kafka has it."""
        if not settled.items() <= self._next.items() or time.monotonic() - self._kept_s > KEEP_S:
            self._next |= settled
            self._keep()

    def _keep(self) -> None:
        self._term.require()
        self._consumer.commit(offsets=self._places(), asynchronous=False)
        self._kept_s = time.monotonic()

    def lag(self) -> int:
        """Records not settled yet, by the ends that Kafka reported last."""
        behind = 0
        for partition, offset in self._next.items():
            ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            behind += max(0, ends[1] - offset) if ends is not None else 0
        return behind


class DownlinkMetrics:
    """Counters of one process by destination, ``vehicles`` or a webhook's name; safe between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by = ["destination"]

        def counter(name: str, meaning: str, labels: list[str]) -> Counter:
            return Counter(f"odograph_downlink_{name}", meaning, labels, registry=self.registry)

        self.read = counter("alerts_read", "Alerts read from Kafka.", by)
        self.delivered = counter("delivered", "Alerts acknowledged by PUBACK or 2xx.", by)
        self.skipped = counter("skipped", "Alerts that were not to be delivered.", [*by, "reason"])
        self.undelivered = counter("undelivered", "Alerts given up and recorded.", by)
        self.attempts = counter("attempts", "Attempts at a webhook.", [*by, "outcome"])
        self.restarts = counter("restarts", "Beginnings after trouble.", by)
        self.nobody = counter("no_subscriber", "Alerts for which the broker knows no session.", [])
        self.lag = Gauge("odograph_downlink_lag_records", "Not settled yet.", by, registry=self.registry)
        self.ready = Gauge("odograph_downlink_ready", "1 while it can deliver.", by, registry=self.registry)
        self.delay_s = Histogram(
            "odograph_downlink_delivery_seconds", "From Kafka's timestamp to the acknowledgement.", by,
            buckets=BOUNDS_S, registry=self.registry,
        )  # fmt: skip


class Process(NamedTuple):
    """What the destinations of one process share."""

    stop: Term
    settings: Settings
    endpoints: Endpoints
    metrics: DownlinkMetrics


class Destination(threading.Thread):
    """Delivers to one destination until the end is asked for; begins anew after trouble.

    ``reason`` says why it cannot deliver, None when it can.
    """

    def __init__(self, name: str, process: Process) -> None:
        super().__init__(name=name)
        self.stop, settings, endpoints, self.metrics = process
        self.reason: str | None = "not connected yet"
        self.silences = Silences(settings.paths.home)
        self.fleets = Fleets(settings.paths.home)
        self.log = structlog.get_logger().bind(destination=name)
        self._kafka, self._prefix = endpoints.kafka_bootstrap, settings.kafka.prefix
        self.regions = bool(settings.region.name)
        self.metrics.ready.labels(name).set(0)

    def run(self) -> None:
        """Serve, with a pause after each trouble."""
        failures = 0
        while not self.stop.is_set():
            begun_s = time.monotonic()
            try:
                self.stop.require()
                self.serve()
            except kafka.LOST as error:
                self._lost(str(error))
            except Exception as error:
                self.log.error("defect", exc_info=True)
                self._lost(f"{type(error).__name__}: {error}")
            failures = 0 if time.monotonic() - begun_s > GOOD_S else failures
            self.stop.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            failures += 1

    def serve(self) -> None:
        """Deliver until ``stop``; call ``ready`` when connected. Raises KafkaException, ServiceError."""
        raise NotImplementedError

    def feed(self, group: str, *, whole: bool) -> Feed:
        topic = kafka_topic(self._prefix, "alerts")
        return Feed(self._kafka, topic, f"{self._prefix}downlink.{group}", self.stop, whole=whole)

    def incidents(self) -> AbstractContextManager[Ask]:
        return following(self._kafka, kafka_topic(self._prefix, "incidents"))

    def read(self, feed: Feed, known: Ask, limit: int, wait_s: float) -> list[tuple[Record, Frame]]:
        """Records with their alerts, which have the keys of Incident besides; {} where one holds no alert."""
        found: list[tuple[Record, Frame]] = []
        for record in feed.read(limit, wait_s):
            self.metrics.read.labels(self.name).inc()
            try:
                found.append((record, read(record.value)))
            except ContractError as error:
                self.log.warning("no alert", partition=record.partition, offset=record.offset, why=str(error))
                self.skip("broken")
                found.append((record, {}))
        alerts = [alert for _, alert in found if alert]
        for alert, incident in zip(alerts, known(alerts), strict=True):
            alert.update(asdict(incident))
        return found

    def ready(self) -> None:
        if self.reason is not None:
            self.log.info("ready")
        self.reason = None
        self.metrics.ready.labels(self.name).set(1)

    def _lost(self, why: str) -> None:
        if self.reason != why:
            self.log.warning("waiting", reason=why)
        self.reason = why
        self.metrics.ready.labels(self.name).set(0)
        self.metrics.restarts.labels(self.name).inc()

    def skip(self, reason: Skip) -> None:
        self.metrics.skipped.labels(self.name, reason).inc()

    def delivered(self, found: Record) -> None:
        self.metrics.delivered.labels(self.name).inc()
        delay_ms = max(0, time.time_ns() // 1_000_000 - found.received_ms)
        self.metrics.delay_s.labels(self.name).observe(delay_ms / 1000)

    def give_up(self, found: Record, why: str) -> None:
        """Record an alert that the destination did not take; raises ServiceError until Kafka has it."""
        failures: list[KafkaError | None] = []
        producer = kafka.producer(self._kafka, {"delivery.report.only.error": True})
        producer.produce(
            kafka_topic(self._prefix, "dead-delivery"),
            found.value,
            found.key,
            headers=[
                (HEADER_DESTINATION, self.name.encode()),
                (HEADER_DETAIL, why[:500].encode()),
                (HEADER_RECEIVED_MS, b"%d" % found.received_ms),
            ],
            on_delivery=lambda error, _: failures.append(error),
        )
        unsent = producer.flush(ASK_S)
        if unsent or failures:
            trouble = ", ".join(map(str, failures)) or f"{unsent} unsent"
            raise ServiceError(f"a dead delivery cannot be written: {trouble}")
        self.metrics.undelivered.labels(self.name).inc()


def undelivered(settings: Settings, endpoints: Endpoints, limit: int) -> Iterator[dict[str, Any]]:
    """The last ``limit`` dead deliveries, oldest first. Raises ServiceError."""
    bootstrap, topic = endpoints.kafka_bootstrap, kafka_topic(settings.kafka.prefix, "dead-delivery")
    with kafka.LogReader(bootstrap) as log:
        spans = log.spans(topic).items()
        kept = deque((r for place, span in spans for r in log.records(topic, place, *span)), maxlen=limit)
    keys = ("alert_id", "vehicle_id", "rule", "severity")
    for found in kept:
        try:
            alert = decode_alert(found.value)
            about: dict[str, Any] = {key: alert[key] for key in keys}
        except ContractError as error:
            about = dict.fromkeys(keys) | {"broken": str(error)}
        at = datetime.fromtimestamp(found.received_ms / 1000, UTC).isoformat(timespec="milliseconds")
        to, why = (found.headers.get(name, "") for name in (HEADER_DESTINATION, HEADER_DETAIL))
        yield {"at": at, "offset": found.offset, "destination": to, "why": why} | about
