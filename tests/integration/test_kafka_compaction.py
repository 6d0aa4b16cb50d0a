"""What Kafka keeps: as the contract says, and of the compacted topics the last word on each vehicle."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from tests.support import Lane, eventually
from tests.support_frames import vin

pytestmark = pytest.mark.integration

VEHICLES, WORDS = 5, 20
ROLL_MS = 100
"""A segment is closed by the next record so much later; only closed ones are compacted."""
COMPACTED = [t for t in KAFKA_TOPICS if t.cleanup == "compact"]


def alter(admin: AdminClient, kind: ResourceType, name: str, setting: str, value: str | None) -> None:
    change = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(setting, value, incremental_operation=change)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


@pytest.fixture
def admin(lane: Lane) -> Iterator[AdminClient]:
    """A client of a broker whose cleaner looks for work often: by itself it does every 15 s."""
    client = AdminClient({"bootstrap.servers": lane.endpoints.kafka_bootstrap})
    (broker,) = client.list_topics(timeout=10).brokers
    alter(client, ResourceType.BROKER, str(broker), "log.cleaner.backoff.ms", "100")
    yield client
    alter(client, ResourceType.BROKER, str(broker), "log.cleaner.backoff.ms", None)


def records(lane: Lane, topic: str, partitions: int) -> list[tuple[str, str]]:
    """Key and value of every record that can still be read, partition after partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": lane.endpoints.kafka_bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[str, str]] = []
    try:
        for partition in range(partitions):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while (message := consumer.poll(10)) is not None:
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    break
                found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
    finally:
        consumer.close()
    return found


def test_compacted_topics_keep_the_last_word_of_each_key(lane: Lane, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": lane.endpoints.kafka_bootstrap})
    names = {kafka_topic(lane.settings.kafka.prefix, t.name): t.partitions for t in COMPACTED}
    assert {t.name for t in COMPACTED} == {"status", "incidents", "policy", "clock"}
    for topic, partitions in names.items():
        alter(admin, ResourceType.TOPIC, topic, "segment.ms", str(ROLL_MS))
        for word in range(WORDS):
            for number in range(VEHICLES):
                producer.produce(topic, f"word {word}", vin(number), number % partitions)
    producer.flush(10)
    last = {vin(number): f"word {WORDS - 1}" for number in range(VEHICLES)}
    for topic, partitions in names.items():
        assert dict(records(lane, topic, partitions)) == last
    waiting = dict(names)

    def all_compacted() -> bool:
        for topic, partitions in [*waiting.items()]:
            if is_compacted(lane, producer, topic, partitions, last):
                del waiting[topic]
        assert waiting == {}
        return True

    eventually(all_compacted, 40 * len(names), "each topic compacted to the last word of each vehicle")


def is_compacted(
    lane: Lane, producer: Producer, topic: str, partitions: int, last: Mapping[str, str]
) -> bool:
    """Whether the last word of each vehicle is left; else a later record closes the segments.

    Each time anew: a broker takes a setting on a while after it has confirmed it, and what comes before
    that closes nothing.
    """
    left = [(key, value) for key, value in records(lane, topic, partitions) if key in last]
    assert dict(left) == last
    later_ms = time.time_ns() // 1_000_000 + 10 * ROLL_MS
    for partition in range(partitions):
        producer.produce(topic, "later", f"closes {partition}", partition, timestamp=later_ms)
    producer.flush(10)
    return len(left) == len(last)


def test_kafka_keeps_each_topic_as_the_contract_says(lane: Lane, admin: AdminClient) -> None:
    names = {kafka_topic(lane.settings.kafka.prefix, t.name): t for t in KAFKA_TOPICS}
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    for resource, future in asked.items():
        told = {name: entry.value for name, entry in future.result(10).items()}
        wanted = names[resource.name].config()
        assert {name: told[name] for name in wanted} == wanted
