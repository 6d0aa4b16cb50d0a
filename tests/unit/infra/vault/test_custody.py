"""The custody log's chain: whatever is changed, removed or put in shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from infra.vault.custody import START, Entry, broken, tampered

KEY = ("V", 5, "5-1")


def entry(number: int, action: str, previous: str, digest: str = "d1") -> Entry:
    at = datetime(2026, 11, 21, 8, 0, number, 123456, tzinfo=UTC)
    made = Entry(number, at, "clerk", action, *KEY, digest, "", previous, "")
    return replace(made, sha256=made.hashed())


def log() -> list[Entry]:
    first = entry(1, "received", START)
    second = entry(2, "locked", first.sha256)
    return [first, second, entry(3, "exported", second.sha256, "zip")]


def test_a_log_that_nobody_touched_holds() -> None:
    assert list(broken(log())) == []
    assert list(tampered(log(), {KEY: "d1"}, [KEY])) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda es: [es[0], replace(es[1], actor="nobody"), es[2]], "entry 2 was changed"),
        (lambda es: [es[0], es[2]], "entry 2 is missing"),
        (lambda es: es[1:], "entry 1 is missing"),
        (lambda es: [es[0], replace(es[1], sha256=START), es[2]], "entry 2 was changed"),
        (lambda es: [es[0], entry(2, "exported", es[0].sha256), es[2]], "entry 3 does not follow"),
    ],
)
def test_whatever_is_done_to_an_entry_shows(change: Callable[[list[Entry]], list[Entry]], words: str) -> None:
    assert any(said.startswith(words) for said in broken(change(log())))


def test_records_are_held_against_the_log() -> None:
    assert list(tampered(log(), {KEY: "other"}, [KEY])) == [
        "record 5-1 of V (boot 5) is not what was received (entry 1)"
    ]
    assert list(tampered(log(), {}, [KEY])) == [
        "record 5-1 of V (boot 5) is gone, and the log does not say so"
    ]
    assert list(tampered(log(), {KEY: "d1"}, [])) == [
        "record 5-1 of V (boot 5) was locked and is not any more"
    ]
    assert list(tampered([], {KEY: "d1"}, [])) == ["record 5-1 of V (boot 5) is not in the log"]


def test_a_record_that_left_by_the_rules_is_no_tampering() -> None:
    first = entry(1, "received", START)
    assert list(tampered([first, entry(2, "deleted", first.sha256)], {}, [])) == []
