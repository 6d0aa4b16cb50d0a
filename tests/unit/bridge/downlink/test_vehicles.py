"""Which offsets may be committed."""

from __future__ import annotations

from bridge.downlink.vehicles import Progress


def test_an_offset_is_committed_only_when_all_before_it_in_its_partition_are_settled() -> None:
    progress = Progress()
    for place in ((0, 10), (0, 11), (0, 12), (1, 5)):
        progress.take(*place)
    progress.settle(0, 11)
    progress.settle(1, 5)
    assert progress.committable() == {1: 6}
    progress.settle(0, 10)
    assert progress.committable() == {0: 12}
    assert progress.open == 1
    progress.settle(0, 12)
    assert progress.committable() == {0: 13}


def test_what_was_given_once_is_not_given_again_and_a_record_settles_once() -> None:
    progress = Progress()
    progress.take(0, 0)
    progress.settle(0, 0)
    progress.settle(0, 0)
    assert progress.committable() == {0: 1}
    assert progress.committable() == {}
    assert progress.open == 0
