"""While the lane does not read: the connection stays; and how much is sent before that."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from paho.mqtt import client as paho

from bridge.uplink import service
from bridge.uplink.mqtt_source import KEEPALIVE_S, MqttSource, SourceConfig
from infra.clients.mqtt_broker import MqttBroker
from infra.settings.settings import Endpoints, load
from tests.support import eventually
from tests.unit.bridge.uplink.test_wire import publish

CONNACK, PINGREQ, PINGRESP = b"\x20\x03\x00\x00\x00", b"\xc0\x00", b"\xd0\x00"
NOT_AUTHORIZED = b"\x20\x03\x00\x87\x00"


def dialled(door: socket.socket, folder: Path) -> tuple[MqttSource, socket.socket]:
    """A source that has dialled, and the broker's end of its connection."""
    config = SourceConfig(MqttBroker(*door.getsockname()), "c", ("r/#",), 10, folder / "session")
    source = MqttSource(config)
    eventually(lambda: source.poll(10, 0.1) == [] and source.line, 30, "a connection")
    return source, door.accept()[0]


def test_a_connection_that_is_not_read_is_kept_alive_and_judged_when_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(paho, "time_func", lambda: clock.now_s)
    with socket.create_server(("127.0.0.1", 0)) as door:
        source, broker = dialled(door, tmp_path)
    with broker:
        broker.settimeout(30.0)
        broker.sendall(CONNACK)
        eventually(lambda: source.poll(10, 0.1) == [] and source.connected, 30, "it stands")
        broker.recv(4096)  # CONNECT, SUBSCRIBE
        for _ in range(4):
            clock.now_s += KEEPALIVE_S + 1
            assert source.poll(0, 0.0) == []
            assert broker.recv(4096).endswith(PINGREQ)
        broker.sendall(publish(b"r/a", 1, b"x") + PINGRESP * 4)
        eventually(lambda: source.poll(10, 0.1) == [(b"r/a", 1, b"x")], 30, "what waited")
        assert (source.connected, source.epoch) == (True, 1)
        for _ in range(2):
            clock.now_s += KEEPALIVE_S + 1
            source.poll(10, 0.0)
        assert (source.connected, source.trouble) == (False, "ConnectionError: the broker answers no ping")


def test_a_broker_that_refuses_the_connection_is_told_by_its_own_word(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        source, broker = dialled(door, tmp_path)
        with broker:
            broker.sendall(NOT_AUTHORIZED)
            eventually(lambda: source.poll(10, 0.1) == [] and source.line is None, 30, "its end")
    assert source.reason() == "ConnectionError: the broker refuses the connection: Not authorized"


def test_the_sessions_of_all_brokers_share_a_window_that_leaves_room_to_read() -> None:
    three = Endpoints("h1", 1, "", "", "", "", mqtt_others=[["h2", 1], ["h3", 1]])
    alone = service.source_configs("telemetry", load(), three, None, receive_maximum=10_000)
    slot = service.source_configs("telemetry", load(), three, 5, receive_maximum=60_000)
    assert [c.receive_maximum for c in (*alone, *slot)] == [3333] * 3 + [312] * 3
    assert [c.receive_maximum for c in service.source_configs("crash", load(), three, None)] == [1] * 3
