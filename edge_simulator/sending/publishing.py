"""Publishing to the broker: the message, the counts, and what both MQTT clients have in common.

paho (paho_publisher.py) is the reference, one message at a time. The lean one (lean_publisher.py) writes
prepared packets in batches.
"""

from __future__ import annotations

import math
import selectors
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from edge_simulator.sending import mqtt_packets as packets
from infra.clients.mqtt_broker import MqttBroker, opened
from infra.contract.errors import ServiceError

KEEPALIVE_S = 30
CONNECT_S = 5.0  # a connection that has not been accepted after this is tried anew
RETRY_S = (0.2, 0.5, 1.0, 2.0)
MAX_PER_CONNECTION = 20_000  # packet identifiers are 16 bits: stay far below


def pause_s(failures: int) -> float:
    """How long a connection waits after so many failures in a row."""
    return RETRY_S[min(failures, len(RETRY_S) - 1)]


class Latency:
    """Times from publish to PUBACK in logarithmic bins of 2 %."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()

    def add(self, seconds: float, times: int = 1) -> None:
        """Count one time, or the same one several times."""
        self._bins[round(math.log(max(seconds, 1e-6)) * 50)] += times

    def quantile_ms(self, share: float) -> float | None:
        """The time below which ``share`` of all lie, ms; None when there are none."""
        wanted = share * self._bins.total()
        seen = 0
        for step in sorted(self._bins):
            seen += self._bins[step]
            if seen >= wanted:
                return round(1000 * math.exp(step / 50), 2)
        return None


class AckMark(NamedTuple):
    """Where a PUBACK is to be written down: the file, and the message's key there."""

    path: Path
    key: str


class Message(NamedTuple):
    """One message to publish. ``kind`` labels it in the counts; a ``mark`` comes back with its PUBACK."""

    topic: str
    payload: bytes
    kind: str = "telemetry"
    retain: bool = False
    mark: AckMark | None = None


@dataclass(slots=True)
class Counts:
    """What a publisher did, by kind of message."""

    sent: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    acked_marks: list[AckMark] = field(default_factory=list)
    """Marks of messages acknowledged since somebody emptied the list."""
    reconnects: int = 0
    refused: int = 0  # PUBACKs that carried an error


class Publishing(ABC):
    """Connections to one broker at QoS 1; a context manager. One thread does everything.

    By connection, where there is one: ``wills``, its last will, and ``filters``, what it listens to. One
    with a will sends its last retained message again when it is back, for the will was published meanwhile.
    One that listens has a session that outlives a broken connection, so the broker keeps what comes; it is
    given up at the end.

    Messages of one connection keep their order; a message is kept until its PUBACK, whatever happens to the
    connection, and sent again, in order, before what came later.
    """

    def __init__(self, broker: MqttBroker) -> None:
        self.counts = Counts()
        self.latency = Latency()
        self._broker = broker
        self._selector = selectors.DefaultSelector()
        self._inbox: list[packets.Incoming] = []

    @property
    def owed(self) -> int:
        """Messages accepted and not yet acknowledged."""
        return self.counts.sent.total() - self.counts.acked.total() - self.counts.refused

    @abstractmethod
    def _trouble(self) -> str | None:
        """Why not all connections stand and listen; None when they do."""

    def connect(self, deadline_s: float) -> None:
        """Open all connections; raises ServiceError when the broker does not take them in time."""
        end = time.monotonic() + deadline_s
        while (trouble := self._trouble()) is not None:
            if time.monotonic() > end:
                raise ServiceError(
                    f"no MQTT broker at {self._broker} after {deadline_s:g} s ({trouble}); "
                    "start it (odograph up) or check ODOGRAPH_MQTT_URL"
                )
            self.drive(0.02)

    @abstractmethod
    def publish_many(self, connections: Sequence[int], messages: Sequence[Message]) -> None:
        """Hand over messages, each for its connection (modulo their number)."""

    def take(self) -> list[packets.Incoming]:
        """Messages from the service since the last call, in order of arrival."""
        found = self._inbox.copy()
        self._inbox.clear()
        return found

    @abstractmethod
    def drive(self, timeout_s: float) -> None:
        """Do the network's work for at most about ``timeout_s``: read, write, keep alive, reconnect."""

    def drain(self, deadline_s: float) -> int:
        """Wait until all is acknowledged or the time is up; returns what is left."""
        end = time.monotonic() + deadline_s
        while self.owed and time.monotonic() < end:
            self.drive(0.05)
        return self.owed

    @abstractmethod
    def _close(self) -> Iterable[str]:
        """Close all connections in order; returns the client ids of those that listened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        listeners = self._close()
        self._selector.close()
        # A clean session that ends at once ends the kept one; a broker that is away keeps it.
        with suppress(OSError):
            for client_id in listeners:
                with opened(self._broker, CONNECT_S) as sock:
                    login = (self._broker.user, self._broker.password)
                    sock.sendall(packets.connect(client_id, 1, login=login))
                    sock.recv(4)  # CONNACK: the old session is gone
                    sock.sendall(packets.DISCONNECT)
