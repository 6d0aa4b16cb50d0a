"""What a stream application writes beside its tables: the compacted topic and the archive."""

from __future__ import annotations

from typing import Any

import duckdb
import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from infra.contract.topics import kafka_topic
from tests.support import Lane


def last_word(lane: Lane) -> dict[str, dict[str, Any]]:
    """The compacted topic's last record of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": lane.endpoints.kafka_bootstrap,
            "group.id": f"{lane.name}-check",
            "enable.partition.eof": True,
        }
    )
    topic = kafka_topic(lane.settings.kafka.prefix, "vehicle-latest")
    states: dict[str, dict[str, Any]] = {}
    try:
        partitions = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(2)]
        consumer.assign(partitions)
        at_end = 0
        while at_end < len(partitions):
            message = consumer.poll(10)
            assert message is not None, "the topic cannot be read"
            if message.error():
                at_end += 1
                continue
            states[message.key().decode()] = orjson.loads(message.value())
    finally:
        consumer.close()
    return states


def archive_of(lane: Lane) -> str:
    return f"read_parquet('{lane.home}/archive/telemetry/date=*/hour=*/*.parquet', hive_partitioning = false)"


def has_archive(lane: Lane) -> bool:
    return any((lane.home / "archive" / "telemetry").glob("date=*/hour=*/*.parquet"))


def archive_copies(lane: Lane) -> int:
    """Records in the archive beyond one for each Kafka coordinate."""
    sql = f"SELECT count(*) - count(DISTINCT (partition, log_offset)) FROM {archive_of(lane)}"
    return int(duckdb.sql(sql).fetchall()[0][0])
