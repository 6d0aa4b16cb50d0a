"""Which messages may be acknowledged: receive order, completed head, this connection only. Pure.

A packet id means something only on the connection that carried it: after a reconnect the broker gives the
same id to another message. So every ticket knows its epoch (the number of its connection), and one of an
older epoch is never acknowledged; the broker sends its messages again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from bridge.translate import Record


class Ticket:
    """Messages that were received together, between receipt and acknowledgement.

    ``packet_ids`` of all of them, in receive order. ``records`` are those that Kafka does not have yet, in
    receive order too; ``size`` is the bytes of all that were to be stored. ``sent`` belongs to the flight.
    A ``held`` one is not acknowledged though all its records are stored: some of its messages were counted
    only, and the ticket of the counts ``frees`` it.
    """

    __slots__ = (
        "count", "done", "epoch", "frees", "held", "packet_ids", "received_s", "records", "sent", "size"
    )  # fmt: skip

    def __init__(
        self, packet_ids: Sequence[int], epoch: int, size: int, records: list[Record], received_s: float
    ) -> None:
        self.packet_ids = packet_ids
        self.epoch = epoch
        self.size = size
        self.records = records
        self.count = len(records)
        self.received_s = received_s
        self.sent = 0
        self.done = self.held = False
        self.frees: Sequence[Ticket] = ()


class AckFifo:
    """Tickets of one MQTT connection in receive order.

    ``outstanding`` and ``outstanding_bytes`` count the messages of tickets that are not stored yet, those of
    older epochs too: they may still lie in the producer's queue. ``in_flight`` counts the messages that wait
    for their acknowledgement in this epoch.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.outstanding = 0
        self.outstanding_bytes = 0
        self.stale = 0
        self._queue: deque[Ticket] = deque()

    @property
    def in_flight(self) -> int:
        """Messages of this epoch not acknowledged yet."""
        return sum(len(ticket.packet_ids) for ticket in self._queue)

    def open(self, epoch: int) -> None:
        """A new connection, number ``epoch``: nothing received before can be acknowledged any more."""
        self.epoch = epoch
        self._queue.clear()

    def add(self, packet_ids: Sequence[int], size: int, records: list[Record], now_s: float) -> Ticket:
        """The ticket of the messages just received; without records it needs no storing and is done."""
        ticket = Ticket(packet_ids, self.epoch, size, records, now_s)
        self._queue.append(ticket)
        self.outstanding += ticket.count
        self.outstanding_bytes += size
        ticket.done = not records
        return ticket

    def complete(self, ticket: Ticket) -> bool:
        """All its messages are stored; False when an acknowledgement would be stale, or was given already."""
        if ticket.done:
            return False
        ticket.done = True
        self.outstanding -= ticket.count
        self.outstanding_bytes -= ticket.size
        if ticket.epoch != self.epoch:
            self.stale += len(ticket.packet_ids)
            return False
        return True

    def take(self) -> list[int]:
        """Packet ids to acknowledge now: the completed head, in receive order. Each is given once."""
        queue = self._queue
        taken: list[int] = []
        while queue and queue[0].done and not queue[0].held:
            taken += queue.popleft().packet_ids
        return taken
