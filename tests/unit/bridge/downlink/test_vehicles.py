"""Which offsets are committed, and what several brokers answer together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridge.downlink.vehicles import Sent, Vehicles
from infra.contract.errors import ServiceError

SKIPPED, UNANSWERED = 11, 13


def committed(*places: tuple[int, int]) -> dict[int, int]:
    """What is committed of records at these places (partition, offset)."""
    found: dict[int, int] = {}
    vehicles: Any = Vehicles.__new__(Vehicles)

    def settle(_out: Any, record: Any, _sent: Sent) -> None:
        if record.offset == UNANSWERED:
            raise ServiceError("no PUBACK")

    vehicles._settle = settle
    vehicles._publish = lambda _out, record, _alert: None if record.offset == SKIPPED else Sent(1)
    records = [SimpleNamespace(partition=partition, offset=offset) for partition, offset in places]
    try:
        vehicles._deliver(
            SimpleNamespace(commit=found.update), None, [(r, {"alert_id": "a"}) for r in records]
        )
    except ServiceError:
        assert UNANSWERED in [offset for _, offset in places]
    return found


def test_an_offset_is_committed_only_when_all_before_it_in_its_partition_are_settled() -> None:
    assert committed((0, 10), (1, 5), (0, SKIPPED), (0, 12)) == {0: 13, 1: 6}
    assert committed((0, 12), (1, 5), (0, UNANSWERED), (0, 14), (1, 6)) == {0: 13, 1: 6}
    assert committed((0, UNANSWERED), (0, 14)) == {}
    assert committed() == {}


@pytest.mark.parametrize(
    ("codes", "answer"), [([], None), ([0x10], None), ([0x10, 0], 0), ([0x87, 0x10], 0x10), ([0, 0x97], 0x97)]
)
def test_of_two_brokers_the_better_answer_counts_unless_one_is_busy(
    codes: list[int], answer: int | None
) -> None:
    assert Sent(2, codes).code == answer
