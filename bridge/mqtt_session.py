"""Who the bridge is to the broker: client ids, sessions, connections; and the end of a session."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.buffered_socket import BufferedSocket
from bridge.wire import PACKET_BYTES
from infra.clients.mqtt_broker import MqttBroker

KEEPALIVE_S: Final = 30
CONNECT_S: Final = 2.0
NOTED_MS: Final = 1000
SESSION_EXPIRY_S: Final = 7 * 86_400
"""The broker keeps the session of an absent bridge this long."""


@dataclass(frozen=True, slots=True)
class SessionLoss:
    """The broker held messages for a session and may have thrown them away, ms since 1970.

    ``from_ms``: when the session was last known to be there; ``at_ms``: when it was found to be gone.
    """

    client_id: str
    why: str
    from_ms: int
    at_ms: int


class SessionMemory:
    """When our session was last known to be at the broker; a file's time, so that a restart knows it too.

    Without a file it is known for the life of the process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known_ms: int | None = None

    def known_ms(self) -> int | None:
        """None: there never was one, or it was ended on purpose."""
        with suppress(FileNotFoundError):
            return self._known_ms if self._path is None else self._path.stat().st_mtime_ns // 1_000_000
        return None

    def note(self, now_ms: int) -> None:
        """It is there now; written down once a second."""
        if self._known_ms is None or now_ms - self._known_ms >= NOTED_MS:
            self._known_ms = now_ms
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.touch()

    def forget(self) -> None:
        """It was ended on purpose."""
        self._known_ms = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where and as whom. ``receive_maximum``: the broker sends no more than this unacknowledged.

    ``qos`` 0: the broker keeps no session for us, and sends each message once, without acknowledgement.

    ``max_packet_bytes``: of a larger message only the first bytes are held.

    ``gather_s``: how long the first message waits to be read together with those that come after it.

    ``marker``, where it is given, is a topic of ours: the session is to be emptied. The subscription ends,
    and a message of that topic comes behind all that the broker still holds.
    """

    broker: MqttBroker
    client_id: str
    filters: tuple[str, ...]
    receive_maximum: int
    qos: int = 1
    marker: str = ""
    max_packet_bytes: int = PACKET_BYTES
    identity_property: str = ""
    gather_s: float = 0.0
    session: SessionMemory = field(default_factory=SessionMemory)


class _Client(Client):
    """paho with our socket under it."""

    def _create_socket(self) -> Any:
        sock: Any = super()._create_socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return BufferedSocket(sock)


def new_client(config: SourceConfig, client: type[Client] = _Client) -> Client:
    """A client that acknowledges nothing by itself."""
    made = client(
        CallbackAPIVersion.VERSION2, config.client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True
    )
    made.connect_timeout = CONNECT_S
    config.broker.log_in(made)
    return made


def end_session(config: SourceConfig) -> None:
    """Let the broker forget the session, and whatever it holds for it; so do we. Raises OSError."""
    client = new_client(config, Client)
    properties = connect_properties(replace(config, qos=0))
    client.connect(
        config.broker.host, config.broker.port, KEEPALIVE_S, clean_start=True, properties=properties
    )
    deadline_s = time.monotonic() + CONNECT_S
    while not client.is_connected():
        if client.loop(0.1) != 0 or time.monotonic() > deadline_s:
            raise ConnectionError("the broker does not take the connection that ends the session")
    client.disconnect()
    config.session.forget()


def connect_properties(config: SourceConfig, refuse_large: bool = False) -> Properties:
    """What CONNECT says beside who we are: how long our session is kept, how much may be unacknowledged.

    ``refuse_large``: the broker is to throw away what is larger than ``max_packet_bytes`` (3.1.2.11.4).
    """
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = SESSION_EXPIRY_S if config.qos else 0
    properties.ReceiveMaximum = config.receive_maximum
    if refuse_large:
        properties.MaximumPacketSize = config.max_packet_bytes
    return properties
