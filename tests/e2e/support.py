"""What the end-to-end tests read: the log, the tables, the simulator's own files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, Message, TopicPartition
from psycopg.rows import dict_row

from infra.contract.topics import kafka_topic
from load_tests.oracle import Limits
from stream_jobs.audit.ledger import Ledger
from tests.support import Lane

SHORT: dict[str, dict[str, object]] = {
    "jobs": {
        "trigger_s": 3.0,
        "clock_s": 5.0,
        "archive_trigger_s": 4.0,
        "repair_interval_s": 2.0,
        "lateness_s": 5,
        "ahead_s": 5,
        "road_window_s": 20,
        "instant_trigger_s": 15,
        "crash_trigger_s": 15,
    },
    "dashboard": {"refresh_s": 5.0},  # a map drawn in software takes a core for a second
}
"""Short waits, so that late data is repaired within the test. Not those of triggers: whatever a batch holds,
it takes half a second of CPU.
"""

CLEAR_FOR_S = 3600.0
"""Of the drill's alert rules: one alert a vehicle and rule, whatever the order in which frames come."""

LIMITS = Limits(ahead_ms=5_000, lateness_ms=5_000, road_window_ms=20_000)


@dataclass(frozen=True, slots=True)
class Drive:
    """What a run of the simulator left: its summary, its folder, and the ledger after it."""

    summary: dict[str, Any]
    folder: Path
    ledger: Ledger

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A file of JSON lines of the run."""
        return [orjson.loads(line) for line in (self.folder / name).read_bytes().splitlines()]


def rows(lane: Lane, sql: str, *values: Any) -> list[dict[str, Any]]:
    """Rows of the lane's database, as its owner."""
    with psycopg.connect(lane.endpoints.db_owner_url, row_factory=dict_row) as connection:
        return connection.execute(sql, values or None).fetchall()  # type: ignore[arg-type]


def whole_topic(lane: Lane, name: str) -> list[Message]:
    """Every record of a topic, partition by partition, read by a plain consumer."""
    topic = kafka_topic(lane.settings.kafka.prefix, name)
    consumer = Consumer({"bootstrap.servers": lane.endpoints.kafka_bootstrap, "group.id": "strange-client"})
    count = len(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    try:
        return [m for p in range(count) for m in _partition(consumer, topic, p)]
    finally:
        consumer.close()


def _partition(consumer: Consumer, topic: str, partition: int) -> list[Message]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10) or (0, 0)
    consumer.assign([TopicPartition(topic, partition, low)])
    found: list[Message] = []
    while len(found) < high - low:
        batch = consumer.consume(min(1000, high - low - len(found)), timeout=10)
        assert batch, f"{topic}/{partition}: {len(found)} of {high - low} records, then nothing"
        found += batch
    return found
