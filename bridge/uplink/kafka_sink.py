"""Kafka's side of the bridge: an idempotent producer that never leaves a gap, and a probe of the cluster."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bridge.uplink.in_flight import identity_of
from bridge.uplink.translate import Record
from infra.clients import kafka
from infra.clients.health import Check, in_background
from infra.contract.errors import ServiceError

ANY_PARTITION: Final = -1
LASTING: Final[dict[str, Any]] = {
    "enable.gapless.guarantee": True,  # a refused batch is fatal, so no later record overtakes it
    "message.timeout.ms": 0,  # waits for ever: the MQTT broker holds the data
    "delivery.report.only.error": True,
    "compression.type": "lz4",
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 2000,
    "socket.keepalive.enable": True,
}
"""A producer that tries until a record is stored."""
ONCE: Final[dict[str, Any]] = LASTING | {
    "acks": "1",
    "enable.idempotence": False,
    "enable.gapless.guarantee": False,
    "message.send.max.retries": 0,
    "message.timeout.ms": 5000,
}
"""A producer that tries once: without an answer it is not known whether Kafka has the record."""

RECORD_ERRORS: Final = frozenset({
    "MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_MSG", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE",
})  # fmt: skip
"""Refusals that are about the batch's content. All others are about the cluster and pass with time."""
CLOCK_ERROR: Final = "INVALID_TIMESTAMP"
"""A record's time, which is our clock's, is more than an hour ahead of Kafka's: none is to blame."""

PROBE_S: Final = 2.0
GIVE_UP_S: Final = 5.0  # purged records are reported at once; this only bounds what a defect could cost


def is_about_the_record(error: KafkaError) -> bool:
    """Whether some record of the batch is to blame, not the cluster."""
    return str(error.name()) in RECORD_ERRORS


class KafkaSink:
    """One producer and its replacement after a fatal error. Used by one thread only.

    ``failed``: identity and error of records that were given up, in all ``given_up`` of them. When ``queued``
    is 0 all others are stored.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._settings = dict(settings) | {"error_cb": self._on_error, "on_delivery": self._on_failure}
        self._log = structlog.get_logger().bind(producer=settings["client.id"])
        self.given_up = 0
        self.begin()

    def begin(self) -> None:
        """With a new producer; the one before is closed."""
        self._producer: Any = kafka.producer(self._bootstrap, self._settings)
        self.failed: dict[int, KafkaError] = {}
        self.broken = False

    def _on_error(self, error: KafkaError) -> None:
        """A connection's trouble: the client goes on by itself; a fatal one shows in the reports."""
        self._log.warning("kafka", error=error.name(), detail=error.str(), fatal=error.fatal())

    def _on_failure(self, error: KafkaError | None, message: Any) -> None:
        """A record was given up. Of two reports of one identity the one that blames the record counts."""
        if error is None:
            return
        self.given_up += 1
        name = identity_of((message.topic(), message.key(), message.value() or b""))
        if name not in self.failed or is_about_the_record(error):
            self.failed[name] = error

    def produce(self, records: Sequence[Record]) -> tuple[int, str]:
        """Queue the records in order, never waiting; how many it took, and why the next one is refused."""
        produce, taken = self._producer.produce, 0
        try:
            for topic, key, value, headers, timestamp_ms in records:
                produce(topic, value, key, ANY_PARTITION, None, None, timestamp_ms, headers)
                taken += 1
        except BufferError:
            return taken, ""
        except KafkaException as error:
            if is_about_the_record(error.args[0]):
                return taken, str(error.args[0].name())
        return taken, ""

    def poll(self) -> int:
        """Run the reports that are due, without waiting; how many. Sets ``broken`` on a fatal error."""
        try:
            return int(self._producer.poll(0))
        except KafkaException as error:
            self._broke(error)
            return 0

    def _broke(self, error: KafkaException) -> None:
        """Only a fatal error is thrown by the client; the producer is done for."""
        if not error.args[0].fatal():
            raise error
        self.broken = True
        self._log.warning("kafka producer broke", error=error.args[0].name(), detail=error.args[0].str())

    @property
    def queued(self) -> int:
        """Records in the producer's queue or on their way."""
        return len(self._producer)

    def close(self) -> None:
        """Give up all that is queued, with its reports."""
        self._producer.purge()
        deadline_s = time.monotonic() + GIVE_UP_S
        while self.queued and time.monotonic() < deadline_s:
            try:
                self._producer.flush(GIVE_UP_S)
            except KafkaException as error:
                self._broke(error)


@contextmanager
def kafka_probe(bootstrap: str, wanted: Sequence[str]) -> Iterator[Check]:
    """A check whether the cluster answers and has the topics ``wanted``: asked now and then by a thread."""
    found: str | None = "not asked yet"

    def ask(stop: threading.Event) -> None:
        nonlocal found
        log = structlog.get_logger()
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}  # the probe's own answer says it
        admin = AdminClient(quiet | kafka.access(bootstrap))
        while not stop.is_set():
            reason = None
            try:
                kafka.partition_counts(admin, sorted(wanted), PROBE_S)
            except ServiceError as error:
                reason = str(error)
            except KafkaException as error:
                reason = f"{bootstrap} does not answer ({error.args[0].name()})"
            if reason != found:
                log.info("kafka ready" if reason is None else "kafka not ready", reason=reason)
            found = reason
            stop.wait(PROBE_S)

    with in_background("kafka-probe", ask):
        yield lambda: found
