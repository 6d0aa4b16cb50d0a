"""What comes within the wait before a read is read with it; after much, or with some left, nothing waits."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.uplink import mqtt_source
from bridge.uplink.mqtt_source import MANY_BYTES, MqttSource, SourceConfig
from bridge.uplink.wire import BufferedSocket
from infra.clients.mqtt_broker import MqttBroker
from infra.stack.access.identity import Authority
from tests.unit.bridge.uplink.test_wire import publish

GATHER_S = 0.5


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A source that is connected, the other end of its line, and the waits before its reads.

    ``meanwhile`` is sent by the other end during the next wait.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    config = SourceConfig(MqttBroker("h", 1), "c", ("r/#",), 10, Path("none"), gather_s=GATHER_S)
    source: Any = MqttSource(config)
    source._client = SimpleNamespace(want_write=lambda: False, loop_misc=lambda: 0)
    source.line = BufferedSocket(ours)
    source.connected = True
    found = SimpleNamespace(source=source, theirs=theirs, waits=[], meanwhile=b"")

    def wait(seconds: float) -> None:
        found.waits.append(seconds)
        theirs.sendall(found.meanwhile)
        found.meanwhile = b""

    # The module's own: other threads of this process sleep on.
    monkeypatch.setattr(mqtt_source, "time", SimpleNamespace(**vars(time) | {"sleep": wait}))
    yield found
    ours.close()
    theirs.close()


def packet(packet_id: int, size: int = 10) -> bytes:
    return publish(b"r/a", packet_id, b"x" * size)


def ids(found: list[tuple[bytes, int, bytes]]) -> list[int]:
    return [packet_id for _, packet_id, _ in found]


def test_messages_that_come_within_the_wait_are_read_together(line: Any) -> None:
    line.meanwhile = packet(2) + packet(3)
    line.theirs.sendall(packet(1))
    assert ids(line.source.poll(500, 0.0)) == [1, 2, 3]
    assert line.waits == [GATHER_S]


def test_nobody_waits_where_nothing_comes(line: Any) -> None:
    assert line.source.poll(500, 0.0) == []
    assert line.waits == []


def test_after_much_the_next_read_is_at_once_and_after_little_it_waits_again(line: Any) -> None:
    line.theirs.sendall(packet(1, MANY_BYTES))
    assert ids(line.source.poll(500, 0.0)) == [1]
    for packet_id, waits in ((2, 1), (3, 2)):
        line.theirs.sendall(packet(packet_id))
        assert ids(line.source.poll(500, 0.0)) == [packet_id]
        assert len(line.waits) == waits


def test_a_read_takes_all_records_of_tls_that_are_there(line: Any, tmp_path: Path) -> None:
    theirs = Authority(tmp_path, "test").issue("broker", hosts=["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(theirs.certificate, theirs.key)
    sent = threading.Event()

    def send() -> None:
        with context.wrap_socket(line.theirs.dup(), server_side=True) as broker:
            for packet_id in range(1, 101):
                broker.sendall(packet(packet_id))
            sent.set()
            broker.recv(1)

    thread = threading.Thread(target=send)
    thread.start()
    ours = ssl.create_default_context(cafile=tmp_path / "ca" / "test" / "ca.pem")
    line.source.line._sock.setblocking(True)
    raw = line.source.line._sock.dup()
    with ours.wrap_socket(raw, server_hostname="localhost") as client:
        assert sent.wait(10.0)
        client.setblocking(False)
        line.source.line = BufferedSocket(client)
        assert ids(line.source.poll(500, 0.0)) == [*range(1, 101)]
        client.setblocking(True)
        client.sendall(b"x")
        thread.join(10.0)
    assert not thread.is_alive()
