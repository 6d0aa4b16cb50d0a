from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from bridge.uplink.in_flight import AckFifo, Ticket
from bridge.uplink.translate import Record

RECORD = Record("t", b"k", b"v", [], 0)


def fifo_of(count: int) -> tuple[AckFifo, list[Ticket]]:
    fifo = AckFifo()
    fifo.open(1)
    return fifo, [fifo.add([packet_id], 100, [RECORD], 0.0) for packet_id in range(1, count + 1)]


def test_nothing_is_acknowledged_while_the_head_is_open() -> None:
    fifo, tickets = fifo_of(3)
    fifo.complete(tickets[1])
    fifo.complete(tickets[2])
    assert fifo.take() == []


def test_a_completed_head_releases_all_that_completed_behind_it() -> None:
    fifo, tickets = fifo_of(4)
    for at in (1, 2, 0):
        fifo.complete(tickets[at])
    assert fifo.take() == [1, 2, 3]
    assert fifo.in_flight == 1


def test_messages_received_together_are_acknowledged_together_in_receive_order() -> None:
    fifo, _ = fifo_of(0)
    ticket = fifo.add([7, 3, 5], 200, [RECORD, RECORD], 0.0)
    assert (fifo.in_flight, fifo.outstanding.messages) == (3, 2)
    fifo.complete(ticket)
    assert fifo.take() == [7, 3, 5]


def test_each_message_is_acknowledged_once() -> None:
    fifo, tickets = fifo_of(1)
    fifo.complete(tickets[0])
    fifo.complete(tickets[0])
    assert fifo.take() == [1]
    assert fifo.take() == []
    assert fifo.outstanding.messages == 0


def test_a_message_of_an_older_connection_is_never_acknowledged() -> None:
    fifo, tickets = fifo_of(1)
    fifo.open(2)
    fifo.add([1], 100, [RECORD], 0.0)
    fifo.complete(tickets[0])
    assert fifo.take() == []
    assert fifo.stale == 1


def test_messages_of_older_connections_count_as_outstanding_until_they_are_stored() -> None:
    fifo, tickets = fifo_of(2)
    fifo.open(2)
    assert (fifo.outstanding.messages, fifo.outstanding.size, fifo.in_flight) == (2, 200, 0)
    fifo.complete(tickets[0])
    assert (fifo.outstanding.messages, fifo.outstanding.size) == (1, 100)


def test_a_skipped_message_is_acknowledged_in_its_turn() -> None:
    fifo, tickets = fifo_of(1)
    fifo.add([2], 0, [], 0.0)
    assert fifo.take() == []
    fifo.complete(tickets[0])
    assert fifo.take() == [1, 2]
    assert fifo.outstanding.messages == 0


class AcksArePrefixesOfReceipts(RuleBasedStateMachine):
    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.fifo = AckFifo()
        self.fifo.open(1)
        self.received: list[int] = []
        self.acked: list[int] = []
        self.done: set[int] = set()

    @rule(target=tickets, counts=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def receive(self, counts: list[int]) -> object:
        added = []
        for count in counts:
            ids = [len(self.received) + n + 1 for n in range(count)]
            self.received += ids
            added.append(self.fifo.add(ids, 10 * count, [RECORD] * count, 0.0))
        return multiple(*added)

    @rule(ticket=tickets)
    def store(self, ticket: Ticket) -> None:
        if not ticket.done and ticket.epoch == self.fifo.epoch:
            self.done.update(ticket.packet_ids)
        self.fifo.complete(ticket)

    @rule()
    def skip(self) -> None:
        self.received.append(len(self.received) + 1)
        self.done.add(self.received[-1])
        self.fifo.add(self.received[-1:], 0, [], 0.0)

    @rule()
    def acknowledge(self) -> None:
        self.acked += self.fifo.take()

    @rule()
    def reconnect(self) -> None:
        self.fifo.open(self.fifo.epoch + 1)
        self.received, self.acked, self.done = [], [], set()

    @invariant()
    def acks_are_a_prefix_of_what_this_connection_received_and_stored(self) -> None:
        assert self.acked == self.received[: len(self.acked)]
        assert set(self.acked) <= self.done

    @invariant()
    def nothing_is_counted_below_zero(self) -> None:
        assert self.fifo.outstanding.messages >= 0
        assert self.fifo.outstanding.size == 10 * self.fifo.outstanding.messages


TestAcksArePrefixesOfReceipts = AcksArePrefixesOfReceipts.TestCase
TestAcksArePrefixesOfReceipts.settings = settings(max_examples=60, stateful_step_count=40)
