"""Messages on their way over one lean connection: packed, numbered, kept until their PUBACKs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain

from edge_simulator.sending import mqtt_packets as packets
from edge_simulator.sending.publishing import Counts, Latency, Message

AGAIN = "again"
"""Kind of messages that were acknowledged once already."""


class Flight:
    """What was written and has no PUBACK yet, by packet identifier, in the order of sending."""

    def __init__(self, counts: Counts, latency: Latency, keep_s: float = 0.0) -> None:
        self._keep_s = keep_s
        self._kept: deque[tuple[float, Message]] = deque()
        self._in_flight: dict[int, tuple[Message, float]] = {}
        self._packet_id = 0
        self._topics: dict[str, bytes] = {}
        self._counts = counts
        self._latency = latency

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
        kept = [message._replace(kind=AGAIN) for _, message in self._kept]
        self._counts.sent[AGAIN] += len(kept)
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
        name, payload, retain = message.topic, message.payload, message.retain
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = packets.text(name.encode())
        return packets.publish(topic, packet_id, payload, retain, dup)

    def next_id(self) -> int:
        """The next packet identifier that is free: acknowledgements may come out of order."""
        while True:
            self._packet_id = self._packet_id % packets.PACKET_IDS + 1
            if self._packet_id not in self._in_flight:
                return self._packet_id

    def settle(self, acks: list[int], now: float) -> None:
        """PUBACKs: the messages are the broker's now. Raises ProtocolError for one that is not in flight."""
        kinds: dict[str, int] = {}
        times: dict[float, int] = {}
        unknown = 0
        for packet_id in acks:
            entry = self._in_flight.pop(packet_id, None)
            if entry is None:
                unknown = packet_id
                continue
            message, begun = entry
            _, _, kind, _, mark = message
            if self._keep_s and kind == "telemetry":
                self._kept.append((now, message))
            if mark is not None:
                self._counts.acked_marks.append(mark)
            kinds[kind] = kinds.get(kind, 0) + 1
            times[begun] = times.get(begun, 0) + 1
        self._counts.acked.update(kinds)
        for begun, count in times.items():
            self._latency.add(now - begun, count)
        self._forget(now)
        if unknown:
            raise packets.ProtocolError(f"PUBACK for packet {unknown}, which is not in flight")
