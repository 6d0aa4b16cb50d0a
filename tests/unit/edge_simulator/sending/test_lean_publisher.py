"""Frames kept beyond their PUBACK: which are sent again when a connection was lost, and in which order. And
the addresses of a broker's name.
"""

from __future__ import annotations

import select
import socket
from typing import Any

import pytest

from edge_simulator.sending.lean_publisher import SENT_AGAIN, Flight, LeanPublisher
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Counts, Latency, Message
from edge_simulator.sending.run import KEEP_S, publisher_of
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ConfigError
from tests.support import eventually

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


def test_several_brokers_ask_for_keeping_of_the_lean_client_and_let_the_other_one_be() -> None:
    with publisher_of("auto", 1, brokers=2)([MqttBroker("broker.invalid", 1)] * 2, ["c"]) as kept:
        assert isinstance(kept, LeanPublisher)
        assert kept.keep_s == KEEP_S
    assert publisher_of("paho", 1, brokers=2) is PahoPublisher
    with pytest.raises(ConfigError, match="--keep-sent: the lean client does that"):
        publisher_of("paho", 1, 60.0, brokers=2)


def test_a_brokers_name_is_tried_at_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = socket.getaddrinfo

    def both(_host: str, *terms: Any, **more: Any) -> list[Any]:
        return [*asked("127.0.0.2", *terms, **more), *asked("127.0.0.1", *terms, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        LeanPublisher([MqttBroker("broker.invalid", door.getsockname()[1])], ["c"]) as publisher,
    ):
        eventually(lambda: publisher.drive(0.01) or select.select([door], [], [], 0)[0], 30, "a connection")
