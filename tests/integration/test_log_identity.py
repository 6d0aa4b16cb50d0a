"""Offsets are places in one log: in a topic made anew, as in another cluster, they say nothing of the old."""

from __future__ import annotations

import math
from threading import Event

import pytest
from confluent_kafka import TopicPartition

from bridge.downlink.feed import Feed
from infra.clients.kafka import admin, consumer, log_generations
from infra.clients.leases import Lease, Term
from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from infra.stack.kafka import create_topics, delete_topics, missing_topics
from tests.integration.events_support import (
    T0,
    VINS,
    alert,
    change,
    count,
    produce,
    rows,
    until_count,
    until_read,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

PLACES = "SELECT log_generation, next_offset FROM odograph.consumer_offset WHERE topic = 'alerts'"


def bound(lane: Lane) -> tuple[str, str]:
    return lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix


def test_records_of_a_log_made_anew_do_not_vanish_behind_those_of_the_old_one(lane: Lane) -> None:
    bootstrap, prefix = bound(lane)
    name = kafka_topic(prefix, "dead-letter")
    old = log_generations(bootstrap, [name])[name]
    produce(lane, "dead-letter", [(VINS[0], b"the first")], T0)
    produce(lane, "alerts", [alert(0, 1), alert(1, 1)], T0)
    with lane.process("jobs", "events"):
        until_read(lane, 3)
    delete_topics(bootstrap, prefix)
    eventually(lambda: len(missing_topics(bootstrap, prefix)) == len(KAFKA_TOPICS), 30, "the topics are gone")
    create_topics(bootstrap, prefix)
    produce(lane, "dead-letter", [(VINS[0], b"the second")], T0)
    produce(lane, "alerts", [alert(0, 2)], T0)
    with lane.process("jobs", "events") as process:
        until_count(lane, "dead_letter", 2)
        until_count(lane, "alert_event", 3)
        said = process.output()
    assert "another log: it is read from its beginning" in said
    found = rows(lane, "SELECT log_offset, log_generation FROM odograph.dead_letter ORDER BY bytes")
    new = log_generations(bootstrap, [name])[name]
    assert [tuple(row.values()) for row in found] == [(0, old), (0, new)]
    assert old != new


def test_a_place_noted_before_logs_had_identities_is_one_in_the_log_at_hand(lane: Lane) -> None:
    produce(lane, "alerts", [alert(0, 1), alert(0, 2)], T0)
    with lane.process("jobs", "events"):
        until_read(lane, 2)
    change(lane, "UPDATE odograph.consumer_offset SET log_generation = ''")
    produce(lane, "alerts", [alert(0, 3)], T0)
    with lane.process("jobs", "events") as process:
        until_read(lane, 3)
        assert "another log" not in process.output()
    assert {row["log_generation"] for row in rows(lane, PLACES)} == set(
        log_generations(lane.endpoints.kafka_bootstrap, [kafka_topic(bound(lane)[1], "alerts")]).values()
    )


def test_a_place_beyond_the_end_of_the_log_is_told_and_nothing_is_stored_twice(lane: Lane) -> None:
    produce(lane, "alerts", [alert(0, 1), alert(0, 2)], T0)
    with lane.process("jobs", "events"):
        until_read(lane, 2)
    change(lane, "UPDATE odograph.consumer_offset SET next_offset = 900 WHERE topic = 'alerts'")
    produce(lane, "alerts", [alert(0, 3)], T0)
    with lane.process("jobs", "events") as process:
        until_read(lane, 3)
        assert process.output().count("the log ends before what was read") == 2  # of each partition
    assert count(lane, "alert_event") == 3


def test_a_destination_whose_place_is_gone_says_so_and_tells_nothing_again(
    lane: Lane, capfd: pytest.CaptureFixture[str]
) -> None:
    bootstrap, prefix = bound(lane)
    topic = kafka_topic(prefix, "dead-delivery")  # of one partition
    produce(lane, "dead-delivery", [alert(0, n) for n in range(5)], T0)

    def committed(offset: int) -> Feed:
        group = consumer(bootstrap, "gone")
        group.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        group.close()
        return Feed(
            bootstrap, topic, "gone", Term(Lease(lane.settings, "", "downlink", Event()), 1, math.inf)
        )

    with committed(900) as feed:
        assert feed.read(10, 1.0) == []
        produce(lane, "dead-delivery", [alert(0, 5)], T0)
        assert [record.offset for record in feed.read(10, 10.0)] == [5]
    assert "the log ends before what was read" in "".join(capfd.readouterr())
    client = admin(bootstrap)
    for future in client.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(30)
    with committed(1) as feed:
        assert [record.offset for record in feed.read(10, 10.0)][:1] == [3]
    assert "retention took records that were not read" in "".join(capfd.readouterr())
