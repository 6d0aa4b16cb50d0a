"""Which offsets may be committed."""

from __future__ import annotations

from bridge.downlink.vehicles import Progress


def test_an_offset_is_committed_only_when_all_before_it_in_its_partition_are_settled() -> None:
    progress = Progress()
    first, second, third = (progress.take(0, offset) for offset in (10, 11, 12))
    other = progress.take(1, 5)
    progress.settle(second)
    progress.settle(other)
    assert progress.committable() == {1: 6}
    progress.settle(first)
    assert progress.committable() == {0: 12}
    assert progress.open == 1
    progress.settle(third)
    assert progress.committable() == {0: 13}


def test_what_was_given_once_is_not_given_again_and_a_record_settles_once() -> None:
    progress = Progress()
    place = progress.take(0, 0)
    progress.settle(place)
    progress.settle(place)
    assert progress.committable() == {0: 1}
    assert progress.committable() == {}
    assert progress.open == 0
