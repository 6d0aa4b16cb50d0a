from __future__ import annotations

import random

from infra.contract.seq_ranges import Ranges, both, merged, minus, size, text


def as_ranges(numbers: set[int]) -> Ranges:
    return merged((n, n) for n in numbers)


def as_set(ranges: Ranges) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


def test_ranges_that_touch_or_overlap_become_one() -> None:
    assert merged([(5, 6), (1, 2), (3, 3), (6, 9), (11, 11)]) == [(1, 3), (5, 9), (11, 11)]


def test_ranges_answer_like_the_sets_they_stand_for() -> None:
    luck = random.Random(7)
    for _ in range(500):
        a, b = ({luck.randrange(30) for _ in range(luck.randrange(20))} for _ in range(2))
        assert minus(as_ranges(a), as_ranges(b)) == as_ranges(a - b)
        assert both(as_ranges(a), as_ranges(b)) == as_ranges(a & b)
        assert (as_set(as_ranges(a)), size(as_ranges(a))) == (a, len(a))


def test_many_ranges_are_told_by_the_first_few() -> None:
    assert text([(3, 3), (7, 9)]) == "3, 7-9"
    assert text([(k, k) for k in range(0, 30, 2)], most=2) == "0, 2 and 13 ranges more"
