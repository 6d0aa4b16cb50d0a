"""Publishing with paho, the reference: QoS 1 over a pool of connections, every PUBACK counted.

A vehicle is pinned to one connection, so its messages keep their order. A message is kept until its PUBACK:
in paho's table once it was sent, in this pool's own queue while the connection is away (a message handed to
paho between TCP connect and CONNACK would overtake those that are sent again).
"""

from __future__ import annotations

import selectors
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from edge_simulator.sending import publishing
from edge_simulator.sending.mqtt_packets import Incoming
from edge_simulator.sending.publishing import AckMark, Counts, Latency, Message, Publishing
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError


class _Connection:
    """One MQTT connection and what it still owes."""

    def __init__(
        self, broker: MqttBroker, client_id: str, will: Message | None, filters: Sequence[str],
        counts: Counts, latency: Latency, inbox: list[Incoming],
    ) -> None:  # fmt: skip
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=not filters)
        self.client.max_inflight_messages_set(0)
        broker.log_in(self.client)
        if will is not None:
            self.client.will_set(will.topic, will.payload, qos=1, retain=True)
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_publish = self._on_publish
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = lambda _c, _d, got: inbox.append(Incoming(got.topic, bytes(got.payload)))
        self.client_id = client_id
        self.filters = [(name, 1) for name in filters]
        self.listening = not filters
        self._last_retained: Message | None = None
        self._has_will = will is not None
        self.connected = self.lost = self.writing = False
        self.waiting: deque[Message] = deque()
        self.in_flight: dict[int, tuple[str, float, AckMark | None]] = {}
        self.retry_at = 0.0
        self.failures = 0
        self.refusal: str | None = None
        self._counts, self._latency = counts, latency

    def send(self, message: Message) -> None:
        """Publish, or keep until the connection is back."""
        if self._has_will and message.retain:
            self._last_retained = message
        self.waiting.append(message)
        self.flush()

    def flush(self) -> None:
        """Publish what waited, as long as the connection takes it."""
        while self.connected and self.waiting and len(self.in_flight) < publishing.MAX_PER_CONNECTION:
            message, begun = self.waiting.popleft(), time.perf_counter()
            info = self.client.publish(message.topic, message.payload, qos=1, retain=message.retain)
            if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                raise ServiceError("the MQTT client refused a message: its packet identifiers are used up")
            self.in_flight[info.mid] = (message.kind, begun, message.mark)

    def _on_connect(self, client: mqtt.Client, _data: Any, flags: Any, reason: Any, _props: Any) -> None:
        if reason.is_failure:
            self.lost, self.refusal = True, str(reason)
            return
        self.connected, self.refusal, self.failures = True, None, 0
        self.listening = not self.filters or flags.session_present
        if not self.listening:
            client.subscribe(self.filters)
        owed = {message.kind for message in self.waiting} | {kind for kind, _, _ in self.in_flight.values()}
        if self._last_retained is not None and self._last_retained.kind not in owed:
            self._counts.sent[self._last_retained.kind] += 1
            self.waiting.appendleft(self._last_retained)

    def _on_subscribe(self, _client: mqtt.Client, _data: Any, _mid: int, codes: Any, _props: Any) -> None:
        self.listening = not any(code.is_failure for code in codes)
        self.refusal = None if self.listening else "the broker refuses a subscription; try --no-react"

    def _on_disconnect(self, *_ignored: Any) -> None:
        self.connected, self.lost = False, True

    def _on_publish(self, _client: mqtt.Client, _data: Any, mid: int, reason: Any, _props: Any) -> None:
        kind, begun, mark = self.in_flight.pop(mid)
        if reason.is_failure:
            self._counts.refused += 1
            return
        self._counts.acked[kind] += 1
        if mark is not None:
            self._counts.acked_marks.append(mark)
        self._latency.add(time.perf_counter() - begun)


class PahoPublisher(Publishing):
    """A pool of connections."""

    def __init__(
        self, broker: MqttBroker, client_ids: Sequence[str], wills: Mapping[int, Message] | None = None,
        keepalive_s: int = publishing.KEEPALIVE_S, filters: Mapping[int, Sequence[str]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(broker)
        self._keepalive_s = keepalive_s
        ends, ears = wills or {}, filters or {}
        mine = (self.counts, self.latency, self._inbox)
        self._links = [
            _Connection(broker, name, ends.get(k), ears.get(k, ()), *mine)
            for k, name in enumerate(client_ids)
        ]
        for link in self._links:
            link.client.user_data_set(link)
            link.client.on_socket_open = self._watch
            link.client.on_socket_close = self._forget
        self._misc_at = 0.0
        self._last_error = "no answer"

    def _trouble(self) -> str | None:
        if all(link.connected and link.listening for link in self._links):
            return None
        return next((link.refusal for link in self._links if link.refusal), self._last_error)

    def publish_many(self, connections: Sequence[int], messages: Sequence[Message]) -> None:
        """Hand over messages, each for its connection."""
        for connection, message in zip(connections, messages, strict=True):
            self.counts.sent[message.kind] += 1
            self._links[connection % len(self._links)].send(message)

    def drive(self, timeout_s: float) -> None:
        """Do the network's work for at most about ``timeout_s``: read, write, keep alive, reconnect."""
        now = time.monotonic()
        for link in self._links:
            sock = link.client.socket()
            if sock is None:
                self._revive(link, now)
            elif isinstance(sock, ssl.SSLSocket) and sock.pending():  # what no selector sees any more
                timeout_s = 0.0
                link.client.loop_read()
            self._want_writing(link)
        for key, events in self._selector.select(max(timeout_s, 0.0)):
            if events & selectors.EVENT_READ:
                key.data.client.loop_read()
            if events & selectors.EVENT_WRITE:
                key.data.client.loop_write()
        if now >= self._misc_at:
            self._misc_at = now + min(1.0, self._keepalive_s / 4)
            for link in self._links:
                link.client.loop_misc()
        for link in self._links:
            link.flush()

    def _revive(self, link: _Connection, now: float) -> None:
        """Connect what has no connection; a broker that is away is tried again with growing pauses."""
        if link.connected or now < link.retry_at:
            return
        self.counts.reconnects += link.lost
        link.lost = link.writing = False
        link.retry_at = now + publishing.pause_s(link.failures)
        link.failures += 1
        try:
            link.client.connect(self._broker.host, self._broker.port, keepalive=self._keepalive_s)
        except OSError as error:
            self._last_error = self._broker.trouble(error)  # whoever waits reports it

    def _watch(self, _client: mqtt.Client, link: Any, sock: Any) -> None:
        self._selector.register(sock, selectors.EVENT_READ, link)

    def _forget(self, _client: mqtt.Client, _link: Any, sock: Any) -> None:
        self._selector.unregister(sock)

    def _want_writing(self, link: _Connection) -> None:
        """Watch for room to write only where bytes wait."""
        sock, wanted = link.client.socket(), link.client.want_write()
        if sock is not None and wanted != link.writing:
            link.writing = wanted
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self._selector.modify(sock, events, link)

    def _close(self) -> list[str]:
        for link in self._links:
            link.client.disconnect()
        return [link.client_id for link in self._links if link.filters]
