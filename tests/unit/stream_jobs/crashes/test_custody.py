"""The custody log's chain: whatever is changed, removed or put in shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stream_jobs.crashes.custody import START, Entry, broken, tampered

KEY = ("V", 5, "5-1")
MAY = {"received": {"clerk"}, "deleted": {"clerk"}}
NAME = "record 5-1 of V (boot 5)"


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
    assert list(tampered(log(), {KEY: "d1"}, [KEY], MAY)) == []


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
    assert list(tampered(log(), {KEY: "other"}, [KEY], MAY)) == [f"{NAME} is not what was received (entry 1)"]
    assert list(tampered(log(), {}, [KEY], MAY)) == [f"{NAME} is gone, and the log does not say so"]
    assert list(tampered(log(), {KEY: "d1"}, [], MAY)) == [f"{NAME} was locked and is not any more"]
    assert list(tampered(log()[:1], {KEY: "d1"}, [KEY], MAY)) == [
        f"{NAME} is locked, and the log does not say so"
    ]
    assert list(tampered([], {KEY: "d1"}, [], MAY)) == [f"{NAME} is not in the log"]


def test_a_record_that_left_by_the_rules_is_no_tampering() -> None:
    assert list(tampered(written("received", "deleted"), {}, [], MAY)) == []


def written(*actions: str) -> list[Entry]:
    """A sound log of these actions, by the clerk."""
    entries: list[Entry] = []
    for number, action in enumerate(actions, start=1):
        entries.append(entry(number, action, entries[-1].sha256 if entries else START))
    return entries


@pytest.mark.parametrize(
    ("actions", "there", "locked", "found"),
    [
        (("received", "received"), True, False, ["was received a second time (entry 2)"]),
        (("received", "changed"), True, False, ["was changed by clerk, and nobody may (entry 2)"]),
        (("received", "deleted"), True, False, ["was deleted (entry 2), but it is still there"]),
        (("received", "locked", "deleted"), False, True, ["was deleted (entry 3), but it was locked"]),
        (("locked",), True, True, ["is not in the log as received"]),
    ],
)  # fmt: skip
def test_what_nobody_may_do_shows_in_a_log_that_holds(
    actions: tuple[str, ...], there: bool, locked: bool, found: list[str]
) -> None:
    entries = written(*actions)
    assert list(broken(entries)) == []
    told = tampered(entries, {KEY: "d1"} if there else {}, [KEY] if locked else [], MAY)
    assert list(told) == [f"{NAME} {what}" for what in found]


def test_an_entry_by_somebody_who_may_not_write_it_shows() -> None:
    may = {"received": {"ingest"}, "deleted": {"owner"}}
    assert list(tampered(written("received", "deleted"), {}, [], may)) == [
        f"{NAME} was received by clerk, who may not (entry 1)",
        f"{NAME} was deleted by clerk, who may not (entry 2)",
    ]
