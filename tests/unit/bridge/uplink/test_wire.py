from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.uplink.wire import (
    CutPayload,
    PacketBuffer,
    Publish,
    WireError,
    packet_length,
    pubacks,
    take_publishes,
)

PINGRESP = b"\xd0\x00"


def length_bytes(count: int) -> bytes:
    found = b""
    while True:
        count, byte = count >> 7, count & 0x7F
        found += bytes([byte | (0x80 if count else 0)])
        if not count:
            return found


def publish(topic: bytes, packet_id: int, payload: bytes, properties: bytes = b"", flags: int = 2) -> bytes:
    identifier = packet_id.to_bytes(2, "big") if flags & 6 else b""
    body = len(topic).to_bytes(2, "big") + topic + identifier + length_bytes(len(properties)) + properties
    return bytes([0x30 | flags]) + length_bytes(len(body) + len(payload)) + body + payload


MESSAGES = st.lists(
    st.tuples(st.binary(min_size=1, max_size=60), st.integers(1, 65_535), st.binary(max_size=400)),
    max_size=12,
)


def test_a_publish_is_read_byte_for_byte() -> None:
    packet = b"\x32\x0a\x00\x03a/b\x12\x34\x00hi"
    assert take_publishes(packet, 0, 10) == ([(b"a/b", 0x1234, b"hi")], len(packet))


def test_a_publish_at_qos_0_has_packet_id_0() -> None:
    assert take_publishes(publish(b"t", 0, b"x", flags=0), 0, 10)[0] == [(b"t", 0, b"x")]


def test_retain_and_dup_flags_change_nothing() -> None:
    assert take_publishes(publish(b"t", 7, b"x", flags=0x0B), 0, 10)[0] == [(b"t", 7, b"x")]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 20_000])
def test_properties_of_any_length_are_skipped(size: int) -> None:
    packet = publish(b"t", 7, b"payload", properties=b"p" * size)
    assert take_publishes(packet, 0, 10) == ([(b"t", 7, b"payload")], len(packet))


def test_the_run_ends_at_another_kind_of_packet() -> None:
    data = publish(b"t", 1, b"x") + PINGRESP + publish(b"t", 2, b"y")
    found, at = take_publishes(data, 0, 10)
    assert (found, data[at : at + 2]) == ([(b"t", 1, b"x")], PINGRESP)


def test_no_more_than_the_limit_is_taken() -> None:
    data = b"".join(publish(b"t", n, b"x") for n in (1, 2, 3))
    assert [found[1] for found in take_publishes(data, 0, 2)[0]] == [1, 2]
    assert take_publishes(data, 0, 0) == ([], 0)


def test_a_length_of_five_bytes_is_an_error() -> None:
    with pytest.raises(WireError, match="four bytes"):
        packet_length(b"\x32\xff\xff\xff\xff\x01", 0)


@pytest.mark.parametrize(
    "packet",
    [
        b"\x32\x00",
        b"\x32\x01a",
        b"\x32\x03\x00\x09a",
        b"\x32\x05\x00\x01a\x00\x01",
        b"\x32\x06\x00\x01a\x00\x01\x09",
    ],
    ids=["empty", "no-topic-length", "topic-too-long", "no-properties", "properties-too-long"],
)
def test_a_publish_that_contradicts_itself_is_an_error(packet: bytes) -> None:
    with pytest.raises(WireError):
        take_publishes(packet, 0, 10)


def test_pubacks_leave_as_one_buffer_in_order() -> None:
    assert pubacks([1, 0x1234]) == b"\x40\x02\x00\x01\x40\x02\x12\x34"
    assert pubacks([]) == b""


@given(MESSAGES, st.lists(st.integers(1, 90), min_size=1, max_size=20))
def test_messages_survive_any_cut_of_the_stream(messages: list[Publish], cuts: list[int]) -> None:
    stream = b"".join(publish(*message) for message in messages)
    buffer, found, at, turn = PacketBuffer(), [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        buffer.feed(stream[at : at + step])
        found += buffer.publishes(3)
        at, turn = at + step, turn + 1
    while more := buffer.publishes(3):
        found += more
    assert found == messages
    assert len(buffer) == 0


def test_packets_of_other_kinds_are_offered_only_when_whole() -> None:
    buffer = PacketBuffer()
    buffer.feed(PINGRESP[:1])
    assert not buffer.other_is_whole()
    assert not buffer.is_whole()
    buffer.feed(PINGRESP[1:] + publish(b"t", 1, b"x"))
    assert buffer.other_is_whole()
    assert buffer.is_whole()
    assert buffer.publishes(1) == []
    assert buffer.read(2) == PINGRESP
    assert not buffer.other_is_whole()
    assert buffer.is_whole()


def test_a_large_packet_arrives_whole_from_many_reads() -> None:
    payload = bytes(range(256)) * 4000
    stream = publish(b"t", 9, payload)
    buffer = PacketBuffer()
    for at in range(0, len(stream), 10_000):
        assert buffer.publishes(1) == []
        buffer.feed(stream[at : at + 10_000])
    assert buffer.publishes(1) == [(b"t", 9, payload)]


def large(limit: int) -> PacketBuffer:
    buffer = PacketBuffer()
    buffer.limit = limit
    return buffer


def test_of_a_message_of_260_megabytes_only_the_first_bytes_are_held() -> None:
    size, piece = 260_000_000, bytes(1 << 18)
    head = publish(b"odograph/v1/x/telemetry", 7, b"")
    body = head[2:]
    stream = b"\x32" + length_bytes(len(body) + size) + body
    buffer = large(1 << 20)
    buffer.feed(stream)
    held, left = 0, size
    while left:
        assert buffer.publishes(1) == []
        assert not buffer.is_whole()
        buffer.feed(piece[:left])
        left -= min(left, len(piece))
        held = max(held, len(buffer))
    ((topic, packet_id, payload),) = buffer.publishes(1)
    assert (topic, packet_id, len(stream) + len(payload)) == (b"odograph/v1/x/telemetry", 7, 1 << 20)
    assert isinstance(payload, CutPayload)
    assert payload.size == size
    assert held <= (1 << 20) + len(piece)
    buffer.feed(publish(b"t", 8, b"next"))
    assert buffer.publishes(1) == [(b"t", 8, b"next")]


@given(MESSAGES, st.lists(st.integers(1, 90), min_size=1, max_size=20))
def test_large_messages_among_others_are_cut_and_the_others_arrive_whole(
    messages: list[Publish], cuts: list[int]
) -> None:
    stream = b"".join(publish(*message) for message in messages)
    buffer, found, at, turn = large(200), [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        buffer.feed(stream[at : at + step])
        while more := buffer.publishes(3):
            found += more
        at, turn = at + step, turn + 1
    assert len(buffer) == 0
    assert [(t, n, getattr(p, "size", len(p))) for t, n, p in found] == [
        (t, n, len(p)) for t, n, p in messages
    ]
    assert all(whole[2].startswith(got[2]) for whole, got in zip(messages, found, strict=True))
    assert {len(publish(*m)) > 200 for m, got in zip(messages, found, strict=True) if m[2] != got[2]} <= {
        True
    }


def test_properties_longer_than_what_is_held_do_not_hide_the_topic() -> None:
    buffer = large(100)
    buffer.feed(publish(b"t", 9, b"payload", properties=b"p" * 500))
    ((topic, packet_id, payload),) = buffer.publishes(1)
    assert (topic, packet_id, isinstance(payload, CutPayload)) == (b"t", 9, True)


def test_a_large_packet_of_another_kind_ends_the_connection() -> None:
    buffer = large(100)
    with pytest.raises(WireError, match="no PUBLISH"):
        buffer.feed(b"\x90" + length_bytes(200))
