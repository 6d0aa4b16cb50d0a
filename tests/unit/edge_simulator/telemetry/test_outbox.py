"""The queue of outgoing messages: always in the order of their sending, whichever way they came in."""

from __future__ import annotations

from edge_simulator.telemetry.outbox import Outgoing, take_due


def message(due_ms: int, order: int) -> Outgoing:
    return Outgoing(due_ms, order, 0, "telemetry", b"%d" % order)


def orders(items: list[Outgoing]) -> list[int]:
    return [item.order for item in items]


def test_messages_come_out_by_time_then_by_making() -> None:
    queue = [message(30, 1), message(10, 2), message(10, 3), message(20, 4), message(30, 5)]
    assert orders(take_due(queue, 31)) == [2, 3, 4, 1, 5]
    assert queue == []


def test_only_what_is_due_is_taken() -> None:
    queue = [message(50, 1), message(20, 2), message(10, 3), message(30, 4)]
    assert orders(take_due(queue, 30)) == [3, 2]
    assert orders(take_due(queue, 31)) == [4]
    assert orders(take_due(queue)) == [1]


def test_several_slots_are_one_order() -> None:
    queue = [message(10, 1), message(40, 2), message(20, 3), message(30, 4)]
    assert orders(take_due(queue, 35)) == [1, 3, 4]
    assert orders(take_due(queue)) == [2]
