"""Whatever is changed, removed or put in shows: in the custody log's chain, and against Kafka's log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from infra.clients.kafka import Record
from infra.contract.messages import crash_digest, split_crash
from infra.contract.verdict import ClockLimits
from stream_jobs.crashes.custody import (
    START,
    Anchors,
    CrashLog,
    Entry,
    Key,
    Shown,
    broken,
    differing,
    otherwise_anchored,
    shown,
    tampered,
)  # fmt: skip
from stream_jobs.events.rows import crash_row

VIN = "1HGCM82633A000001"
KEY = (VIN, 5, "5-1")
NAME = f"record 5-1 of {VIN} (boot 5)"
MAY = {"received": {"clerk"}, "deleted": {"clerk"}}


def entry(number: int, action: str, previous: str, digest: str = "d1") -> Entry:
    at = datetime(2026, 11, 21, 8, 0, number, 123456, tzinfo=UTC)
    made = Entry(
        entry=number, at=at, actor="clerk", action=action, vehicle_id=VIN, boot_id=5, crash_id="5-1",
        digest=digest, detail="", previous=previous, sha256="",
    )  # fmt: skip
    return replace(made, sha256=made.hashed())


def three() -> list[Entry]:
    first = entry(1, "received", START)
    second = entry(2, "locked", first.sha256)
    return [first, second, entry(3, "exported", second.sha256, "zip")]


def test_a_log_that_nobody_touched_holds() -> None:
    assert list(broken(three())) == []
    assert list(tampered(three(), {KEY: "d1"}, [KEY], MAY)) == []


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
    assert any(said.startswith(words) for said in broken(change(three())))


def test_what_came_since_an_anchor_is_checked_alone() -> None:
    assert list(broken(three()[1:], since=2)) == []
    assert list(broken(three()[2:], since=2)) == ["entry 2 is missing: 3 follows"]
    changed = [three()[1], replace(three()[2], detail="other")]
    assert list(broken(changed, since=2)) == ["entry 3 was changed: its hash is not that of what it says"]
    cut_off = Anchors({3: three()[2].sha256})
    assert list(otherwise_anchored(three()[:2], cut_off)) == [
        "the log is not what was anchored at entry 3: it was cut off or written anew"
    ]


def test_records_are_held_against_the_log() -> None:
    assert list(tampered(three(), {KEY: "other"}, [KEY], MAY)) == [
        f"{NAME} is not what was received (entry 1)"
    ]
    assert list(tampered(three(), {}, [KEY], MAY)) == [f"{NAME} is gone, and the log does not say so"]
    assert list(tampered(three(), {KEY: "d1"}, [], MAY)) == [f"{NAME} was locked and is not any more"]
    assert list(tampered(three()[:1], {KEY: "d1"}, [KEY], MAY)) == [
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
    findings = tampered(entries, {KEY: "d1"} if there else {}, [KEY] if locked else [], MAY)
    assert list(findings) == [f"{NAME} {what}" for what in found]


def test_an_entry_by_somebody_who_may_not_write_it_shows() -> None:
    may = {"received": {"ingest"}, "deleted": {"owner"}}
    assert list(tampered(written("received", "deleted"), {}, [], may)) == [
        f"{NAME} was received by clerk, who may not (entry 1)",
        f"{NAME} was deleted by clerk, who may not (entry 2)",
    ]


AT_MS = 1_763_593_200_250


def sealed(**changes: Any) -> bytes:
    body = {
        "schema": 1, "vehicle_id": VIN, "boot_id": 5, "seq": 9, "crash_id": "5-1", "event_ms": AT_MS - 250,
        "sent_ms": AT_MS, "profile": "us563_2024", "delta_v_max_kmh": -40.0, "airbag_deployed": True,
        "complete": True, "lat_deg": 52.5, "lon_deg": 13.4, "pre_crash": {"speed_kmh": [62] * 200},
        "pre_crash_dt_ms": 100, "delta_v_dt_ms": 10, "delta_v_kmh": [-4.0, -40.0], "delta_v_lat_kmh": None,
    } | changes  # fmt: skip
    return orjson.dumps(body | {"sha256": crash_digest(body)})


RAW = sealed()


def row(**changes: Any) -> dict[str, Any]:
    """What serving.crash_record has of it."""
    body = orjson.loads(RAW)
    same = ("vehicle_id", "boot_id", "crash_id", "profile", "delta_v_max_kmh", "airbag_deployed", "complete",
            "lat_deg", "lon_deg")  # fmt: skip
    return {
        **{name: body[name] for name in same}, "record": body, "record_text": "", "raw": RAW.decode(),
        "hash_ok": True, "locked_at": None, "signature": "absent",
        "event_time": datetime.fromtimestamp((AT_MS - 250) / 1000, UTC),
        "received_at": datetime.fromtimestamp(AT_MS / 1000, UTC),
    } | changes  # fmt: skip


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def logged(*messages: bytes) -> CrashLog:
    """A log of these messages, a millisecond apart."""
    log = CrashLog()
    for k, message in enumerate(messages):
        log.add(Record("crash", 0, k, AT_MS + k, message, {}))
    return log


def test_a_record_as_it_was_stored_contradicts_nothing() -> None:
    assert shown(row()) == Shown(digest(RAW), AT_MS, locked=False, raw_kept=True, signature="absent")
    assert shown(row(event_time=row()["received_at"], lat_deg=None, lon_deg=None)).contradictions == ()
    for odd in (None, [*range(50)], "x" * 50):
        raw = sealed(profile=odd)
        stored = crash_row(Record("crash", 0, 0, AT_MS, raw, {}), ClockLimits(0, 10_000, 30_000))
        changed = {"raw": raw.decode(), "record": orjson.loads(raw), "profile": stored["profile"]}
        assert shown(row(**changed)).contradictions == ()


@pytest.mark.parametrize(
    "change",
    [
        {"record": orjson.loads(RAW) | {"belt_on": False}}, {"vehicle_id": "other"},
        {"delta_v_max_kmh": -4.0}, {"airbag_deployed": None}, {"complete": False}, {"hash_ok": False},
        {"signature": "valid"},
        {"profile": "us563_2006"},
        {"event_time": datetime(2026, 1, 1, tzinfo=UTC)}, {"lat_deg": 52.6},
    ],
)  # fmt: skip
def test_a_column_that_says_other_than_the_bytes_is_named(change: dict[str, Any]) -> None:
    assert shown(row(**change)).contradictions == tuple(change)


def test_a_record_whose_bytes_were_not_kept_contradicts_nothing() -> None:
    assert shown(row(raw=None, hash_ok=False)) == Shown(digest(b""), AT_MS, locked=False, raw_kept=False)


def found(log: CrashLog, records: dict[Key, Shown], deleted: tuple[Key, ...] = ()) -> list[str]:
    return list(differing(records, deleted, log))


def test_a_record_that_the_log_holds_differs_in_nothing() -> None:
    assert found(logged(RAW), {KEY: shown(row())}) == []
    assert (
        found(
            logged(b"no crash", sealed(belt_on=True), RAW), {KEY: Shown(digest(RAW), AT_MS + 2, True, True)}
        )
        == []
    )


def test_a_record_in_parts_is_put_together_whatever_their_order() -> None:
    log = logged(*reversed(split_crash(RAW, 300)), *split_crash(RAW, 300))
    parts = len(split_crash(RAW, 300))
    assert {key: dict(versions) for key, versions in log.records.items()} == {
        KEY: {digest(RAW): {AT_MS + parts - 1, AT_MS + 2 * parts - 1}}
    }


def test_a_record_that_an_older_contract_took_is_known_by_its_bytes() -> None:
    older = RAW.replace(b'"pre_crash"', b'"pre_crush"')
    assert found(logged(older), {KEY: Shown(digest(older), AT_MS, True, True)}) == []


def test_what_differs_from_the_log_is_named() -> None:
    assert found(logged(sealed(belt_on=True)), {KEY: shown(row())}) == [
        f"{NAME} is not what Kafka's log holds"
    ]
    assert found(logged(), {KEY: shown(row())}) == [f"{NAME} is not in Kafka's log: no vehicle sent it"]
    later = shown(row(received_at=datetime.fromtimestamp(AT_MS / 1000 + 60, UTC)))
    assert found(logged(RAW), {KEY: later}) == [f"{NAME} was not received when it says, by Kafka's log"]


def test_a_record_that_left_the_vault_without_a_word_is_named() -> None:
    assert found(logged(RAW), {}) == [f"{NAME} is in Kafka's log, and not in the vault"]
    assert found(logged(RAW), {}, deleted=(KEY,)) == []


def test_a_dead_letter_excuses_what_the_store_refused_if_both_hold_it() -> None:
    letter = Record("dead-letter", 0, 0, AT_MS + 5, RAW, {})
    for letters, whole, expected in (([letter], True, {KEY}), ([], True, set()), ([], False, {KEY})):
        log = logged(RAW)
        log.note_refused({digest(RAW)}, letters, whole)
        assert log.refused == expected
    log = logged(RAW)
    log.note_refused(set(), [letter], whole=True)
    assert log.refused == set()
