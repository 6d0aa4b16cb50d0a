"""The drills' checker: each kind of damage is counted as what it is."""

from __future__ import annotations

import orjson
import pytest

from load_tests.drills.checker import (
    DeadFindings,
    DeadLetter,
    Findings,
    Identity,
    Poison,
    Stored,
    check,
    check_dead,
    depth,
    expected_reason,
    kept,
)

SENT: list[Identity] = [("A", 1, 0), ("B", 1, 0), ("A", 1, 1), ("B", 1, 1), ("A", 1, 2)]


def log(*records: tuple[str, int, int, int]) -> list[Stored]:
    """Records as (vehicle, seq, partition, offset), boot 1."""
    return [Stored((vehicle, 1, seq), partition, offset) for vehicle, seq, partition, offset in records]


WHOLE = log(("A", 0, 0, 0), ("A", 1, 0, 1), ("A", 2, 0, 2), ("B", 0, 1, 0), ("B", 1, 1, 1))


def test_all_that_was_sent_once_and_in_order_is_without_fault() -> None:
    assert check(SENT, WHOLE) == Findings(5, lost=0, doubled=0, reordered=0, foreign=0, scattered=0)


def test_the_order_in_which_the_log_is_read_does_not_matter() -> None:
    assert check(SENT, reversed(WHOLE)) == check(SENT, WHOLE)


def test_a_frame_that_is_not_in_the_log_is_lost_and_named() -> None:
    found = check(SENT, WHOLE[1:])
    assert (found.lost, found.examples) == (1, ("lost: A boot 1 seq 0",))


def test_a_frame_found_among_dead_letters_is_not_lost() -> None:
    assert check(SENT, WHOLE[1:], dead=[("A", 1, 0)]).lost == 0


def test_a_second_copy_is_doubled_and_does_not_count_against_the_order() -> None:
    found = check(SENT, [*WHOLE, *log(("A", 0, 0, 3), ("A", 1, 0, 4))])
    assert (found.doubled, found.reordered, found.lost) == (2, 0, 0)


def test_a_first_copy_behind_a_later_frame_of_its_vehicle_is_reordered() -> None:
    swapped = log(("A", 1, 0, 0), ("A", 0, 0, 1), ("A", 2, 0, 2), ("B", 0, 1, 0), ("B", 1, 1, 1))
    found = check(SENT, swapped)
    assert (found.reordered, found.examples) == (1, ("reordered: A boot 1 seq 0",))


def test_order_is_that_of_publishing_not_of_sequence_numbers() -> None:
    held_back: list[Identity] = [("A", 1, 1), ("A", 1, 0)]
    assert check(held_back, log(("A", 1, 0, 0), ("A", 0, 0, 1))).reordered == 0
    assert check(held_back, log(("A", 0, 0, 0), ("A", 1, 0, 1))).reordered == 1


def test_a_frame_nobody_sent_is_foreign() -> None:
    assert check(SENT, [*WHOLE, *log(("C", 0, 0, 9))]).foreign == 1


def test_a_vehicle_in_two_partitions_is_scattered() -> None:
    assert check(SENT, [*WHOLE[:-1], *log(("B", 1, 2, 0))]).scattered == 1


def test_poison_is_asked_for_by_its_bytes_and_its_reason() -> None:
    poison = [
        Poison("bad_json", kept(b"a")),
        Poison("too_large", kept(b"b")),
        Poison("bad_json", kept(b"c")),
    ]
    letters = [
        DeadLetter("bad_json", "V", kept(b"a")),
        DeadLetter("bad_json", "V", kept(b"a")),
        DeadLetter("bad_json", "V", kept(b"b")),
        DeadLetter("bad_clock", "V", kept(b"good")),
    ]
    found = check_dead(poison, letters)
    assert found == DeadFindings({"bad_clock": 1, "bad_json": 3}, missing=1, foreign=1, wrong_reason=1)


FRAME = {"vehicle_id": "V", "n": 1}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (orjson.dumps(FRAME), None),
        (orjson.dumps(FRAME)[:-3], "bad_json"),
        (b"\xff\xfe" + orjson.dumps(FRAME), "bad_json"),
        (b'{"vehicle_id":"V","x":NaN}', "bad_json"),
        (b'{"vehicle_id":"V","x":' + b"[" * 200 + b"]" * 200 + b"}", "bad_json"),
        (b'{"vehicle_id":"W"}', "identity_mismatch"),
        (b"x" * 70_000, "too_large"),
        (b"[1]", "bad_json"),
    ],
)
def test_the_reason_follows_from_the_definitions(payload: bytes, reason: str | None) -> None:
    assert expected_reason(payload, "V") == reason


def test_depth_counts_arrays_and_objects_within_each_other() -> None:
    assert [depth(x) for x in (1, [], {"a": 1}, [[1], {"b": []}])] == [0, 1, 1, 3]
