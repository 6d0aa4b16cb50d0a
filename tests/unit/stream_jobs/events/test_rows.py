"""What the event store makes of single records."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import orjson
import pytest

from infra.clients.kafka import Record
from infra.contract.errors import ContractError
from infra.contract.messages import crash_digest
from infra.contract.verdict import ClockLimits
from stream_jobs.app.topic_writer import dead_letter
from stream_jobs.events.rows import (
    crash_row,
    dead_letter_row,
    finding,
    newest,
    status_row,
)
from stream_jobs.events.writes import Batch, sort_out

VIN = "1HGCM82633A004352"
T0 = 1_790_000_000_000
CLOCKS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=0)
HEAD = {"schema": 1, "vehicle_id": VIN, "boot_id": 5, "seq": 9}
CRASH = HEAD | {
    "crash_id": "5-9",
    "event_ms": T0,
    "sent_ms": T0 + 250,
    "profile": "us563_2024",
    "pre_crash": {"speed_kmh": [50, 51]},
    "delta_v_kmh": [-1.0, -40.0],
    "delta_v_max_kmh": -40.0,
    "airbag_deployed": True,
    "complete": True,
}
ALERT = {
    "alert_id": "a1",
    "vehicle_id": VIN,
    "rule": "coolant_critical",
    "rule_version": 1,
    "severity": "CRITICAL",
    "event_ms": T0,
    "value": 117.5,
    "limit": 115.0,
    "message": "Coolant above 115 degC",
    "boot_id": 5,
    "seq": 9,
    "received_ms": T0 + 300,
    "lat_deg": None,
    "lon_deg": None,
}


def record(topic: str, message: object, at_ms: int = T0 + 300) -> Record:
    return Record(topic, 0, 7, at_ms, orjson.dumps(message), {}, VIN)


def sealed(crash: dict[str, object]) -> dict[str, object]:
    return crash | {"sha256": crash_digest(crash)}


def test_an_alert_is_read_with_the_time_of_its_topic() -> None:
    found = finding(record("alerts", ALERT, at_ms=T0 + 305))
    assert (found.alerted_ms, found.received_ms, found.event_ms) == (T0 + 305, T0 + 300, T0)
    assert (found.value, found.limit, found.lat_deg) == (117.5, 115.0, None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"severity": "BAD"}, "bad_value"),
        ({"value": "117"}, "bad_value"),
        ({"event_ms": -1}, "bad_clock"),
        ({"message": "a\0b"}, "bad_value"),
        ({"rule": None}, "bad_value"),
        ({"rule": "r" * 129}, "bad_value"),
        ({"alert_id": "a" * 129}, "bad_value"),
        ({"message": "m" * 1001}, "bad_value"),
        ({"vehicle_id": "V" * 4_000}, "bad_identity"),
        ({"event_ms": 253_402_300_800_000}, "bad_clock"),
        ({"rule_version": 2**31}, "bad_value"),
    ],
)
def test_an_alert_that_breaks_the_contract_is_rejected(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ContractError) as caught:
        finding(record("alerts", ALERT | change))
    assert caught.value.reason == reason


def test_an_alert_without_a_key_of_the_contract_is_rejected() -> None:
    with pytest.raises(ContractError, match="an alert without lon_deg"):
        finding(record("alerts", {key: value for key, value in ALERT.items() if key != "lon_deg"}))


def test_a_crash_whose_hash_holds_says_so() -> None:
    assert crash_row(record("crash", sealed(CRASH)), CLOCKS)["hash_ok"]


def test_a_crash_that_was_changed_or_never_sealed_says_so() -> None:
    changed = sealed(CRASH) | {"delta_v_max_kmh": -20.0}
    assert not crash_row(record("crash", changed), CLOCKS)["hash_ok"]
    assert not crash_row(record("crash", CRASH), CLOCKS)["hash_ok"]


def test_the_digest_does_not_depend_on_the_order_of_the_keys() -> None:
    assert crash_digest(dict(reversed(CRASH.items()))) == crash_digest(CRASH)


@pytest.mark.parametrize(
    ("event_ms", "stored_ms"),
    [(T0, T0), (0, T0 + 300), (2_085_978_496_000, T0 + 300), (T0 + 10_300, T0 + 10_300)],
)
def test_a_crash_has_the_time_of_receipt_where_its_clock_cannot_be_right(
    event_ms: int, stored_ms: int
) -> None:
    row = crash_row(record("crash", CRASH | {"event_ms": event_ms}), CLOCKS)
    assert (row["event_ms"], row["record"]["event_ms"]) == (stored_ms, event_ms)


def status(state: str, at_ms: int, model: str | None = None) -> dict[str, object]:
    return HEAD | {"state": state, "at_ms": at_ms, "model": model}


def test_the_newest_status_by_device_time_wins_and_keeps_the_model() -> None:
    birth = status_row(record("status", status("online", T0, "compact-1.8")), CLOCKS)
    death = status_row(record("status", status("offline", T0 + 200)), CLOCKS)
    for rows in ([birth, death], [death, birth]):
        (row,) = newest(rows)
        assert (row["state"], row["state_ms"], row["model"]) == ("offline", T0 + 200, "compact-1.8")


def test_of_two_statuses_at_one_time_the_later_in_the_log_wins() -> None:
    rows = [status_row(record("status", status(state, T0)), CLOCKS) for state in ("online", "offline")]
    assert [row["state"] for row in newest(rows)] == ["offline"]


def test_the_services_word_that_a_vehicle_is_silent_is_taken_and_keeps_the_model() -> None:
    birth = status("online", T0, "compact-1.8")
    rows = [
        status_row(record("status", body, at_ms), CLOCKS)
        for body, at_ms in ((birth, T0), (birth | {"state": "silent", "since_ms": T0 + 9}, T0 + 900_000))
    ]
    (row,) = newest(rows)
    assert (row["state"], row["model"], row["state_ms"]) == ("silent", "compact-1.8", T0)


def test_a_tombstone_is_no_status() -> None:
    assert sort_out([replace(record("status", {}), value=b"")], CLOCKS) == Batch()


def test_a_dead_letter_is_indexed_whatever_it_holds() -> None:
    raw = b"\xff\0 not JSON"
    headers = {"reason": "bad_json", "detail": "a\0b", "mqtt_topic": "odograph/v1/x\ufffd/crash"}
    row = dead_letter_row(Record("dead-letter", 0, 3, T0, raw, headers))
    assert row == {
        "partition": 0,
        "log_offset": 3,
        "reason": "bad_json",
        "detail": "a\ufffdb",
        "mqtt_topic": "odograph/v1/x\ufffd/crash",
        "vehicle_id": None,
        "received_ms": T0,
        "bytes": 11,
        "digest": hashlib.sha256(raw).hexdigest(),
        "boot_id": None,
        "seq": None,
        "messages": None,
        "since_ms": None,
        "log_generation": "",
    }


@pytest.mark.parametrize(
    ("said", "messages"), [("980", 980), ("0", 0), ("-1", None), ("9" * 30, None), ("9" * 12, 1_000_000)]
)
def test_a_letter_without_a_message_says_how_many_it_stands_for(said: str, messages: int | None) -> None:
    headers = {"reason": "bad_json", "messages": said, "since_ms": "5"}
    row = dead_letter_row(Record("dead-letter", 0, 3, T0, b"{}", headers))
    assert (row["messages"], row["since_ms"]) == (messages, 5)


@pytest.mark.parametrize(("reason", "found"), [("rate_limited", (5, 9)), ("bad_json", (None, None))])
def test_a_dead_letter_that_holds_a_whole_frame_names_it(
    reason: str, found: tuple[int | None, int | None]
) -> None:
    frame = HEAD | {"t0_ms": T0, "dt_ms": 100, "n": 1, "sent_ms": T0}
    headers = {"reason": reason, "mqtt_topic": f"odograph/v1/{VIN}/telemetry"}
    row = dead_letter_row(Record("dead-letter", 0, 3, T0, orjson.dumps(frame), headers))
    assert (row["boot_id"], row["seq"]) == found
    half = dead_letter_row(Record("dead-letter", 0, 3, T0, orjson.dumps(frame)[:50], headers))
    assert (half["boot_id"], half["seq"]) == (None, None)


def test_a_record_that_cannot_be_understood_does_not_stop_the_others() -> None:
    batch = sort_out([record("alerts", {}), record("alerts", ALERT), record("crash", CRASH)], CLOCKS)
    assert (len(batch.findings), len(batch.crashes), len(batch.rejected)) == (1, 1, 1)
    (rejected, error) = batch.rejected[0]
    headers = dict(dead_letter(rejected, error).headers)
    assert headers["reason"] == b"bad_shape"
    assert b"(event store, topic alerts)" in headers["detail"]


def test_a_dead_letter_is_one_that_kafka_takes_whatever_the_record_held() -> None:
    headers = {"mqtt_topic": "t" * 70_000, "reason": "mine", "x" * 900_000: "y" * 900_000}
    poison = Record("alerts", 0, 7, T0, b"\xff" * 1_040_000, headers, "k" * 900_000)
    letter = dead_letter(poison, ContractError("bad_json", "d" * 900_000))
    assert (letter.key, len(letter.value), letter.at_ms) == (None, 900_000, T0)
    assert {name: len(value or b"") for name, value in letter.headers} == {
        "mqtt_topic": 500,
        "reason": 8,
        "detail": 500,
    }


def test_an_error_of_our_own_on_a_record_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_jobs.events.rows.status_row", lambda *_: 1 // 0)
    batch = sort_out([record("status", status("online", T0)), record("alerts", ALERT)], CLOCKS)
    assert len(batch.findings) == 1
    (_, error) = batch.rejected[0]
    assert (error.reason, error.detail) == (
        "internal",
        "ZeroDivisionError: integer division or modulo by zero",
    )


def test_a_reason_that_the_contract_does_not_know_is_none() -> None:
    row = dead_letter_row(Record("dead-letter", 0, 3, T0, b"", {"reason": "r" * 9000}, "k\0"))
    assert (row["reason"], row["vehicle_id"]) == ("unknown", "k\ufffd")
