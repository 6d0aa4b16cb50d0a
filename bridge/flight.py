"""What goes to Kafka together: a flight. Pure: the producer is handed in.

One flight is out at a time, and it has landed when the producer's queue is empty: then every record of it was
either stored or named in an error report. So a stored record needs no report of its own, and no other
argument proves that it is stored. While a flight is out the next one gathers; the slower Kafka is, the larger
it gets, and a flight of one record leaves at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from bridge.fifo import Ticket
from bridge.translate import Record

STUCK_S: Final = 30.0

Give = Callable[[list[Record], int], int]
"""Hands the first so many records to the producer, in order; returns how many it took."""


def identity(topic: str, key: bytes | None, value: bytes) -> int:
    """By which a report's record is found again. Two records of one identity share the worse of two fates."""
    return hash((topic, key, value))


def identity_of(record: Record) -> int:
    """The identity of a record of ours."""
    return identity(record.topic, record.key, record.value)


class Flights:
    """Tickets between receipt and storage, in receive order: those out, and behind them those that wait.

    ``suspects`` are identities of records of which one made Kafka refuse a batch: each flies alone, and
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

    def depart(self, give: Give, now_s: float) -> None:
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
        """How many of its records may go now, and whether alone: nothing flies together with a suspect."""
        for at, record in enumerate(ticket.records if self.suspects else ()):
            if identity_of(record) in self.suspects:
                alone = at == 0 and not self.out
                return (1 if alone else at), alone
        return len(ticket.records), False

    def land(self, failed: Collection[int] | None = ()) -> list[Ticket]:
        """The flight is over: the tickets that are stored whole. What is not stored waits again, in front.

        ``failed`` holds the identities that were reported as not stored; None: nothing is known to be stored,
        and so it is when an identity was reported that is not among the flight's.
        """
        if failed and not self._names().issuperset(failed):
            failed = None
        if self.solo and failed is not None and not failed:
            self.suspects.discard(identity_of(self.out[0].records[0]))
        done: list[Ticket] = []
        again: list[Ticket] = []
        for ticket in self.out:
            back = _not_stored(ticket, failed)
            self.stored += ticket.sent - len(back)
            ticket.records = back + ticket.records[ticket.sent :]
            ticket.sent = 0
            (again if ticket.records else done).append(ticket)
        self.waiting.extendleft(reversed(again))
        self.out = []
        self.solo = False
        return done

    def _names(self) -> set[int]:
        return {identity_of(record) for ticket in self.out for record in ticket.records[: ticket.sent]}

    def drop_before(self, epoch: int, since: int = 0) -> list[Ticket]:
        """Waiting tickets of connections before ``epoch``, taken away: the broker sends their messages again.

        Not those before ``since``, when the session began, nor those of no message: nobody has these but us.
        """

        def again(ticket: Ticket) -> bool:
            return since <= ticket.epoch < epoch and bool(ticket.packet_ids or ticket.frees)

        dropped = [ticket for ticket in self.waiting if again(ticket)]
        if dropped:
            self.waiting = deque(ticket for ticket in self.waiting if not again(ticket))
        self.suspects.difference_update(identity_of(r) for t in dropped for r in t.records if self.suspects)
        return dropped

    def overdue(self, left: int, now_s: float) -> bool:
        """Whether part of the flight was stored and the rest has had no report for STUCK_S.

        ``left``: records still in the producer's queue. A flight of which nothing was stored is not overdue
        however old: Kafka is away, and a new producer would not help.
        """
        if left != self._left:
            self._left, self._since_s = left, now_s
        return 0 < left < self._size and now_s - self._since_s > STUCK_S


def _not_stored(ticket: Ticket, failed: Collection[int] | None) -> list[Record]:
    sent = ticket.records[: ticket.sent]
    if failed is None:
        return sent
    return [record for record in sent if identity_of(record) in failed] if failed else []
