"""Who a connection is, and the end of the session that a listening one had. MQTT 3.1.1, either client."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from edge_simulator.sending import mqtt_packets as packets
from edge_simulator.sending.publishing import Message
from infra.clients.mqtt_broker import MqttBroker, opened

CONNECT_S = 5.0
"""A connection that has not been accepted after this is tried anew."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who connects where; for will and filters see publishing.Publishing."""

    broker: MqttBroker
    client_id: str
    keepalive_s: float
    will: Message | None = None
    filters: tuple[str, ...] = ()
    keep_s: float = 0.0
    """Frames are kept so long after their PUBACK, and sent again when the connection was lost."""
    context: ssl.SSLContext | None = None
    """What TLS is spoken with, where the broker wants it."""


def give_up(broker: MqttBroker, client_ids: Iterable[str]) -> None:
    """End sessions that the broker would keep, each by a clean one that ends at once.

    A broker that is away keeps them as long as it keeps any.
    """
    with suppress(OSError):
        for client_id in client_ids:
            with opened(broker, CONNECT_S) as sock:
                sock.sendall(packets.connect(client_id, 1, login=(broker.user, broker.password)))
                sock.recv(4)  # CONNACK: the old session is gone
                sock.sendall(packets.DISCONNECT)
