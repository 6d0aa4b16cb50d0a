"""Which slots this bridge serves: Kafka's group protocol holds the leases (README, "Slots").

Bridges are members of a consumer group on a topic of one partition a slot, in which nothing ever lies: who is
assigned a partition has the slot. What makes a change safe is not the lease but the session.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.cimpl import NewTopic

from bridge.uplink.lane import LEAVE_S, BaseLane
from infra.clients import kafka
from infra.contract.topics import BRIDGE_SLOTS, kafka_topic
from infra.settings.settings import Endpoints, Settings

POLL_S: Final = 0.2
RETRY_S: Final = 2.0
RELEASE_POLL_S: Final = 0.01
MEMBER: Final[dict[str, Any]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "auto.offset.reset": "latest",  # nothing is read
    "session.timeout.ms": 6000,  # Kafka's least: a killed bridge's slots are with others after so long
    "heartbeat.interval.ms": 1500,
    "topic.metadata.refresh.interval.ms": 10_000,
}


class SlotLeases:
    """Keeps the lanes' wanted slots as the group assigns them; ``trouble`` says why there are none."""

    def __init__(self, settings: Settings, endpoints: Endpoints, lanes: Sequence[BaseLane]) -> None:
        self._bootstrap, self._lanes = endpoints.kafka_bootstrap, lanes
        self._topic = kafka_topic(settings.kafka.prefix, BRIDGE_SLOTS.name)
        self._group = f"{settings.kafka.prefix}{settings.bridge.client_id}"
        self._slots: frozenset[int | None] = frozenset()
        self._stop = threading.Event()
        self._log = structlog.get_logger()
        self.trouble: str | None = "no slots assigned yet"

    def run(self, stop: threading.Event) -> None:
        """Be a member of the group until ``stop``; begin anew when Kafka was lost."""
        self._stop = stop
        while not stop.is_set():
            consumer = kafka.consumer(self._bootstrap, self._group, MEMBER)
            try:
                self._make_topic()
                consumer.subscribe(
                    [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
                )
                while not stop.is_set():
                    for message in kafka.taken(consumer, 1, POLL_S):
                        self._log.warning("a record in a topic of leases", partition=message.partition())
            except kafka.LOST as error:
                self.trouble = f"the slots' group: {error}"
                self._log.warning("no leases of slots", why=str(error))
                self._want(frozenset())
            finally:
                consumer.close()
            stop.wait(RETRY_S)

    def _make_topic(self) -> None:
        wanted = NewTopic(self._topic, BRIDGE_SLOTS.partitions, config=BRIDGE_SLOTS.config())
        client = kafka.admin(self._bootstrap)  # its end would end the request
        with kafka.service_errors(f"topic {self._topic} cannot be created"):
            for made in client.create_topics([wanted]).values():
                try:
                    made.result(kafka.TIMEOUT_S)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # nothing is to be fetched
        self._want(self._slots.union(p.partition for p in partitions))
        self.trouble = None

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Slots go, or the lease of them ran out: what was read of them is stored before others may begin."""
        self._want(self._slots.difference(p.partition for p in partitions))
        deadline_s = time.monotonic() + 2 * LEAVE_S
        while any(inlet.slot not in self._slots for lane in self._lanes for inlet in lane.inlets):
            if self._stop.is_set() or time.monotonic() > deadline_s:
                break
            time.sleep(RELEASE_POLL_S)
        consumer.incremental_unassign(partitions)

    def _want(self, slots: frozenset[int | None]) -> None:
        if slots != self._slots:
            gained, lost = slots - self._slots, self._slots - slots
            self._log.info("slots", gained=len(gained), lost=len(lost), now=len(slots))
        self._slots = slots
        for lane in self._lanes:
            lane.wanted = slots
