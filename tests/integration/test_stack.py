"""The real services answer, and a lane is a world of its own."""

from __future__ import annotations

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from infra.contract.topics import KAFKA_TOPICS
from infra.stack import probes
from infra.stack.stack import Stack
from tests.support import Lane

pytestmark = pytest.mark.integration


def test_mosquitto_echoes_a_message(stack: Stack) -> None:
    probes.mqtt_echo("127.0.0.1", stack.ports()["mosquitto"])


def test_lane_has_its_own_migrated_database(lane: Lane) -> None:
    with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (lane.name,)
        assert connection.execute("SELECT count(*) FROM odograph.vehicle").fetchone() == (0,)


def test_lane_has_the_topics_of_the_contract(lane: Lane) -> None:
    topics = AdminClient({"bootstrap.servers": lane.endpoints.kafka_bootstrap}).list_topics(timeout=10).topics
    found = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(lane.name)}
    assert found == {f"{lane.name}.{t.name}": t.partitions for t in KAFKA_TOPICS}
