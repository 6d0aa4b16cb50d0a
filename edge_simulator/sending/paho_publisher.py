"""Publishing with paho, the reference: QoS 1 over a pool of connections, every PUBACK counted.

A vehicle is pinned to one connection, so its messages keep their order. A message is kept until its PUBACK:
in paho's table once it was sent, in the connection's own queue while it is away (a message handed to paho
between TCP connect and CONNACK would overtake those that are sent again).
"""

import selectors
import ssl
import time
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from edge_simulator.sending.mqtt_packets import Incoming
from edge_simulator.sending.publishing import MAX_PER_CONNECTION, Identity, Link, Message, Publishing
from infra.contract.errors import ServiceError


class _Connection(Link):
    """One MQTT connection and what it still owes."""

    def __init__(self, identity: Identity, pool: Publishing) -> None:
        super().__init__(identity, pool)
        self._client = client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=identity.client_id, clean_session=not identity.filters
        )
        client.max_inflight_messages_set(0)
        self.broker.log_in(client)
        if identity.will is not None:
            client.will_set(identity.will.topic, identity.will.payload, qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_message = lambda _c, _d, got: self._inbox.append(Incoming(got.topic, bytes(got.payload)))
        self._in_flight: dict[int, tuple[Message, float]] = {}

    def watched(self) -> tuple[int, int] | None:
        sock = self._client.socket()
        writes = selectors.EVENT_WRITE if self._client.want_write() else 0
        return None if sock is None else (sock.fileno(), selectors.EVENT_READ | writes)

    def open(self, _now: float) -> None:
        broker, keepalive_s = self.broker, max(1, round(self.identity.keepalive_s))
        try:
            self._client.connect(broker.host, broker.port, keepalive=keepalive_s)
        except OSError as error:
            self.trouble = broker.trouble(error)  # whoever waits reports it
            self._losses += 1

    def on_readable(self, now: float) -> None:
        self._client.loop_read()
        # what TLS has decrypted, no selector sees any more
        while isinstance(sock := self._client.socket(), ssl.SSLSocket) and sock.pending():
            self._client.loop_read()
        self._push(now)

    def on_writable(self, _now: float) -> None:
        self._client.loop_write()

    def tick(self, _now: float) -> None:
        self._client.loop_misc()

    def close(self) -> None:
        self.up = False
        self._client.disconnect()

    def _push(self, _now: float) -> None:
        while self.up and self._waiting and len(self._in_flight) < MAX_PER_CONNECTION:
            message, begun = self._waiting.popleft(), time.perf_counter()
            info = self._client.publish(message.topic, message.payload, qos=1, retain=message.retain)
            if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                raise ServiceError("the MQTT client refused a message: its packet identifiers are used up")
            self._in_flight[info.mid] = (message, begun)

    def _on_connect(self, client: mqtt.Client, _data: Any, flags: Any, reason: Any, _props: Any) -> None:
        if reason.is_failure:
            self.trouble = str(reason)
            return
        self.up, self.failures = True, 0
        filters = [(name, 1) for name in self.identity.filters]
        self.listening = not filters or flags.session_present
        if not self.listening:
            client.subscribe(filters)
        self._retain_again(message for message, _ in self._in_flight.values())

    def _on_subscribe(self, _client: mqtt.Client, _data: Any, _mid: int, codes: Any, _props: Any) -> None:
        self.listening = not any(code.is_failure for code in codes)
        if not self.listening:
            self.trouble = "the broker refuses a subscription; try --no-react"

    def _on_disconnect(self, *_ignored: Any) -> None:
        self._losses += 1
        self._counts.reconnects += self.up
        self.up = False

    def _on_publish(self, _client: mqtt.Client, _data: Any, mid: int, _reason: Any, _props: Any) -> None:
        message, begun = self._in_flight.pop(mid)
        self._counts.acked[message.kind] += 1
        if message.mark is not None:
            self._counts.acked_marks.append(message.mark)
        self._latency.add(time.perf_counter() - begun)


class PahoPublisher(Publishing):
    """A pool of connections of paho's."""

    kind = _Connection
