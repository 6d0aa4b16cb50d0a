"""Messages between receipt and acknowledgement (README, "Epochs", "Batches without reports of success").

Pure: the producer is handed in.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.uplink.translate import Record

STUCK_S: Final = 30.0

Give = Callable[[list[Record], int], int]
"""Hands the first so many records to the producer, in order; returns how many it took."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Messages that were received together; ``packet_ids`` and ``records`` are in receive order.

    ``records`` are those that Kafka does not have yet; ``size`` is the bytes of all that were to be stored;
    ``sent`` belongs to the batch. A ``held`` ticket is not acknowledged though all its records are stored:
    some of its messages were counted only, and the ticket of the counts ``frees`` it.
    """

    fifo: "AckFifo"
    packet_ids: Sequence[int]
    epoch: int
    size: int
    records: list[Record]
    count: int
    received_s: float
    sent: int = 0
    done: bool = False
    held: bool = False
    frees: "Sequence[Ticket]" = ()


@dataclass(slots=True)
class Outstanding:
    """What was read and is not stored yet, of all FIFOs that share it."""

    messages: int = 0
    size: int = 0


class AckFifo:
    """Tickets of one MQTT connection in receive order."""

    def __init__(self, outstanding: Outstanding | None = None) -> None:
        self.epoch = 0
        self.outstanding = outstanding or Outstanding()
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
        ticket = Ticket(self, packet_ids, self.epoch, size, records, len(records), now_s, done=not records)
        self._queue.append(ticket)
        self.outstanding.messages += ticket.count
        self.outstanding.size += size
        return ticket

    def complete(self, ticket: Ticket) -> None:
        """All its messages are stored, in whichever connection's time; again without effect."""
        if ticket.done:
            return
        ticket.done = True
        self.outstanding.messages -= ticket.count
        self.outstanding.size -= ticket.size
        if ticket.epoch != self.epoch:
            self.stale += len(ticket.packet_ids)

    def take(self) -> list[int]:
        """Packet ids to acknowledge now: the completed head, in receive order. Each is given once."""
        queue = self._queue
        taken: list[int] = []
        while queue and queue[0].done and not queue[0].held:
            taken += queue.popleft().packet_ids
        return taken


def identity_of(record: tuple[Any, ...]) -> int:
    """By topic, key and value, a report's record is found again; two of one identity share the worse fate."""
    return hash(record[:3])


class InFlightBatch:
    """Tickets between receipt and storage, in receive order: those out, and behind them those that wait.

    ``suspects`` are identities of records of which one made Kafka refuse a batch: each is sent alone, and
    nothing overtakes it. ``solo`` says that one is out. ``stored`` counts records since the start.
    """

    def __init__(self) -> None:
        self.out: list[Ticket] = []
        self.waiting: deque[Ticket] = deque()
        self.suspects: set[int] = set()
        self.solo = False
        self.stored = 0
        self._size = 0
        self._left = 0
        self._since_s = 0.0

    def send(self, give: Give, now_s: float) -> None:
        """All that waits goes out, as far as the producer takes it; a suspect goes alone."""
        while self.waiting and not self.solo:
            ticket = self.waiting[0]
            wanted, alone = self._portion(ticket)
            ticket.sent = give(ticket.records, wanted) if wanted else 0
            if ticket.sent == 0:
                break
            self.solo = alone
            self.out.append(self.waiting.popleft())
            if ticket.sent < len(ticket.records):
                break
        self._size = self._left = sum(ticket.sent for ticket in self.out)
        self._since_s = now_s

    def _portion(self, ticket: Ticket) -> tuple[int, bool]:
        """How many of its records may go now, and whether alone: nothing goes together with a suspect."""
        for at, record in enumerate(ticket.records if self.suspects else ()):
            if identity_of(record) in self.suspects:
                alone = at == 0 and not self.out
                return (1 if alone else at), alone
        return len(ticket.records), False

    def finish(self, failed: Collection[int] | None = ()) -> list[Ticket]:
        """The batch is over: the tickets that are stored whole. What is not stored waits again, in front.

        ``failed`` holds the identities that were reported as not stored; None: nothing is known to be stored,
        and so it is when an identity was reported that is not among the batch's.
        """
        if failed:
            sent = {identity_of(record) for ticket in self.out for record in ticket.records[: ticket.sent]}
            failed = failed if sent.issuperset(failed) else None
        if self.solo and failed is not None and not failed:
            self.suspects.discard(identity_of(self.out[0].records[0]))
        done: list[Ticket] = []
        again: list[Ticket] = []
        for ticket in self.out:
            back = ticket.records[: ticket.sent] if failed is None or failed else []
            if failed is not None:
                back = [record for record in back if identity_of(record) in failed]
            self.stored += ticket.sent - len(back)
            ticket.records = back + ticket.records[ticket.sent :]
            ticket.sent = 0
            (again if ticket.records else done).append(ticket)
        self.waiting.extendleft(reversed(again))
        self.out = []
        self.solo = False
        return done

    def drop_stale(self, fifo: AckFifo, since: int = 0) -> list[Ticket]:
        """Take away waiting tickets of a FIFO's earlier connections: the broker sends their messages again.

        Not those before ``since``, when the session began, nor those of no message, or of such as ask for no
        acknowledgement (packet id 0): nobody has these but us.
        """
        dropped = [
            t for t in self.waiting
            if t.fifo is fifo and since <= t.epoch < fifo.epoch and (any(t.packet_ids) or t.frees)
        ]  # fmt: skip
        if dropped:
            gone = set(dropped)
            self.waiting = deque(ticket for ticket in self.waiting if ticket not in gone)
            self.suspects.difference_update(identity_of(r) for t in gone for r in t.records if self.suspects)
        return dropped

    def overdue(self, left: int, now_s: float) -> bool:
        """Whether part of the batch was stored and the rest, ``left`` records, has had no report for STUCK_S.

        One of which nothing was stored is never overdue: Kafka is away, and a new producer would not help.
        """
        if left != self._left:
            self._left, self._since_s = left, now_s
        return 0 < left < self._size and now_s - self._since_s > STUCK_S
