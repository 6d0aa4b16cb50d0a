"""Frames kept beyond their PUBACK: which are sent again when a connection was lost, and in which order."""

from __future__ import annotations

from edge_simulator.sending.lean_publisher import SENT_AGAIN, Flight
from edge_simulator.sending.publishing import Counts, Latency, Message

FRAMES = [Message("t", b"%d" % number) for number in range(6)]


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


def test_kept_frames_come_before_those_in_flight_in_the_order_of_sending() -> None:
    counts = Counts()
    flight = Flight(counts, Latency(), keep_s=60)
    flight.packed(FRAMES, now=0.0)
    flight.settle([1, 2, 3], now=1.0)
    again = flight.rewound(now=10.0)
    assert payloads(again) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [message.kind for message in again] == [SENT_AGAIN] * 3 + ["telemetry"] * 3
    assert (counts.sent[SENT_AGAIN], len(flight)) == (3, 0)


def test_what_was_acknowledged_longer_ago_is_not_sent_again() -> None:
    flight = Flight(Counts(), Latency(), keep_s=60)
    flight.packed(FRAMES, now=0.0)
    flight.settle([1, 2], now=1.0)
    flight.settle([3, 4, 5, 6], now=30.0)
    assert payloads(flight.rewound(now=62.0)) == [b"2", b"3", b"4", b"5"]


def test_births_are_not_kept_and_frames_sent_again_are_kept_no_second_time() -> None:
    flight = Flight(Counts(), Latency(), keep_s=60)
    flight.packed([Message("t", b"birth", kind="status"), FRAMES[0]], now=0.0)
    flight.settle([1, 2], now=1.0)
    first = flight.rewound(now=2.0)
    flight.packed(first, now=2.0)
    flight.settle([3], now=3.0)
    assert payloads(flight.rewound(now=4.0)) == payloads(first) == [b"0"]


def test_without_keeping_only_what_is_in_flight_is_sent_again() -> None:
    flight = Flight(Counts(), Latency())
    flight.packed(FRAMES, now=0.0)
    flight.settle([1, 2, 3, 4], now=1.0)
    assert payloads(flight.rewound(now=2.0)) == [b"4", b"5"]
