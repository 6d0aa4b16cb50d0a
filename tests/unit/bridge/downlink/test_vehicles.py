"""Which offsets are committed, and what several brokers answer together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridge.downlink import vehicles
from bridge.downlink.vehicles import Sent, Vehicles
from infra.contract.errors import ServiceError

BUSY = 0x97


def flown(*flight: tuple[int, int, Sent | None]) -> Any:
    """A delivery with these records in flight: partition, offset, what was sent if they were not skipped."""
    found: Any = Vehicles.__new__(Vehicles)
    found._flight = vehicles.deque(
        (SimpleNamespace(partition=partition, offset=offset), sent) for partition, offset, sent in flight
    )
    found._heard_s, found.committed, found.delivered = 0.0, {}, lambda record: None
    found.metrics = SimpleNamespace(nobody=SimpleNamespace(inc=lambda count: None))
    return found


def settle(found: Any) -> dict[int, int]:
    """What is committed by a look at the answers."""
    committed: dict[int, int] = {}
    out = SimpleNamespace(hear=lambda wait_s: True, check=lambda: None)
    try:
        found._settle(SimpleNamespace(commit=committed.update), out, 0)
    finally:
        found.committed |= committed
    return committed


def test_an_offset_is_committed_once_and_only_when_all_before_it_are_settled() -> None:
    late = Sent(1)
    found = flown((0, 10, Sent(1, [0])), (1, 5, None), (0, 11, late), (0, 12, Sent(1, [0])), (1, 6, None))
    assert settle(found) == {0: 11, 1: 6}
    assert settle(found) == {}
    late.codes.append(0)
    assert settle(found) == {0: 13, 1: 7}
    assert settle(found) == {}


def test_what_was_settled_before_a_busy_broker_is_committed() -> None:
    found = flown((0, 10, Sent(1, [0])), (0, 11, Sent(1, [BUSY])), (0, 12, Sent(1, [0])))
    with pytest.raises(ServiceError, match="takes no more"):
        settle(found)
    assert found.committed == {0: 11}


@pytest.mark.parametrize(
    ("codes", "answer"),
    [([], None), ([0x10], None), ([0x10, 0], 0), ([0x87, 0x10], 0x10), ([0, BUSY], BUSY)],
)
def test_of_two_brokers_the_better_answer_counts_unless_one_is_busy(
    codes: list[int], answer: int | None
) -> None:
    assert Sent(2, codes).code == answer
