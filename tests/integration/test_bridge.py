"""The bridge on the real broker and the real log: what arrives, and how."""

from __future__ import annotations

import random

import orjson
import pytest

from infra.contract.topics import mqtt_topic
from infra.stack.kafka import create_topics
from load_tests.mqtt_flood import FloodError, frame, vehicle_id
from tests.integration.bridge_support import (
    T0_MS,
    all_in_order,
    bridge,
    configure_topic,
    crash,
    delete_topic,
    frames,
    metric,
    publish,
    read,
    readiness,
    sequences,
    topic_of,
    topic_setting,
    wait_stored,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

JAVA_PARTITIONS = {
    b"1HGCM82633A000000": 1,
    b"1HGCM82633A000001": 1,
    b"1HGCM82633A000002": 2,
    b"1HGCM82633A000003": 0,
    b"1HGCM82633A000004": 2,
    b"1HGCM82633A000005": 2,
}
"""(murmur2(key) & 0x7fffffff) % 4, as org.apache.kafka.clients.producer's default partitioner."""


def test_frames_arrive_unchanged_keyed_by_vehicle_in_order_with_the_receive_time(lane: Lane) -> None:
    sent = frames(lane, vehicles=6, count=100)
    with bridge(lane):
        publish(lane, sent)
        records = wait_stored(lane, "telemetry", 600)
    assert sequences(records) == all_in_order(6, 100)
    assert sorted(r.value for r in records) == sorted(value for _, value in sent)
    assert {r.key: r.partition for r in records} == JAVA_PARTITIONS
    for record in records:
        assert record.timestamp_ms == int(record.headers["received_ms"])
        assert record.headers["schema"] == b"1"
        assert record.key is not None
        topic = mqtt_topic(lane.settings.mqtt.root, record.key.decode(), "telemetry")
        assert record.headers["mqtt_topic"] == topic.encode()


def test_poison_goes_to_dead_letter_with_its_reason_while_healthy_frames_flow(lane: Lane) -> None:
    root = lane.settings.mqtt.root.encode()
    good = topic_of(lane, 0)
    nan = frame(0, 1, T0_MS).replace(b"13.9", b"NaN")
    poison = [
        (good, b'{"schema":', b"bad_json"),
        (good, b"\xff\xfe\x00", b"bad_json"),
        (good, nan, b"bad_json"),
        (good, b"[" * 200 + b"]" * 200, b"bad_json"),
        (good, frame(1, 1, T0_MS), b"identity_mismatch"),
        (good, b"x" * 100_000, b"too_large"),
        (topic_of(lane, 0, "dtc"), b"dtc", b"unknown_topic"),
        (root + b"/short/telemetry", b"short", b"bad_identity"),
        (root + b"/a/b/c", b"deep", b"bad_topic"),
        (root + b"/alone", b"alone", b"bad_topic"),
        (topic_of(lane, 0, "crash"), b"not a crash", b"bad_json"),
    ]
    healthy = frames(lane, vehicles=3, count=20)
    mixed = healthy + [(topic, raw) for topic, raw, _ in poison]
    random.Random(5).shuffle(mixed)
    with bridge(lane):
        publish(lane, mixed)
        letters = wait_stored(lane, "dead-letter", len(poison))
        records = wait_stored(lane, "telemetry", 60)
        assert metric(lane, "odograph_bridge_rejected_total") == len(poison)
    found = sorted((r.headers["mqtt_topic"], r.value, r.headers["reason"]) for r in letters)
    assert found == sorted(poison)
    assert all(r.headers["detail"] for r in letters)
    assert {r.headers["mqtt_topic"]: r.key for r in letters}[good] == vehicle_id(0).encode()
    assert sorted(r.value for r in records) == sorted(value for _, value in healthy)


def test_a_message_of_a_megabyte_keeps_its_first_bytes_in_dead_letter_and_a_larger_one_is_refused(
    lane: Lane,
) -> None:
    with bridge(lane):
        publish(lane, [(topic_of(lane, 0), b"x" * 1_000_000), *frames(lane, 1, 1)])
        with pytest.raises((FloodError, ConnectionError)):
            publish(lane, [(topic_of(lane, 0), b"x" * 10_000_000)])
        letters = wait_stored(lane, "dead-letter", 1)
        wait_stored(lane, "telemetry", 1)
    assert [(len(r.value), r.headers["reason"]) for r in letters] == [(900_000, b"too_large")]
    assert letters[0].headers["detail"].endswith(b"the first 900000 of 1000000 bytes are kept")


def test_topics_of_before_get_the_size_limits_of_the_contract(lane: Lane) -> None:
    configure_topic(lane, "dead-letter", "retention.bytes", "-1")
    configure_topic(lane, "telemetry", "max.message.bytes", "8000000")
    create_topics(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix)
    assert topic_setting(lane, "dead-letter", "retention.bytes") == "1073741824"
    assert topic_setting(lane, "telemetry", "max.message.bytes") == "1048576"


def test_each_message_below_the_root_is_handled_once_and_downlink_topics_not_at_all(lane: Lane) -> None:
    status = {"schema": 1, "vehicle_id": vehicle_id(0), "boot_id": 1, "seq": 0, "state": "online", "at_ms": 1}
    with bridge(lane):
        publish(lane, [(topic_of(lane, 0, "alert"), b"for the vehicle")])
        publish(lane, [(topic_of(lane, 0, "crash"), crash(0, seq)) for seq in range(20)])
        publish(lane, [(topic_of(lane, 0, "status"), orjson.dumps(status))])
        publish(lane, frames(lane, 1, 20))
        wait_stored(lane, "crash", 20)
        wait_stored(lane, "telemetry", 20)
        wait_stored(lane, "status", 1)
    counts = {name: len(read(lane, name)) for name in ("telemetry", "crash", "status", "dead-letter")}
    assert counts == {"telemetry": 20, "crash": 20, "status": 1, "dead-letter": 0}


def test_a_record_that_kafka_refuses_goes_to_dead_letter_and_its_vehicle_keeps_its_order(lane: Lane) -> None:
    configure_topic(lane, "telemetry", "max.message.bytes", "30000")
    noise = random.Random(7).randbytes(25_000).hex()
    sent = frames(lane, vehicles=2, count=200)
    topic, raw = sent[100]
    large = orjson.dumps(orjson.loads(raw) | {"noise": noise})
    sent[100] = (topic, large)
    with bridge(lane):
        publish(lane, sent)
        letters = wait_stored(lane, "dead-letter", 1)
        records = wait_stored(lane, "telemetry", 399)
    assert [(r.value, r.headers["reason"]) for r in letters] == [(large, b"unstorable")]
    expected = all_in_order(2, 200)
    expected[vehicle_id(0)].remove(50)
    assert sequences(records) == expected


def test_crash_records_cross_while_telemetry_cannot_be_stored_and_its_window_is_full(lane: Lane) -> None:
    lane.env["ODOGRAPH_BRIDGE_MAX_IN_FLIGHT"] = "200"  # the broker sends half of it unacknowledged
    with bridge(lane):
        delete_topic(lane, "telemetry")
        eventually(lambda: "topics are missing" in readiness(lane)[1].get("kafka", ""), 90, "not ready")
        publish(lane, frames(lane, vehicles=10, count=50))
        eventually(
            lambda: metric(lane, "odograph_bridge_in_flight_messages") == 100, 90, "telemetry waits for Kafka"
        )
        publish(lane, [(topic_of(lane, 0, "crash"), crash(0, 1))])
        wait_stored(lane, "crash", 1)
        assert metric(lane, "odograph_bridge_in_flight_messages") == 100
        create_topics(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix)
        records = wait_stored(lane, "telemetry", 500)
    assert sequences(records) == all_in_order(10, 50)
    assert read(lane, "dead-letter") == []
