"""Publishing at load: a pool of lean connections behind the same interface as paho's (publishing.py).

One thread; a selector says which socket has something to read or takes bytes again.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from edge_simulator.sending.lean_connection import Connection
from edge_simulator.sending.publishing import KEEPALIVE_S, Counts, Incoming, Latency, Message
from edge_simulator.sending.sessions import Identity, give_up
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError

TICKS = 4
"""Looks at the connections' age in a keep-alive time; at least one a second."""


class LeanPublisher:
    """A pool of connections; use as a context manager. See Publishing for the mappings by connection."""

    def __init__(
        self, broker: MqttBroker, client_ids: Sequence[str], wills: Mapping[int, Message] | None = None,
        keepalive_s: float = KEEPALIVE_S, filters: Mapping[int, Sequence[str]] | None = None,
        keep_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.counts = Counts()
        self.latency = Latency()
        self._inbox: list[Incoming] = []
        ends, ears, context = wills or {}, filters or {}, broker.context()
        identities = [
            Identity(broker, name, keepalive_s, ends.get(k), tuple(ears.get(k, ())), keep_s, context)
            for k, name in enumerate(client_ids)
        ]
        self._links = [Connection(who, self.counts, self.latency, self._inbox) for who in identities]
        self._watched: dict[Connection, tuple[int, int]] = {}
        """File descriptor and events that the selector waits for."""
        self._selector = selectors.DefaultSelector()
        self._away = set(self._links)
        self._every_s = min(1.0, keepalive_s / TICKS)
        self._tick_at = 0.0
        self._broker = broker

    @property
    def owed(self) -> int:
        """Messages accepted and not yet acknowledged."""
        return self.counts.sent.total() - self.counts.acked.total()

    def connect(self, deadline_s: float) -> None:
        """Open all connections; raises ServiceError when the broker does not take them in time."""
        end = time.monotonic() + deadline_s
        while not all(link.up and link.listening for link in self._links):
            self.drive(0.02)
            if time.monotonic() > end:
                trouble = next(link.trouble for link in self._links if not (link.up and link.listening))
                raise ServiceError(
                    f"no MQTT broker at {self._broker} after {deadline_s:g} s ({trouble}); "
                    "start it (odograph up) or check ODOGRAPH_MQTT_URL"
                )

    def publish(self, connection: int, message: Message) -> None:
        """Hand over one message for one connection; it is kept until acknowledged."""
        self.publish_many([connection], [message])

    def publish_many(self, connections: Sequence[int], messages: Sequence[Message]) -> None:
        """Hand over messages, each for its connection."""
        self.counts.sent.update([message.kind for message in messages])
        if len(self._links) == 1:
            self._send(self._links[0], messages)
            return
        parts: dict[int, list[Message]] = {}
        for connection, message in zip(connections, messages, strict=True):
            parts.setdefault(connection % len(self._links), []).append(message)
        for number, part in parts.items():
            self._send(self._links[number], part)

    def take(self) -> list[Incoming]:
        """Messages from the service since the last call, in order of arrival."""
        if not self._inbox:
            return []
        found = self._inbox.copy()
        self._inbox.clear()
        return found

    def _send(self, link: Connection, messages: Sequence[Message]) -> None:
        link.send(messages, time.monotonic())
        self._attend(link)

    def drive(self, timeout_s: float) -> None:
        """Do the network's work for at most about ``timeout_s``: read, write, keep alive, reconnect."""
        now = time.monotonic()
        for link in [link for link in self._away if now >= link.retry_at]:
            link.open(now)
            self._attend(link)
        for key, events in self._selector.select(max(timeout_s, 0.0)):
            self._serve(key.data, events)
        if now >= self._tick_at:
            self._tick_at = now + self._every_s
            for link in self._links:
                link.tick(now)
                self._attend(link)

    def _serve(self, link: Connection, events: int) -> None:
        now = time.monotonic()
        if events & selectors.EVENT_WRITE:
            link.on_writable(now)
        if events & selectors.EVENT_READ and link.sock is not None:
            link.on_readable(now)
        self._attend(link)

    def _attend(self, link: Connection) -> None:
        """Wait for what the connection waits for now; note whether it is away."""
        wanted = None
        if link.sock is not None:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_write else 0)
            wanted = (link.sock.fileno(), events)
        known = self._watched.get(link)
        if wanted == known:
            return
        if known is not None and (wanted is None or wanted[0] != known[0]):
            self._selector.unregister(known[0])
            known = None
        if wanted is None:
            self._watched.pop(link, None)
            self._away.add(link)
            return
        self._away.discard(link)
        self._watched[link] = wanted
        change = self._selector.register if known is None else self._selector.modify
        change(wanted[0], wanted[1], link)

    def drain(self, deadline_s: float) -> int:
        """Wait until all is acknowledged or the time is up; returns what is left."""
        end = time.monotonic() + deadline_s
        while self.owed and time.monotonic() < end:
            self.drive(0.05)
        return self.owed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links:
            link.close()
        self._selector.close()
        identities = [link.identity for link in self._links if link.identity.filters]
        give_up(self._broker, [who.client_id for who in identities])
