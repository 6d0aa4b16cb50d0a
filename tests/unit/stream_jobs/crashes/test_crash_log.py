"""Records as they are shown, against their own bytes and Kafka's log of what vehicles sent."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from infra.clients.kafka import Record
from infra.contract.messages import crash_digest, split_crash
from stream_jobs.crashes.custody import CrashLog, Key, Shown, differing, shown

VIN = "1HGCM82633A000001"
KEY = (VIN, 5, "5-1")
NAME = f"record 5-1 of {VIN} (boot 5)"
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
        "hash_ok": True, "locked_at": None,
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
    assert shown(row()) == Shown(digest(RAW), AT_MS, locked=False, raw_kept=True)
    assert shown(row(event_time=row()["received_at"], lat_deg=None, lon_deg=None)).contradictions == ()


@pytest.mark.parametrize(
    "change",
    [
        {"record": orjson.loads(RAW) | {"belt_on": False}}, {"vehicle_id": "other"},
        {"delta_v_max_kmh": -4.0}, {"airbag_deployed": None}, {"complete": False}, {"hash_ok": False},
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
