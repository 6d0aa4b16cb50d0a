"""Names of topics, and what is read from them."""

from __future__ import annotations

import pytest

from infra.contract import topics
from infra.contract.errors import ContractError

ROOT = "odograph/v1"
VIN = "WVWZZZ1KZAW000001"


def test_an_uplink_topic_names_the_vehicle_and_its_slot_and_a_downlink_topic_the_vehicle_alone() -> None:
    assert topics.mqtt_topic(ROOT, VIN, "crash") == "odograph/v1/s/6/WVWZZZ1KZAW000001/crash"
    assert topics.mqtt_topic(ROOT, VIN, "alert") == "odograph/v1/WVWZZZ1KZAW000001/alert"


@pytest.mark.parametrize("channel", ["telemetry", "crash", "status"])
def test_an_uplink_topic_is_read_back_with_its_slot_or_without_one(channel: str) -> None:
    assert topics.parse_mqtt_topic(ROOT, topics.mqtt_topic(ROOT, VIN, channel)) == (VIN, channel)
    assert topics.parse_mqtt_topic(ROOT, f"{ROOT}/{VIN}/{channel}") == (VIN, channel)


@pytest.mark.parametrize(
    ("slot", "telemetry", "crash"),
    [
        (None, ("r/#",), ("r/+/crash", "r/s/+/+/crash")),
        (7, ("r/s/7/#",), ("r/s/7/+/crash",)),
        (topics.UNSLOTTED, ("r/+/+",), ("r/+/crash",)),
    ],
)
def test_the_filters_of_a_slot_match_its_topics_and_no_others(
    slot: int | None, telemetry: tuple[str, ...], crash: tuple[str, ...]
) -> None:
    assert topics.uplink_filters("r", slot, crash=False) == telemetry
    assert topics.uplink_filters("r", slot, crash=True) == crash


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("other/v1/WVWZZZ1KZAW000001/telemetry", "bad_topic"),
        ("odograph/v1/telemetry", "bad_topic"),
        ("odograph/v1/WVWZZZ1KZAW000001/telemetry/more", "bad_topic"),
        ("odograph/v1/s/6/WVWZZZ1KZAW000001", "bad_topic"),
        ("odograph/v1/s/7/WVWZZZ1KZAW000001/telemetry", "bad_topic"),
        ("odograph/v1/s/06/WVWZZZ1KZAW000001/telemetry", "bad_topic"),
        ("odograph/v1/s/6/WVWZZZ1KZAW00000/telemetry", "bad_identity"),
        ("odograph/v1/WVWZZZ1KZAW000001/alert", "unknown_topic"),
        ("odograph/v1/WVWZZZ1KZAW000001/", "unknown_topic"),
        ("odograph/v1/WVWZZZ1KZAW00000/telemetry", "bad_identity"),
        ("odograph/v1/WVWZZZ1KZAW00000O/telemetry", "bad_identity"),
        ("odograph/v1/wvwzzz1kzaw000001/telemetry", "bad_identity"),
    ],
)
def test_another_topic_is_refused_with_its_reason(topic: str, reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        topics.parse_mqtt_topic(ROOT, topic)
    assert refused.value.reason == reason


def test_the_filter_of_a_channel_matches_every_vehicle() -> None:
    assert topics.mqtt_filter(ROOT, "telemetry") == "odograph/v1/+/telemetry"


def test_every_uplink_channel_flows_into_a_kafka_topic() -> None:
    assert {topic.name for topic in topics.KAFKA_TOPICS} >= {*topics.UPLINK_CHANNELS}


def test_crash_records_are_kept_for_ever_and_the_last_word_is_compacted() -> None:
    config = {topic.name: topic.config() for topic in topics.KAFKA_TOPICS}
    assert config["crash"]["retention.ms"] == "-1"
    assert config["crash"]["cleanup.policy"] == "delete"
    assert config["status"]["cleanup.policy"] == "compact"
    assert config["telemetry"]["retention.ms"] == "604800000"


def test_kafka_stamps_are_those_of_the_bridge() -> None:
    assert {topic.config()["message.timestamp.type"] for topic in topics.KAFKA_TOPICS} == {"CreateTime"}


def test_a_prefix_keeps_two_installations_apart() -> None:
    assert topics.kafka_topic("town.", "telemetry") == "town.telemetry"
