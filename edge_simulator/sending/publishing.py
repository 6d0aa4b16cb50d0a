"""Publishing to the broker: the message, the counts, and what both MQTT clients have in common.

paho (paho_publisher.py) is the reference, one message at a time. The lean one (lean_publisher.py) writes
prepared packets in batches. Each is a kind of connection; the pool of them is the same.
"""

import math
import selectors
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from edge_simulator.sending import mqtt_packets as packets
from infra.clients.mqtt_broker import MqttBroker, opened
from infra.contract.errors import ServiceError

KEEPALIVE_S = 30
TICKS = 4  # looks at the connections' age in a keep-alive time; at least one a second
CONNECT_S = 5.0  # a connection that has not been accepted after this is tried anew
RETRY_S = (0.2, 0.5, 1.0, 2.0)
MAX_PER_CONNECTION = 20_000  # packet identifiers are 16 bits: stay far below


class Latency(Counter[int]):
    """Times from publish to PUBACK in logarithmic bins of 2 %."""

    def add(self, seconds: float, times: int = 1) -> None:
        """Count one time, or the same one several times."""
        self[round(math.log(max(seconds, 1e-6)) * 50)] += times

    def quantile_ms(self, share: float) -> float | None:
        """The time below which ``share`` of all lie, ms; None when there are none."""
        wanted = share * self.total()
        seen = 0
        for step in sorted(self):
            seen += self[step]
            if seen >= wanted:
                return round(1000 * math.exp(step / 50), 2)
        return None


class Message(NamedTuple):
    """One message to publish. ``kind`` labels it in the counts; ``mark`` comes back with its PUBACK."""

    topic: str
    payload: bytes
    kind: str = "telemetry"
    retain: bool = False
    mark: Path | None = None  # where a crash message is kept


@dataclass(slots=True)
class Counts:
    """What a publisher did, by kind of message."""

    sent: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    acked_marks: list[Path] = field(default_factory=list)
    """Marks of messages acknowledged since somebody emptied the list."""
    reconnects: int = 0


class Identity(NamedTuple):
    """Who connects where, one of the brokers after the other; for will and filters see Publishing."""

    brokers: Sequence[MqttBroker]
    client_id: str
    keepalive_s: float
    will: Message | None
    filters: tuple[str, ...]


class Link(ABC):
    """One connection, made again when it is lost; ``now`` is a monotonic clock in seconds everywhere."""

    def __init__(self, identity: Identity, pool: "Publishing") -> None:
        self.identity = identity
        self.up = False
        self.listening = not identity.filters  # whether the broker knows what we listen to
        self.trouble = "no answer"
        self.retry_at = 0.0
        self.failures = 0
        self._losses = 0
        self._waiting: deque[Message] = deque()
        self._last_retained: Message | None = None
        """What stands retained under the will's topic as far as we know."""
        self._counts, self._latency, self._inbox = pool.counts, pool.latency, pool.inbox

    @property
    def broker(self) -> MqttBroker:
        """The broker of this connection: after each loss, and each vain attempt, the next one."""
        return self.identity.brokers[self._losses % len(self.identity.brokers)]

    def send(self, messages: Sequence[Message], now: float) -> None:
        """Publish, or keep until the connection is back."""
        if self.identity.will is not None:
            self._last_retained = next((m for m in reversed(messages) if m.retain), self._last_retained)
        self._waiting.extend(messages)
        self._push(now)

    def _retain_again(self, in_flight: Iterable[Message]) -> None:
        """The connection is back: send the last retained message again, unless it is owed anyway."""
        retained = self._last_retained
        if retained is not None and retained not in chain(in_flight, self._waiting):
            self._counts.sent[retained.kind] += 1
            self._waiting.appendleft(retained)

    @abstractmethod
    def _push(self, now: float) -> None:
        """Write what waits, as far as the connection takes it."""

    @abstractmethod
    def watched(self) -> tuple[int, int] | None:
        """File descriptor, and the events to wait for; None while there is no connection."""

    @abstractmethod
    def open(self, now: float) -> None:
        """Begin to connect."""

    @abstractmethod
    def on_writable(self, now: float) -> None:
        """The socket takes bytes, or its connect has ended."""

    @abstractmethod
    def on_readable(self, now: float) -> None:
        """Bytes have come, if the connection still stands."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """About once a second: give up a connect that hangs, keep alive, notice a silent broker."""

    @abstractmethod
    def close(self) -> None:
        """Say goodbye, so that no last will is published."""


class Publishing:
    """Connections at QoS 1, each to one of the brokers, the first ones spread over them; a context manager.

    One thread does everything.

    ``own``, where each connection has a certificate of its own: its broker with it, in place of ``brokers``.
    By connection, where there is one: ``wills``, its last will, and ``filters``, what it listens to. One
    with a will sends its last retained message again when it is back, for the will was published meanwhile.
    One that listens has a session that outlives a broken connection, so the broker keeps what comes; it is
    given up at the end.

    Messages of one connection keep their order; a message is kept until its PUBACK, whatever happens to the
    connection, and sent again, in order, before what came later. The lean client keeps frames ``keep_s``
    after it, and sends them again too when the connection was lost.
    """

    kind: ClassVar[type[Link]]

    def __init__(
        self, brokers: Sequence[MqttBroker], client_ids: Sequence[str],
        wills: Mapping[int, Message] | None = None,
        keepalive_s: float = KEEPALIVE_S, filters: Mapping[int, Sequence[str]] | None = None,
        keep_s: float = 0.0, own: Sequence[MqttBroker] = (),
    ) -> None:  # fmt: skip
        self.counts = Counts()
        self.latency = Latency()
        self.inbox: list[packets.Incoming] = []
        self.keep_s = keep_s
        self.context = cache(MqttBroker.context)  # what TLS is spoken with, where a broker wants it
        self._brokers = own[:1] or brokers
        ends, ears = wills or {}, filters or {}
        self._links: list[Link] = []
        for k, name in enumerate(client_ids):
            at, heard = k % max(len(brokers), 1), tuple(ears.get(k, ()))
            tried = own[k : k + 1] or (*brokers[at:], *brokers[:at])
            self._links.append(self.kind(Identity(tried, name, keepalive_s, ends.get(k), heard), self))
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Link, tuple[int, int]] = {}
        self._away = set(self._links)
        self._every_s = min(1.0, keepalive_s / TICKS)
        self._tick_at = 0.0

    @property
    def owed(self) -> int:
        """Messages accepted and not yet acknowledged."""
        return self.counts.sent.total() - self.counts.acked.total()

    def connect(self, deadline_s: float) -> None:
        """Open all connections; raises ServiceError when the broker does not take them in time."""
        end = time.monotonic() + deadline_s
        while missing := [link for link in self._links if not (link.up and link.listening)]:
            if time.monotonic() > end:
                where = " or ".join(map(str, self._brokers))
                raise ServiceError(
                    f"no MQTT broker at {where} after {deadline_s:g} s ({missing[0].trouble}); "
                    "start it (odograph up) or check ODOGRAPH_MQTT_URL"
                )
            self.drive(0.02)

    def publish_many(self, connections: Sequence[int], messages: Sequence[Message]) -> None:
        """Hand over messages, each for its connection (modulo their number)."""
        self.counts.sent.update([message.kind for message in messages])
        parts: dict[int, list[Message]] = {}
        if len(self._links) == 1:
            parts[0] = list(messages)
        else:
            for connection, message in zip(connections, messages, strict=True):
                parts.setdefault(connection % len(self._links), []).append(message)
        for number, part in parts.items():
            self._links[number].send(part, time.monotonic())
            self._attend(self._links[number])

    def take(self) -> list[packets.Incoming]:
        """Messages from the service since the last call, in order of arrival."""
        found = self.inbox.copy()
        self.inbox.clear()
        return found

    def drive(self, timeout_s: float) -> None:
        """Do the network's work for at most about ``timeout_s``: read, write, keep alive, reconnect."""
        now = time.monotonic()
        for link in [link for link in self._away if now >= link.retry_at]:
            link.retry_at = now + RETRY_S[min(link.failures, len(RETRY_S) - 1)]
            link.failures += 1
            link.open(now)
            self._attend(link)
        for key, events in self._selector.select(max(timeout_s, 0.0)):
            link, at = key.data, time.monotonic()
            if events & selectors.EVENT_WRITE:
                link.on_writable(at)
            if events & selectors.EVENT_READ:
                link.on_readable(at)
            self._attend(link)
        if now >= self._tick_at:
            self._tick_at = now + self._every_s
            for link in self._links:
                link.tick(now)
                self._attend(link)

    def _attend(self, link: Link) -> None:
        """Wait for what the connection waits for now; note whether it is away."""
        wanted, known = link.watched(), self._watched.get(link)
        if wanted == known:
            return
        if known is not None:
            self._selector.unregister(self._watched.pop(link)[0])
        if wanted is None:
            self._away.add(link)
        else:
            self._away.discard(link)
            self._watched[link] = wanted
            self._selector.register(*wanted, link)

    def drain(self, deadline_s: float) -> int:
        """Wait until all is acknowledged or the time is up; returns what is left."""
        end = time.monotonic() + deadline_s
        while self.owed and time.monotonic() < end:
            self.drive(0.05)
        return self.owed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for link in self._links:
            link.close()
        self._selector.close()
        # A clean session that ends at once ends the kept one; a broker that is away keeps it.
        listening: dict[MqttBroker, list[str]] = {}
        for who in (link.identity for link in self._links if link.identity.filters):
            for broker in who.brokers:
                listening.setdefault(broker, []).append(who.client_id)
        for broker, client_ids in listening.items():
            with suppress(OSError):
                for client_id in client_ids:
                    with opened(broker, CONNECT_S) as sock:
                        login = (broker.user, broker.password)
                        sock.sendall(packets.connect(client_id, 1, login=login))
                        sock.recv(4)  # CONNACK: the old session is gone
                        sock.sendall(packets.DISCONNECT)
