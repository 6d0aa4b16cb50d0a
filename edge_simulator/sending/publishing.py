"""What publishing means here, whichever client does it: the message, the counts, the interface.

There are two clients. paho (publisher.py) is the reference, one message at a time. The lean one
(lean_publisher.py) writes prepared packets in batches. Both keep a message until its PUBACK.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from edge_simulator.edr.crash_store import Mark

KEEPALIVE_S = 30
RETRY_S = (0.2, 0.5, 1.0, 2.0)
MAX_PER_CONNECTION = 20_000
"""Packet identifiers are 16 bits: stay far below."""


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


class Message(NamedTuple):
    """One message to publish. ``kind`` labels it in the counts; a ``mark`` comes back with its PUBACK."""

    topic: str
    payload: bytes
    kind: str = "telemetry"
    retain: bool = False
    mark: Mark | None = None


class Incoming(NamedTuple):
    """One message from the service; it may come twice."""

    topic: str
    payload: bytes


@dataclass(slots=True)
class Counts:
    """What a publisher did, by kind of message."""

    sent: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    acked_marks: list[Mark] = field(default_factory=list)
    """Marks of messages acknowledged since somebody emptied the list."""
    reconnects: int = 0
    refused: int = 0
    """PUBACKs that carried an error."""


class Publishing(Protocol):
    """Connections to one broker at QoS 1; a context manager.

    By connection, where there is one: ``wills``, its last will, and ``filters``, what it listens to. One
    with a will says its last retained word again when it is back, for the will was published meanwhile. One
    that listens has a session that outlives a broken connection, so the broker keeps what comes; it is
    given up at the end.

    Messages of one connection keep their order; a message is kept until its PUBACK, whatever befalls the
    connection, and sent again, in order, before what came later.
    """

    counts: Counts
    latency: Latency

    @property
    def owed(self) -> int:
        """Messages accepted and not yet acknowledged."""

    def connect(self, deadline_s: float) -> None:
        """Open all connections; raises ServiceError when the broker does not answer in time."""

    def publish(self, connection: int, message: Message) -> None:
        """Hand over one message for one connection (modulo their number)."""

    def publish_many(self, connections: Sequence[int], messages: Sequence[Message]) -> None:
        """Hand over messages, each for its connection."""

    def take(self) -> list[Incoming]:
        """Messages from the service since the last call, in order of arrival."""

    def drive(self, timeout_s: float) -> None:
        """Do the network's work for at most about ``timeout_s``: read, write, keep alive, reconnect."""

    def drain(self, deadline_s: float) -> int:
        """Wait until all is acknowledged or the time is up; returns what is left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
