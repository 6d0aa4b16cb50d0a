"""One MQTT connection that writes prepared QoS 1 packets in batches and owes until their PUBACKs are there.

It never blocks: the pool (lean_publisher.py) waits for the socket and calls.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from itertools import chain

from edge_simulator.sending import mqtt_packets as packets
from edge_simulator.sending.lean_flight import Flight
from edge_simulator.sending.publishing import MAX_PER_CONNECTION, RETRY_S, Counts, Incoming, Latency, Message
from edge_simulator.sending.sessions import CONNECT_S, Identity

BATCH = 1000
"""Messages written at a time: about 1.5 MB, so that little waits behind a slow socket."""
RECEIVE_BYTES = 1 << 18
AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Nothing can be done now."""


class Connection:
    """One connection, made again when it is lost; ``now`` is a monotonic clock in seconds everywhere."""

    def __init__(
        self, identity: Identity, counts: Counts, latency: Latency, inbox: list[Incoming] | None = None
    ) -> None:
        self.identity = identity
        self.sock: socket.socket | None = None
        self.up = False
        self.listening = not identity.filters
        """Whether the broker knows what we listen to."""
        self.trouble = "no answer"
        self.retry_at = 0.0
        self._failures = 0
        self._connecting = False
        self._shaking = ""
        """While TLS shakes hands: what it waits for, ``read`` or ``write``."""
        self._waiting: deque[Message] = deque()
        self._flight = Flight(counts, latency, identity.keep_s)
        self._unsent = memoryview(b"")
        self._replies: list[bytes] = []
        """What goes out before the next message: PUBACKs."""
        self._unread = b""
        self._inbox = [] if inbox is None else inbox
        self._word: Message | None = None
        """What stands retained under the will's topic as far as we know."""
        self._said_at = self._heard_at = 0.0
        self._pinged_at: float | None = None
        self._counts = counts

    @property
    def wants_write(self) -> bool:
        """Whether there is something to do as soon as the socket takes bytes."""
        waits = self._connecting or self._shaking == "write" or len(self._unsent) > 0
        return self.sock is not None and waits

    def open(self, now: float) -> None:
        """Begin to connect."""
        who = self.identity
        self.retry_at = now + RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        family = socket.AF_INET6 if ":" in who.broker.host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connecting, self._said_at = True, now
        try:
            code = self.sock.connect_ex((who.broker.host, who.broker.port))
        except OSError as error:  # a name that nobody knows
            self.lose(str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self.lose(os.strerror(code))

    def send(self, messages: Iterable[Message], now: float) -> None:
        """Publish, or keep until the connection is back."""
        if self.identity.will is not None:
            messages = list(messages)
            self._word = next((m for m in reversed(messages) if m.retain), self._word)
        self._waiting.extend(messages)
        self._push(now)

    def _push(self, now: float) -> None:
        """Write what waits, as far as the connection takes it."""
        if self._replies and self.up and not self._unsent:
            replies, self._replies = b"".join(self._replies), []
            self._write(replies, now)
        while self.up and self._waiting and not self._unsent:
            room = min(BATCH, MAX_PER_CONNECTION - len(self._flight), len(self._waiting))
            if room <= 0:
                return
            batch = [self._waiting.popleft() for _ in range(room)]
            self._write(self._flight.packed(batch, now), now)

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
        except AGAIN:
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
            self._shake_hands(now)
        elif self._shaking:
            self._shake_hands(now)
        else:
            self._flush()
            self._push(now)

    def _shake_hands(self, now: float) -> None:
        """TLS, where it is asked for, as far as it goes now; at its end CONNECT."""
        who = self.identity
        assert self.sock is not None
        try:
            if who.context is not None and not isinstance(self.sock, ssl.SSLSocket):
                self.sock = who.context.wrap_socket(
                    self.sock, server_hostname=who.broker.host, do_handshake_on_connect=False
                )
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._shaking = "read"
        except ssl.SSLWantWriteError:
            self._shaking = "write"
        except OSError as error:
            self.lose(who.broker.trouble(error))
        else:
            self._shaking = ""
            self._greet(now)

    def _greet(self, now: float) -> None:
        who = self.identity
        will = who.will and (who.will.topic, who.will.payload)
        self._heard_at = now
        clean = not who.filters
        login = (who.broker.user, who.broker.password)
        self._write(packets.connect(who.client_id, max(1, round(who.keepalive_s)), will, clean, login), now)

    def on_readable(self, now: float) -> None:
        """Bytes have come."""
        assert self.sock is not None
        if self._shaking:
            self._shake_hands(now)
            return
        try:
            data = self.sock.recv(RECEIVE_BYTES)  # more than a record of TLS: nothing stays behind in it
        except AGAIN:
            return
        except OSError as error:
            self.lose(str(error))
            return
        self._heard_at = now
        try:
            if not data:
                raise packets.ProtocolError("the broker closed the connection")
            found, self._unread = packets.received(self._unread + data)
            self._flight.settle(found.acks, now)
        except packets.ProtocolError as error:
            self.lose(str(error))
            return
        if found.pong:
            self._pinged_at = None
        if found.connack is not None:
            self._accepted(found.connack, found.session, now)
        self.listening |= found.subscribed
        if found.publishes:
            self._hear(found.publishes)
        self._push(now)

    def _hear(self, publishes: list[packets.Publish]) -> None:
        """Messages from the service."""
        self._inbox += [Incoming(p.topic, p.payload) for p in publishes]
        self._replies += [packets.puback(p.packet_id) for p in publishes if p.packet_id]

    def _accepted(self, code: int, session: bool, now: float) -> None:
        """CONNACK: what had no PUBACK goes again first, in order; then SUBSCRIBE, unless the broker knows."""
        who = self.identity
        if code:
            self.lose(f"the broker refuses {who.client_id}: {packets.REFUSALS.get(code, code)}")
            return
        self.up, self._failures = True, 0
        if who.keep_s:
            self._waiting.extendleft(reversed(self._flight.rewound(now)))
        first = self._flight.again()
        self.listening = session or not who.filters
        if not self.listening:
            first += packets.subscribe(self._flight.next_id(), who.filters)
        self._write(first, now)
        word = self._word
        if word is not None and word not in chain(self._flight.messages(), self._waiting):
            self._counts.sent[word.kind] += 1
            self._waiting.appendleft(word)

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
        self.up, self._connecting, self._shaking, self._pinged_at = False, False, "", None
        self._unsent, self._unread, self._replies = memoryview(b""), b"", []
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def close(self) -> None:
        """Say goodbye, so that no last will is published."""
        if self.sock is None:
            return
        self.sock.settimeout(1.0)
        last = b"".join([self._unsent, *self._replies, packets.DISCONNECT * self.up])
        try:
            self.sock.sendall(last)
        except OSError as error:
            self.trouble = str(error)
        self.sock.close()
        self.sock = None
