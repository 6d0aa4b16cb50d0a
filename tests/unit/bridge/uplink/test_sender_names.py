"""Whom the broker names as the sender, on the wire and in the translator."""

from __future__ import annotations

import orjson
import pytest

from bridge.dead_letters.letters import Letter, Recheck, Stays
from bridge.uplink.translate import NamedTranslator, Record, Rejection
from bridge.uplink.wire import NamedTopic, PacketBuffer, WireError, take_publishes
from infra.contract.verdict import ClockLimits

VIN, OTHER = "1HGCM82633A004352", "1HGCM82633A004353"
TOPIC = f"odograph/v1/{VIN}/telemetry".encode()
NOW = 1_790_000_000_000
FRAME = orjson.dumps(
    {
        "schema": 1,
        "vehicle_id": VIN,
        "boot_id": 3,
        "seq": 7,
        "t0_ms": NOW,
        "dt_ms": 100,
        "n": 1,
        "sent_ms": NOW,
    }
)


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def user(key: bytes, value: bytes) -> bytes:
    return b"\x26" + text(key) + text(value)


def publish(properties: bytes, payload: bytes = b"{}", qos: int = 1) -> bytes:
    identifier = b"\x00\x07" if qos else b""
    body = text(TOPIC) + identifier + bytes([len(properties)]) + properties + payload
    assert len(body) < 128
    return bytes([0x30 | qos << 1, len(body)]) + body


def names(*packets: bytes) -> list[bytes | None]:
    found, end = take_publishes(b"".join(packets), 0, 100, b"sender")
    assert end == sum(map(len, packets))
    assert all(topic == TOPIC for topic, _, _ in found)
    return [topic.name if isinstance(topic, NamedTopic) else b"no NamedTopic" for topic, _, _ in found]


def test_the_name_is_the_one_user_property_of_that_key() -> None:
    other = user(b"x", b"y")
    expiry, subscription = b"\x02\x00\x00\x00\x09", b"\x0b\x81\x01"
    packets = [
        publish(user(b"sender", b"me")),
        publish(expiry + other + subscription + user(b"sender", b"me") + b"\x23\x00\x01"),
        publish(other, qos=0),
        publish(b""),
        publish(user(b"sender", b"me") + user(b"sender", b"you")),
    ]
    assert names(*packets) == [b"me", b"me", None, None, None]


def test_packet_id_and_payload_are_as_ever_and_half_a_packet_waits() -> None:
    whole = publish(user(b"sender", b"me"), b"payload")
    found, end = take_publishes(whole + whole[:10], 0, 100, b"sender")
    assert [(packet_id, raw) for _, packet_id, raw in found] == [(7, b"payload")]
    assert end == len(whole)


@pytest.mark.parametrize(
    ("properties", "name"), [(user(b"sender", b"me"), b"me"), (user(b"sender", b"m" * 40), None)]
)
def test_a_message_too_large_to_be_held_has_its_senders_name_where_that_was_held(
    properties: bytes, name: bytes | None
) -> None:
    buffer = PacketBuffer()
    buffer.wanted, buffer.limit = b"sender", 80
    buffer.feed(publish(properties, b"payload, payload, payload"))
    ((topic, packet_id, _),) = buffer.publishes(1)
    assert isinstance(topic, NamedTopic)
    assert (topic, topic.name, packet_id) == (TOPIC, name, 7)


def test_a_property_that_has_no_place_there_closes_the_connection() -> None:
    with pytest.raises(WireError, match="0x24"):
        names(publish(b"\x24\x01"))
    with pytest.raises(WireError, match="longer than its packet"):
        names(publish(b"\x0b\x81", payload=b""))


def translated(name: bytes | None) -> tuple[Record | Rejection | None, NamedTopic, NamedTranslator]:
    topic, translator = NamedTopic(TOPIC), NamedTranslator("odograph/v1", "test.")
    topic.name = name
    return translator.translate(topic, FRAME, NOW), topic, translator


def test_a_message_passes_under_its_own_name_only() -> None:
    passed, _, translator = translated(VIN.encode())
    assert isinstance(passed, Record)
    assert type(dict(passed.headers)["mqtt_topic"]) is bytes
    for name in (OTHER.encode(), None):
        refused, topic, _ = translated(name)
        assert isinstance(refused, Rejection)
        assert (refused.reason, refused.key) == ("identity_mismatch", VIN.encode())
        assert translator.translate(topic, FRAME, NOW) == refused, "after an honest message too"


def test_a_forged_message_cannot_be_sent_in_again() -> None:
    refused, topic, translator = translated(OTHER.encode())
    assert isinstance(refused, Rejection)
    record = translator.dead_letter(refused, topic, FRAME, NOW)
    headers = dict(record.headers)
    assert headers["authenticated_as"] == OTHER.encode()
    letter = Letter(1, NOW, record.key, record.value, headers)
    judged = Recheck("odograph/v1", "test.", ClockLimits(0, 10_000, 30_000)).judge(letter, NOW)
    assert isinstance(judged, Stays)
    assert judged.reason == "identity_mismatch"
