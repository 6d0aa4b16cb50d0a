"""How much was ever appended to a topic: Kafka's own count, whatever retention took since."""

from __future__ import annotations

from types import TracebackType

from confluent_kafka import Consumer, KafkaException, TopicPartition

from infra.contract.errors import ServiceError
from infra.contract.topics import KAFKA_TOPICS, kafka_topic

TIMEOUT_S = 5.0


class LogEnds:
    """A reader of end offsets; keeps its connection while its ``with`` block runs."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._partitions = {t.name: t.partitions for t in KAFKA_TOPICS}
        group = {"group.id": "odograph-log-ends", "enable.auto.commit": False}
        self._reader = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **group})

    def __enter__(self) -> LogEnds:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def topic(self, name: str) -> str:
        """The full name of the contract's topic ``name``."""
        return kafka_topic(self._prefix, name)

    def appended(self, name: str) -> int:
        """Records ever appended to the contract's topic ``name``; raises ServiceError."""
        return sum(self.ends(name).values())

    def ends(self, name: str) -> dict[int, int]:
        """The next offset of each partition of the contract's topic ``name``; raises ServiceError."""
        topic = kafka_topic(self._prefix, name)
        try:
            return {p: self._end(topic, p) for p in range(self._partitions[name])}
        except KafkaException as error:
            raise ServiceError(f"Kafka {self._bootstrap}: offsets of {topic}: {error}") from error

    def _end(self, topic: str, partition: int) -> int:
        found = self._reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        if found is None:
            raise ServiceError(f"Kafka {self._bootstrap}: no answer within {TIMEOUT_S:g} s")
        return int(found[1])
