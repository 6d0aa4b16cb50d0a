"""One MQTT connection that writes prepared QoS 1 packets in batches and owes until their PUBACKs are there.

It never blocks: the pool (lean_publisher.py) waits for the socket and calls.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from edge_simulator.sending import mqtt_packets as packets
from edge_simulator.sending.publishing import MAX_PER_CONNECTION, RETRY_S, Counts, Latency, Message

CONNECT_S = 5.0
"""A connection that has not been accepted after this is tried anew."""
BATCH = 1000
"""Messages written at a time: about 1.5 MB, so that little waits behind a slow socket."""
RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Identity:
    """Who connects where. ``will`` is published, retained, when the connection ends without goodbye."""

    host: str
    port: int
    client_id: str
    keepalive_s: float
    will: Message | None = None


class Connection:
    """One connection, made again when it is lost; ``now`` is a monotonic clock in seconds everywhere."""

    def __init__(self, identity: Identity, counts: Counts, latency: Latency) -> None:
        self.identity = identity
        self.sock: socket.socket | None = None
        self.up = False
        self.trouble = "no answer"
        self.retry_at = 0.0
        self._failures = 0
        self._connecting = False
        self._waiting: deque[Message] = deque()
        self._in_flight: dict[int, tuple[Message, float]] = {}
        """By packet identifier, in the order of sending."""
        self._packet_id = 0
        self._unsent = memoryview(b"")
        self._unread = b""
        self._said_at = self._heard_at = 0.0
        self._pinged_at: float | None = None
        self._topics: dict[str, bytes] = {}
        self._counts = counts
        self._latency = latency

    @property
    def wants_write(self) -> bool:
        """Whether there is something to do as soon as the socket takes bytes."""
        return self.sock is not None and (self._connecting or len(self._unsent) > 0)

    def open(self, now: float) -> None:
        """Begin to connect."""
        who = self.identity
        self.retry_at = now + RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        family = socket.AF_INET6 if ":" in who.host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connecting, self._said_at = True, now
        try:
            code = self.sock.connect_ex((who.host, who.port))
        except OSError as error:  # a name that nobody knows
            self.lose(str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self.lose(os.strerror(code))

    def send(self, messages: Iterable[Message], now: float) -> None:
        """Publish, or keep until the connection is back."""
        self._waiting.extend(messages)
        self._push(now)

    def _push(self, now: float) -> None:
        """Write what waits, as far as the connection takes it."""
        while self.up and self._waiting and not self._unsent:
            room = min(BATCH, MAX_PER_CONNECTION - len(self._in_flight), len(self._waiting))
            if room <= 0:
                return
            batch = [self._waiting.popleft() for _ in range(room)]
            self._write(self._packed(batch, now), now)

    def _packed(self, batch: list[Message], now: float) -> bytes:
        """Packets of messages, which are in flight from now on."""
        parts: list[bytes] = []
        for message in batch:
            packet_id = self._next_id()
            self._in_flight[packet_id] = (message, now)
            parts += self._packet(packet_id, message)
        return b"".join(parts)

    def _packet(self, packet_id: int, message: Message, dup: bool = False) -> tuple[bytes, ...]:
        name, payload, retain = message.topic, message.payload, message.retain
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = packets.text(name.encode())
        return packets.publish(topic, packet_id, payload, retain, dup)

    def _next_id(self) -> int:
        """The next packet identifier that is free: acknowledgements may come out of order."""
        while True:
            self._packet_id = self._packet_id % packets.PACKET_IDS + 1
            if self._packet_id not in self._in_flight:
                return self._packet_id

    def _write(self, data: bytes, now: float) -> None:
        """Send bytes; what the socket does not take now is sent by :meth:`on_writable`."""
        self._said_at = now
        self._unsent = memoryview(data)
        self._flush()

    def _flush(self) -> None:
        if self.sock is None:
            return
        try:
            while self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(str(error))

    def on_writable(self, now: float) -> None:
        """The socket takes bytes, or its connect has ended."""
        if self.sock is not None and self._connecting:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.lose(os.strerror(code))
                return
            self._connecting = False
            self._greet(now)
        else:
            self._flush()
            self._push(now)

    def _greet(self, now: float) -> None:
        who = self.identity
        will = who.will and (who.will.topic, who.will.payload)
        self._heard_at = now
        self._write(packets.connect(who.client_id, max(1, round(who.keepalive_s)), will), now)

    def on_readable(self, now: float) -> None:
        """Bytes have come."""
        assert self.sock is not None
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(str(error))
            return
        self._heard_at = now
        try:
            if not data:
                raise packets.ProtocolError("the broker closed the connection")
            found, self._unread = packets.received(self._unread + data)
            self._settle(found.acks, now)
        except packets.ProtocolError as error:
            self.lose(str(error))
            return
        if found.pong:
            self._pinged_at = None
        if found.connack is not None:
            self._accepted(found.connack, now)
        self._push(now)

    def _accepted(self, code: int, now: float) -> None:
        """CONNACK: what had no PUBACK goes again first, in order."""
        if code:
            self.lose(f"the broker refuses {self.identity.client_id}: {packets.REFUSALS.get(code, code)}")
            return
        self.up, self._failures = True, 0
        again = [self._packet(key, message, dup=True) for key, (message, _) in self._in_flight.items()]
        self._write(b"".join(chain.from_iterable(again)), now)

    def _settle(self, acks: list[int], now: float) -> None:
        """PUBACKs: the messages are the broker's now."""
        kinds: dict[str, int] = {}
        times: dict[float, int] = {}
        unknown = 0
        for packet_id in acks:
            entry = self._in_flight.pop(packet_id, None)
            if entry is None:
                unknown = packet_id
                continue
            (_, _, kind, _, mark), begun = entry
            if mark is not None:
                self._counts.acked_marks.append(mark)
            kinds[kind] = kinds.get(kind, 0) + 1
            times[begun] = times.get(begun, 0) + 1
        self._counts.acked.update(kinds)
        for begun, count in times.items():
            self._latency.add(now - begun, count)
        if unknown:
            raise packets.ProtocolError(f"PUBACK for packet {unknown}, which is not in flight")

    def tick(self, now: float) -> None:
        """About once a second: give up a connect that hangs, keep alive, notice a silent broker."""
        if self.sock is None:
            return
        patience = self.identity.keepalive_s
        asked_at = self._pinged_at or (max(self._heard_at, self._said_at) if self._unsent else now)
        if not self.up:
            if now > self._said_at + CONNECT_S:
                self.lose(f"no answer within {CONNECT_S:g} s")
        elif now > asked_at + patience:
            self.lose(f"the broker has been silent for {patience:g} s")
        elif (
            not (self._pinged_at or self._unsent) and now > min(self._said_at, self._heard_at) + patience / 2
        ):
            self._pinged_at = now
            self._write(packets.PINGREQ, now)

    def lose(self, why: str) -> None:
        """The connection is gone; what is owed stays."""
        self.trouble = why
        self._counts.reconnects += self.up
        self.up, self._connecting, self._pinged_at = False, False, None
        self._unsent, self._unread = memoryview(b""), b""
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def close(self) -> None:
        """Say goodbye, so that no last will is published."""
        if self.sock is None:
            return
        self.sock.settimeout(1.0)
        try:
            self.sock.sendall(bytes(self._unsent) + packets.DISCONNECT * self.up)
        except OSError as error:
            self.trouble = str(error)
        self.sock.close()
        self.sock = None
