"""MQTT 3.1.1 packets as the standard writes them."""

from __future__ import annotations

import pytest

from edge_simulator.sending import mqtt_packets as packets


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"),
        (2_097_152, "80808001"), (268_435_455, "ffffff7f"),
    ],
)  # fmt: skip
def test_lengths_are_written_seven_bits_a_byte(count: int, wanted: str) -> None:
    assert packets.remaining_length(count).hex() == wanted


def test_a_connect_asks_for_a_clean_session() -> None:
    assert packets.connect("me", 30) == b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x1e\x00\x02me"


def test_a_last_will_is_retained_and_at_qos_1() -> None:
    wanted = b"\x10\x16\x00\x04MQTT\x04\x2e\x00\x1e\x00\x02me\x00\x01t\x00\x03bye"
    assert packets.connect("me", 30, ("t", b"bye")) == wanted


@pytest.mark.parametrize(
    ("retain", "dup", "first"),
    [(False, False, 0x32), (True, False, 0x33), (False, True, 0x3A), (True, True, 0x3B)],
)
def test_a_publish_carries_its_marks_topic_identifier_and_payload(
    retain: bool, dup: bool, first: int
) -> None:
    packet = b"".join(packets.publish(packets.text(b"a/b"), 0x1234, b"xyz", retain, dup))
    assert packet == bytes([first]) + b"\x0a\x00\x03a/b\x12\x34xyz"


def test_a_topic_beyond_65535_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        packets.text(b"x" * 65_536)


def test_acknowledgements_are_read_in_order_and_a_half_one_is_kept() -> None:
    data = b"".join(b"\x40\x02" + k.to_bytes(2, "big") for k in (1, 2, 65_535, 7))
    found, rest = packets.received(data + b"\x40\x02\x00")
    assert (found.acks, found.connack, found.pong, rest) == ([1, 2, 65_535, 7], None, False, b"\x40\x02\x00")


def test_every_kind_of_answer_is_told_apart_wherever_the_bytes_are_cut() -> None:
    data = b"\x20\x02\x00\x05\x40\x02\x01\x02\xd0\x00\x40\x02\x00\x09"
    for cut in range(len(data) + 1):
        first, rest = packets.received(data[:cut])
        second, left = packets.received(rest + data[cut:])
        assert first.acks + second.acks == [0x0102, 9]
        assert {first.connack, second.connack} == {None, 5}
        assert first.pong != second.pong
        assert left == b""


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400", b"\x40\x03\x00\x01\x00", b"\x20\xff\xff\xff\xff\x01"])
def test_what_no_broker_says_to_a_publisher_is_an_error(garbage: bytes) -> None:
    with pytest.raises(packets.ProtocolError):
        packets.received(garbage + b"\0" * 130)


def test_a_session_that_is_kept_asks_for_it() -> None:
    assert packets.connect("me", 30, clean=False) == b"\x10\x0e\x00\x04MQTT\x04\x00\x00\x1e\x00\x02me"
    assert packets.received(b"\x20\x02\x01\x00")[0].session
    assert not packets.received(b"\x20\x02\x00\x00")[0].session


def test_a_subscription_names_its_filters_at_qos_1_and_a_refused_one_is_an_error() -> None:
    assert packets.subscribe(0x0102, ["a/+", "b"]) == b"\x82\x0c\x01\x02\x00\x03a/+\x01\x00\x01b\x01"
    assert packets.received(b"\x90\x04\x01\x02\x01\x00")[0].subscribed
    with pytest.raises(packets.ProtocolError, match="refuses a subscription"):
        packets.received(b"\x90\x04\x01\x02\x01\x80")


def test_messages_for_us_are_read_among_acknowledgements_wherever_the_bytes_are_cut() -> None:
    long = b"x" * 200
    data = (
        b"\x40\x02\x00\x01"
        + b"\x32\x08\x00\x03a/b\x12\x34y"
        + b"\x31\xcd\x01\x00\x03a/b" + long
        + b"\x40\x02\x00\x02"
    )  # fmt: skip
    for cut in range(len(data) + 1):
        first, rest = packets.received(data[:cut])
        second, rest = packets.received(rest + data[cut:])
        assert rest == b""
        assert [(p.topic, p.payload, p.packet_id) for p in first.publishes + second.publishes] == [
            ("a/b", b"y", 0x1234),
            ("a/b", long, 0),
        ]
        assert first.acks + second.acks == [1, 2]
    assert packets.puback(0x1234) == b"\x40\x02\x12\x34"


@pytest.mark.parametrize(
    "wrong", [b"\x34\x05\x00\x01a\x00\x01", b"\x32\x03\x00\x05a", b"\x30\x03\x00\x01\xff"]
)
def test_a_message_that_is_none_is_an_error(wrong: bytes) -> None:
    with pytest.raises(packets.ProtocolError):
        packets.received(wrong)
