"""Kafka's side of the bridge: an idempotent producer that never leaves a gap, and a probe of the cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from bridge.uplink.in_flight import identity
from bridge.uplink.translate import Record
from infra.clients.kafka import partition_counts
from infra.contract.errors import ServiceError

ANY_PARTITION: Final = -1
ONCE: Final[dict[str, Any]] = {
    "acks": "1",
    "enable.idempotence": False,
    "enable.gapless.guarantee": False,
    "message.send.max.retries": 0,
    "message.timeout.ms": 5000,
}
"""A producer that tries once: without an answer it is not known whether Kafka has the record."""

RECORD_ERRORS: Final = frozenset({
    "MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "INVALID_MSG", "INVALID_MSG_SIZE",
    "RECORD_LIST_TOO_LARGE",
})  # fmt: skip
"""Refusals that are about the batch's content. All others are about the cluster and pass with time."""

PROBE_S: Final = 2.0
GIVE_UP_S: Final = 5.0  # purged records are reported at once; this only bounds what a defect could cost


class RefusedError(Exception):
    """A record was refused before it entered the queue; ``taken`` records before it were queued."""

    def __init__(self, taken: int, name: str) -> None:
        super().__init__(name)
        self.taken = taken


def is_about_the_record(error: KafkaError) -> bool:
    """Whether some record of the batch is to blame, not the cluster."""
    return str(error.name()) in RECORD_ERRORS


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """Limits of one producer; ``once``: a record is sent at most once, else until it is stored."""

    bootstrap: str
    client_id: str
    linger_ms: float
    queue_records: int
    queue_bytes: int
    compression: str = "lz4"
    once: bool = False

    def producer(self) -> dict[str, Any]:
        """The producer's settings; gapless: a refused batch is fatal, so no later record overtakes it."""
        lasting = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "acks": "all",
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,  # waits for ever: the MQTT broker holds the data
            "delivery.report.only.error": True,
            "partitioner": "murmur2_random",
            "linger.ms": self.linger_ms,
            "compression.type": self.compression,
            "queue.buffering.max.messages": self.queue_records,
            "queue.buffering.max.kbytes": max(1024, self.queue_bytes >> 10),
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 2000,
            "socket.keepalive.enable": True,
            "log_level": 0,
        }
        return lasting | (ONCE if self.once else {})


class KafkaSink:
    """One producer and its replacement after a fatal error. Used by one thread only.

    ``failed``: identity and error of records that were given up. When ``queued`` is 0 all others are stored.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._log = structlog.get_logger().bind(producer=config.client_id)
        self._producer = self._new()
        self.failed: dict[int, KafkaError] = {}
        self._given_up = 0
        self.broken = False

    def _new(self) -> Any:
        return Producer(
            self._config.producer() | {"error_cb": self._on_error, "on_delivery": self._on_failure}
        )

    def _on_error(self, error: KafkaError) -> None:
        """A connection's trouble: the client goes on by itself; a fatal one shows in the reports."""
        self._log.warning("kafka", error=error.name(), detail=error.str(), fatal=error.fatal())

    def _on_failure(self, error: KafkaError | None, message: Any) -> None:
        """A record was given up. Of two reports of one identity the one that blames the record counts."""
        if error is None:
            return
        self._given_up += 1
        name = identity(message.topic(), message.key(), message.value() or b"")
        if name not in self.failed or is_about_the_record(error):
            self.failed[name] = error

    def produce(self, records: Sequence[Record]) -> int:
        """Queue the records in order, never waiting; how many it took. Raises RefusedError."""
        produce, taken = self._producer.produce, 0
        try:
            for topic, key, value, headers, timestamp_ms in records:
                produce(topic, value, key, ANY_PARTITION, None, None, timestamp_ms, headers)
                taken += 1
        except BufferError:
            return taken
        except KafkaException as error:
            cause = error.args[0]
            if is_about_the_record(cause):
                raise RefusedError(taken, str(cause.name())) from error
        return taken

    def take_failures(self) -> int:
        """How many records were given up since the last call; who does not try again asks this."""
        count, self._given_up = self._given_up, 0
        self.failed.clear()
        return count

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

    def replace(self) -> None:
        """Give up all that is queued, with its reports, and begin with a new producer."""
        self.close()
        self._producer = self._new()
        self.failed = {}
        self.broken = False

    def close(self) -> None:
        """Give up all that is queued, with its reports."""
        self._producer.purge()
        deadline_s = time.monotonic() + GIVE_UP_S
        while self.queued and time.monotonic() < deadline_s:
            try:
                self._producer.flush(GIVE_UP_S)
            except KafkaException as error:
                self._broke(error)


class KafkaProbe:
    """Asks the cluster now and then, from a thread of its own, whether it answers and has the topics."""

    def __init__(self, bootstrap: str, wanted: frozenset[str], interval_s: float = PROBE_S) -> None:
        self._bootstrap = bootstrap
        self._wanted = wanted
        self._interval_s = interval_s
        self._reason: str | None = "not asked yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-probe", daemon=True)

    def __enter__(self) -> KafkaProbe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def reason(self) -> str | None:
        """Why Kafka cannot be used, or None."""
        return self._reason

    def _run(self) -> None:
        log = structlog.get_logger()
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}  # the probe's own answer says it
        admin = AdminClient(quiet | {"bootstrap.servers": self._bootstrap})
        while not self._stop.is_set():
            try:
                partition_counts(admin, sorted(self._wanted), self._interval_s)
                reason = None
            except ServiceError as error:
                reason = str(error)
            except KafkaException as error:
                reason = f"{self._bootstrap} does not answer ({error.args[0].name()})"
            if reason != self._reason:
                log.info("kafka ready" if reason is None else "kafka not ready", reason=reason)
            self._reason = reason
            self._stop.wait(self._interval_s)
