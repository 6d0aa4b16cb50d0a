from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.uplink.in_flight import AckFifo, InFlightBatch, Ticket, identity_of
from bridge.uplink.translate import Record


def record(name: str) -> Record:
    return Record("t", b"k", name.encode(), [], 0)


class Log:
    """A producer that takes ``room`` records at most and remembers them."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.given: list[str] = []

    def give(self, records: list[Record], count: int) -> int:
        taken = [r.value.decode() for r in records[: min(count, self.room)]]
        self.room -= len(taken)
        self.given += taken
        return len(taken)


def waiting(batch: InFlightBatch, *tickets: str) -> list[Ticket]:
    """A ticket a word, a record a letter."""
    fifo = AckFifo()
    made = [fifo.add(range(len(word)), len(word), [record(c) for c in word], 0.0) for word in tickets]
    batch.waiting.extend(made)
    return made


def names(letters: str) -> set[int]:
    return {identity_of(record(c)) for c in letters}


def left(batch: InFlightBatch) -> list[str]:
    return ["".join(r.value.decode() for r in ticket.records) for ticket in batch.waiting]


def test_all_that_waits_departs_together_in_receive_order() -> None:
    batch, log = InFlightBatch(), Log()
    tickets = waiting(batch, "ab", "c")
    batch.send(log.give, 0.0)
    assert log.given == ["a", "b", "c"]
    assert batch.finish() == tickets
    assert (batch.stored, batch.out, left(batch)) == (3, [], [])


def test_what_the_producer_does_not_take_waits_and_its_ticket_is_not_stored() -> None:
    batch, log = InFlightBatch(), Log(room=3)
    first, _, _ = waiting(batch, "ab", "cd", "e")
    batch.send(log.give, 0.0)
    assert batch.finish() == [first]
    assert left(batch) == ["d", "e"]


def test_records_that_were_reported_wait_again_in_front_in_receive_order() -> None:
    batch, log = InFlightBatch(), Log()
    _, second, _ = waiting(batch, "ab", "c", "de")
    batch.send(log.give, 0.0)
    waiting(batch, "f")
    assert batch.finish(names("bde")) == [second]
    assert (left(batch), batch.stored) == (["b", "de", "f"], 2)


def test_nothing_is_stored_of_a_flight_whose_reports_cannot_be_trusted() -> None:
    for failed in (None, names("x"), names("ax")):
        batch, log = InFlightBatch(), Log()
        waiting(batch, "ab", "c")
        batch.send(log.give, 0.0)
        assert batch.finish(failed) == []
        assert (left(batch), batch.stored) == (["ab", "c"], 0)


def test_records_of_one_identity_share_the_worse_fate() -> None:
    batch, log = InFlightBatch(), Log()
    waiting(batch, "aa", "b")
    batch.send(log.give, 0.0)
    batch.finish(names("a"))
    assert left(batch) == ["aa"]


def test_a_suspect_flies_alone_and_nothing_overtakes_it() -> None:
    batch, log, trips = InFlightBatch(), Log(), []
    waiting(batch, "abc", "d")
    batch.suspects = names("bd")
    while batch.waiting:
        batch.send(log.give, 0.0)
        trips.append("".join(log.given))
        log.given = []
        batch.finish()
    assert trips == ["a", "b", "c", "d"]
    assert batch.suspects == set()


def test_a_suspect_that_is_refused_again_stays_in_front() -> None:
    batch, log = InFlightBatch(), Log()
    waiting(batch, "ab")
    batch.suspects = names("a")
    batch.send(log.give, 0.0)
    assert batch.solo
    assert batch.finish(names("a")) == []
    assert (left(batch), batch.suspects, batch.solo) == (["ab"], names("a"), False)


def test_a_suspect_that_the_producer_does_not_take_is_tried_again() -> None:
    batch, log = InFlightBatch(), Log(room=0)
    waiting(batch, "a")
    batch.suspects = names("a")
    batch.send(log.give, 0.0)
    assert (batch.out, batch.solo) == ([], False)
    log.room = 1
    batch.send(log.give, 0.0)
    assert log.given == ["a"]


def test_what_an_older_connection_received_and_did_not_send_is_left_to_the_broker() -> None:
    batch, fifo = InFlightBatch(), AckFifo()
    fifo.open(1)
    old = fifo.add([1], 1, [record("a")], 0.0)
    fifo.open(2)
    new = fifo.add([1], 1, [record("b")], 0.0)
    batch.waiting.extend([old, new])
    batch.suspects = names("a")
    assert batch.drop_stale(fifo) == [old]
    assert (list(batch.waiting), batch.suspects) == ([new], set())


def test_what_the_broker_does_not_send_again_is_kept_over_a_reconnect() -> None:
    batch, fifo = InFlightBatch(), AckFifo()
    fifo.open(1)
    # the rest of a message too large, of which the connection ended, and what was sent at QoS 0
    unasked = fifo.add([0], 1, [record("a")], 0.0)
    batch.waiting.append(unasked)
    fifo.open(2)
    assert batch.drop_stale(fifo) == []
    batch.send(Log().give, 0.0)
    assert batch.finish() == [unasked]


def test_a_remainder_without_a_report_for_30_s_is_overdue() -> None:
    batch, log = InFlightBatch(), Log()
    waiting(batch, "abc")
    batch.send(log.give, 0.0)
    assert not batch.overdue(1, 20.0)
    assert not batch.overdue(1, 50.0)
    assert batch.overdue(1, 50.1)


def test_a_batch_of_which_nothing_was_stored_is_not_overdue_however_old() -> None:
    batch, log = InFlightBatch(), Log()
    waiting(batch, "abc")
    batch.send(log.give, 0.0)
    assert not batch.overdue(3, 3600.0)


FATES = st.lists(st.sampled_from(["stored", "some lost", "all lost"]), min_size=1, max_size=30)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), FATES, st.integers(1, 5), st.data())
@settings(max_examples=150)
def test_whatever_fails_all_is_stored_in_the_end_and_first_copies_in_order(
    sizes: list[int], fates: list[str], room: int, data: st.DataObject
) -> None:
    """A gapless log: of what is given, a prefix is stored, and the rest is reported."""
    batch, stored, number = InFlightBatch(), [], 0
    tickets = deque()
    for size in sizes:
        tickets.append("".join(chr(97 + number + n) for n in range(size)))
        number += size
    made = waiting(batch, *tickets)
    done: list[Ticket] = []
    turn = 0
    while batch.waiting:
        fate = fates[turn] if turn < len(fates) else "stored"
        log = Log(room)
        batch.send(log.give, 0.0)
        kept = {"stored": len(log.given), "all lost": 0}.get(fate)
        kept = data.draw(st.integers(0, len(log.given))) if kept is None else kept
        stored += log.given[:kept]
        lost = log.given[kept:]
        if lost and data.draw(st.booleans()):
            batch.suspects |= names(lost[0])
        done += batch.finish(names("".join(lost)))
        turn += 1
    assert stored == sorted(stored)
    assert done == made
    assert len(stored) == number == batch.stored
