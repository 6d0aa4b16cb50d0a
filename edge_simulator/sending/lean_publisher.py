"""Publishing at load: a pool of connections that write prepared QoS 1 packets in batches, in one thread.

A connection never blocks: the pool waits for the sockets and calls. ``now`` is a monotonic clock in seconds.
"""

import errno
import os
import selectors
import socket
import ssl
from collections import Counter, deque
from collections.abc import Iterable
from functools import cache
from itertools import chain

from edge_simulator.sending import mqtt_packets as packets
from edge_simulator.sending import publishing
from edge_simulator.sending.publishing import Counts, Identity, Latency, Link, Message, Publishing

BATCH = 1000  # messages written at a time: about 1.5 MB, so that little waits behind a slow socket.
RECEIVE_BYTES = 1 << 18
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
SENT_AGAIN = "again"  # kind of messages that were acknowledged once already


class Flight:
    """What was written and has no PUBACK yet, by packet identifier, in the order of sending."""

    def __init__(self, counts: Counts, latency: Latency, keep_s: float = 0.0) -> None:
        self._counts, self._latency, self._keep_s = counts, latency, keep_s
        self._kept: deque[tuple[float, Message]] = deque()
        self._in_flight: dict[int, tuple[Message, float]] = {}
        self._packet_id = 0
        self._topic = cache(lambda topic: packets.text(topic.encode()))

    def __len__(self) -> int:
        return len(self._in_flight)

    def messages(self) -> Iterable[Message]:
        """The messages, oldest first."""
        return (message for message, _ in self._in_flight.values())

    def packed(self, batch: Iterable[Message], now: float) -> bytes:
        """Packets of messages, which are in flight from now on."""
        parts: list[bytes] = []
        for message in batch:
            packet_id = self.next_id()
            self._in_flight[packet_id] = (message, now)
            parts += self._packet(packet_id, message)
        return b"".join(parts)

    def rewound(self, now: float) -> list[Message]:
        """What a lost connection may have cost, to be sent anew, oldest first: the kept and those in flight.

        A broker that died may have lost messages it had acknowledged. Nothing is in flight afterwards.
        """
        self._forget(now)
        kept = [message._replace(kind=SENT_AGAIN) for _, message in self._kept]
        self._counts.sent[SENT_AGAIN] += len(kept)
        owed = list(self.messages())
        self._in_flight.clear()
        return kept + owed

    def _forget(self, now: float) -> None:
        while self._kept and self._kept[0][0] < now - self._keep_s:
            self._kept.popleft()

    def again(self) -> bytes:
        """Packets of all that is in flight, marked as sent before, under the old identifiers."""
        known = [self._packet(key, message, dup=True) for key, (message, _) in self._in_flight.items()]
        return b"".join(chain.from_iterable(known))

    def _packet(self, packet_id: int, message: Message, dup: bool = False) -> tuple[bytes, ...]:
        topic = self._topic(message.topic)
        return packets.publish(topic, packet_id, message.payload, message.retain, dup)

    def next_id(self) -> int:
        """The next packet identifier that is free: acknowledgements may come out of order."""
        while True:
            self._packet_id = self._packet_id % packets.PACKET_IDS + 1
            if self._packet_id not in self._in_flight:
                return self._packet_id

    def settle(self, acks: list[int], now: float) -> None:
        """PUBACKs: the messages are the broker's now. Raises ProtocolError for one that is not in flight."""
        entries = [self._in_flight.pop(packet_id, None) for packet_id in acks]
        known = [entry for entry in entries if entry is not None]
        if self._keep_s:
            self._kept.extend((now, message) for message, _ in known if message.kind == "telemetry")
            self._forget(now)
        self._counts.acked_marks += [message.mark for message, _ in known if message.mark is not None]
        self._counts.acked.update([message.kind for message, _ in known])
        for begun, count in Counter([begun for _, begun in known]).items():
            self._latency.add(now - begun, count)
        if len(known) < len(acks):
            unknown = acks[entries.index(None)]
            raise packets.ProtocolError(f"PUBACK for packet {unknown}, which is not in flight")


class _Connection(Link):
    """A connection that writes packets in batches."""

    def __init__(self, identity: Identity, pool: Publishing) -> None:
        super().__init__(identity, pool)
        self.sock: socket.socket | None = None
        self._keeps, self._context = pool.keep_s > 0, pool.context(identity.brokers[0])
        self._opening = ""  # what it waits for before CONNECT: ``connect``, or TLS to ``read`` or ``write``
        self._flight = Flight(pool.counts, pool.latency, pool.keep_s)
        self._unsent = memoryview(b"")
        self._replies: list[bytes] = []  # what goes out before the next message: PUBACKs
        self._unread = b""
        self._said_at = self._heard_at = 0.0
        self._pinged_at: float | None = None

    def watched(self) -> tuple[int, int] | None:
        if self.sock is None:
            return None
        writes = self._opening in ("connect", "write") or len(self._unsent) > 0
        return self.sock.fileno(), selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)

    def open(self, now: float) -> None:
        broker, rounds = self.broker, self._losses // len(self.identity.brokers)
        self._opening, self._said_at = "connect", now
        try:
            found = socket.getaddrinfo(broker.host, broker.port, type=socket.SOCK_STREAM)
            family, kind, _, _, address = found[rounds % len(found)]  # a name may have several: each in turn
            self.sock = socket.socket(family, kind)
            self.sock.setblocking(False)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self.sock.connect_ex(address)
        except OSError as error:  # a name that nobody knows
            self.lose(str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self.lose(os.strerror(code))

    def _push(self, now: float) -> None:
        if self._replies and self.up and not self._unsent:
            replies, self._replies = b"".join(self._replies), []
            self._write(replies, now)
        while self.up and self._waiting and not self._unsent:
            room = min(BATCH, publishing.MAX_PER_CONNECTION - len(self._flight), len(self._waiting))
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
        try:
            while self._unsent and self.sock is not None:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except NOT_NOW:
            return
        except OSError as error:
            self.lose(str(error))

    def on_writable(self, now: float) -> None:
        if self._opening == "connect" and self.sock is not None:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.lose(os.strerror(code))
                return
        if self._opening:
            self._shake_hands(now)
        else:
            self._flush()
            self._push(now)

    def _shake_hands(self, now: float) -> None:
        """TLS, where it is asked for, as far as it goes now; at its end CONNECT."""
        who = self.identity
        assert self.sock is not None
        self._opening, self._said_at = "write", now  # a thousand at once take longer than one may be silent
        try:
            if self._context is not None and not isinstance(self.sock, ssl.SSLSocket):
                self.sock = self._context.wrap_socket(
                    self.sock, server_hostname=self.broker.host, do_handshake_on_connect=False
                )
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._opening = "read"
        except ssl.SSLWantWriteError:
            return
        except OSError as error:
            self.lose(self.broker.trouble(error))
        else:
            self._opening, self._heard_at = "", now
            will = who.will and (who.will.topic, who.will.payload)
            keepalive_s, login = max(1, round(who.keepalive_s)), (self.broker.user, self.broker.password)
            self._write(packets.connect(who.client_id, keepalive_s, will, not who.filters, login), now)

    def on_readable(self, now: float) -> None:
        if self.sock is None:
            return
        if self._opening:
            self._shake_hands(now)
            return
        try:
            data = self.sock.recv(RECEIVE_BYTES)  # more than a record of TLS: nothing stays behind in it
            if not data:
                raise packets.ProtocolError("the broker closed the connection")
            found, self._unread = packets.received(self._unread + data)
            self._flight.settle(found.acks, now)
        except NOT_NOW:
            return
        except (OSError, packets.ProtocolError) as error:
            self.lose(str(error))
            return
        self._heard_at = now
        if found.pong:
            self._pinged_at = None
        if found.connack is not None:
            self._accepted(found.connack, found.session, now)
        self.listening |= found.subscribed
        self._inbox += found.publishes
        self._replies += [packets.puback(m.packet_id) for m in found.publishes if m.packet_id]
        self._push(now)

    def _accepted(self, code: int, session: bool, now: float) -> None:
        """CONNACK: what had no PUBACK goes again first, in order; then SUBSCRIBE, unless the broker knows."""
        who = self.identity
        if code:
            self.lose(f"the broker refuses {who.client_id}: {packets.REFUSALS.get(code, code)}")
            return
        self.up, self.failures = True, 0
        if self._keeps:
            self._waiting.extendleft(reversed(self._flight.rewound(now)))
        first = self._flight.again()
        self.listening = session or not who.filters
        if not self.listening:
            first += packets.subscribe(self._flight.next_id(), who.filters)
        self._write(first, now)
        self._retain_again(self._flight.messages())

    def tick(self, now: float) -> None:
        if self.sock is None:
            return
        keepalive_s = self.identity.keepalive_s
        asked_at = self._pinged_at or (max(self._heard_at, self._said_at) if self._unsent else now)
        quiet_since = min(self._said_at, self._heard_at)
        if not self.up:
            if now > self._said_at + publishing.CONNECT_S:
                self.lose(f"no answer within {publishing.CONNECT_S:g} s")
        elif now > asked_at + keepalive_s:
            self.lose(f"the broker has been silent for {keepalive_s:g} s")
        elif not (self._pinged_at or self._unsent) and now > quiet_since + keepalive_s / 2:
            self._pinged_at = now
            self._write(packets.PINGREQ, now)

    def lose(self, why: str) -> None:
        """The connection is gone; what is owed stays, and the next broker is tried."""
        self.trouble = why
        self._losses += 1
        self._counts.reconnects += self.up
        self.up, self._opening, self._pinged_at = False, "", None
        self._unsent, self._unread, self._replies = memoryview(b""), b"", []
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def close(self) -> None:
        if self.sock is None:
            return
        self.sock.settimeout(1.0)
        try:
            self.sock.sendall(b"".join([self._unsent, *self._replies, packets.DISCONNECT * self.up]))
        except OSError as error:
            self.trouble = str(error)
        self.sock.close()
        self.sock = None


class LeanPublisher(Publishing):
    """A pool of connections for load."""

    kind = _Connection
