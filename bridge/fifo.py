"""Which messages may be acknowledged: receive order, completed head, this connection only. Pure.

A packet id means something only on the connection that carried it: after a reconnect the broker gives the
same id to another message. So every ticket knows its epoch (the number of its connection), and one of an
older epoch is never acknowledged; the broker sends that message again.
"""

from __future__ import annotations

from collections import deque

from bridge.translate import Record

NOTHING = Record("", None, b"", [], 0)


class Ticket:
    """One message between receipt and acknowledgement. ``number`` counts receipts over all epochs."""

    __slots__ = ("done", "epoch", "number", "packet_id", "received_s", "record", "size", "suspect")

    def __init__(
        self, packet_id: int, epoch: int, number: int, size: int, record: Record, received_s: float
    ) -> None:
        self.packet_id = packet_id
        self.epoch = epoch
        self.number = number
        self.size = size
        self.record = record
        self.received_s = received_s
        self.done = False
        self.suspect = False


class AckFifo:
    """Tickets of one MQTT connection in receive order.

    ``outstanding`` and ``outstanding_bytes`` count what is not stored yet, those of older epochs too: they
    still lie in the producer's queue. ``in_flight`` counts what waits for its acknowledgement in this epoch.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.outstanding = 0
        self.outstanding_bytes = 0
        self.stale = 0
        self._queue: deque[Ticket] = deque()
        self._number = 0
        self._overtakes = 0
        self._head_since_s = 0.0

    @property
    def in_flight(self) -> int:
        """Messages of this epoch not acknowledged yet."""
        return len(self._queue)

    def open(self, epoch: int) -> None:
        """A new connection, number ``epoch``: nothing received before can be acknowledged any more."""
        self.epoch = epoch
        self._queue.clear()
        self._overtakes = 0

    def add(self, packet_id: int, size: int, record: Record, now_s: float) -> Ticket:
        """The ticket of the message just received."""
        self._number += 1
        ticket = Ticket(packet_id, self.epoch, self._number, size, record, now_s)
        if not self._queue:
            self._head_since_s = now_s
        self._queue.append(ticket)
        self.outstanding += 1
        self.outstanding_bytes += size
        return ticket

    def skip(self, packet_id: int, now_s: float) -> None:
        """A message that needs no storing: it is acknowledged in its turn."""
        self.complete(self.add(packet_id, 0, NOTHING, now_s))

    def complete(self, ticket: Ticket) -> bool:
        """The message is stored; False when its acknowledgement would be stale (or was given already)."""
        if ticket.done:
            return False
        ticket.done = True
        self.outstanding -= 1
        self.outstanding_bytes -= ticket.size
        if ticket.epoch != self.epoch:
            self.stale += 1
            return False
        self._overtakes += 1
        return True

    def take(self, now_s: float) -> list[int]:
        """Packet ids to acknowledge now: the completed head, in receive order. Each is given once."""
        queue = self._queue
        if not queue or not queue[0].done:
            return []
        taken: list[int] = []
        while queue and queue[0].done:
            taken.append(queue.popleft().packet_id)
        self._head_since_s = now_s
        self._overtakes = 0
        return taken

    def stuck_s(self, now_s: float) -> float:
        """How long later messages have been overtaking an unfinished head, s; 0 while nothing overtakes it.

        A head that waits because nothing moves (Kafka is away) is not stuck: a reconnect would not help it.
        """
        if not self._queue or self._overtakes == 0:
            return 0.0
        return now_s - self._head_since_s
