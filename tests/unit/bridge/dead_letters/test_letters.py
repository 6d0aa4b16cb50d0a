"""Dead letters judged again: what may go in, what stays and why."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from bridge import cli
from bridge.dead_letters.letters import (
    Letter,
    Passed,
    Recheck,
    Report,
    Stays,
    Verdict,
    as_json,
    dump,
    judge_parts,
    judge_statuses,
    list_text,
    report_text,
)
from bridge.uplink.translate import KEPT_BYTES, Rejection, Translator, received_at
from infra.contract.errors import ConfigError
from infra.contract.messages import split_crash
from infra.contract.verdict import ClockLimits

VIN = "1HGCM82633A004352"
T0 = 1_790_000_000_000
DAY_MS = 86_400_000
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
RECHECK = Recheck("odograph/v1", "test.", LIMITS)
HEAD = {"schema": 1, "vehicle_id": VIN, "boot_id": 3, "seq": 7}
FRAME = HEAD | {"t0_ms": T0, "dt_ms": 100, "n": 2, "sent_ms": T0 + 300, "speed_kmh": [50.0, 51.0]}
STATUS = HEAD | {"state": "online", "at_ms": T0}
CRASH = HEAD | {
    "crash_id": "c1",
    "event_ms": T0,
    "sent_ms": T0,
    "delta_v_kmh": [0.0, -9.0],
    "pre_crash": {"speed_kmh": [50.0]},
    "padding": ["x" * 200] * 20,
}


def letter(
    raw: bytes,
    channel: str = "telemetry",
    reason: str = "rate_limited",
    offset: int = 4,
    at_ms: int = T0 + 500,
) -> Letter:
    """As the bridge would have written it."""
    topic = f"odograph/v1/{VIN}/{channel}".encode()
    record = Translator("odograph/v1", "test.").dead_letter(
        Rejection(reason, "why", VIN.encode()), topic, raw, at_ms
    )
    return Letter(offset, at_ms, record.key, record.value, dict(record.headers))


def passed(raw: bytes, channel: str, offset: int) -> Passed:
    found = RECHECK.judge(letter(raw, channel, offset=offset), T0 + DAY_MS)
    assert isinstance(found, Passed), found
    return found


def stays(found: Letter) -> str:
    judged = RECHECK.judge(found, T0 + DAY_MS)
    assert isinstance(judged, Stays), judged
    return judged.reason


def test_a_letter_that_is_whole_goes_in_unchanged_as_if_it_were_received_now() -> None:
    raw = orjson.dumps(FRAME)
    found = RECHECK.judge(letter(raw), T0 + DAY_MS)
    assert isinstance(found, Passed)
    record = received_at(found.record, T0 + DAY_MS + 9)
    assert (record.topic, record.key, record.value) == ("test.telemetry", VIN.encode(), raw)
    assert record.timestamp_ms == T0 + DAY_MS + 9
    assert dict(record.headers) == {
        "mqtt_topic": b"odograph/v1/1HGCM82633A004352/telemetry",
        "received_ms": b"1790086400009",
        "schema": b"1",
        "first_received_ms": b"1790000000500",
        "reinjected_from": b"4",
    }


def test_the_first_receipt_is_kept_when_a_letter_dies_and_goes_in_twice() -> None:
    again = letter(orjson.dumps(FRAME), at_ms=T0 + DAY_MS)
    again = Letter(9, again.at_ms, again.key, again.value, {**again.headers, "first_received_ms": b"77"})
    assert again.first_received_ms == 77


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"schema":', "bad_json"),
        (orjson.dumps(FRAME | {"vehicle_id": VIN[:-1] + "9"}), "identity_mismatch"),
        (orjson.dumps(FRAME | {"padding": "x" * 65_536}), "too_large"),
        (b"x" * (KEPT_BYTES + 1), "cut"),
    ],
)
def test_a_letter_that_breaks_the_contract_still_stays_with_todays_reason(raw: bytes, reason: str) -> None:
    assert stays(letter(raw, reason="internal")) == reason


def test_a_letter_that_no_vehicle_sent_stays() -> None:
    assert stays(Letter(1, T0, None, orjson.dumps(FRAME), {"reason": b"bad_shape"})) == "not_from_mqtt"


def test_a_clock_that_was_ahead_when_the_message_came_is_not_right_because_time_went_on() -> None:
    an_hour_ahead = orjson.dumps(FRAME | {"t0_ms": T0 + 3_600_000})
    assert stays(letter(an_hour_ahead)) == "clock_ahead"


def told(verdicts: Iterable[Verdict]) -> dict[int, str]:
    """By offset why a letter stays; empty: it may go in."""
    return dict((v.offset, v.reason) if isinstance(v, Stays) else (v.letter.offset, "") for v in verdicts)


def test_a_whole_set_of_parts_goes_in_and_one_that_gives_no_record_stays() -> None:
    parts = split_crash(orjson.dumps(CRASH), 1500)
    whole = judge_parts([passed(raw, "crash", n) for n, raw in enumerate(parts)])
    assert told(whole) == {0: "", 1: "", 2: ""}
    bad = [orjson.dumps(orjson.loads(raw) | {"sha256": "0a" * 32}) for raw in parts]
    broken = judge_parts([passed(raw, "crash", n) for n, raw in enumerate(bad)])
    assert told(broken) == dict.fromkeys(range(3), "bad_digest")
    missing = judge_parts([passed(raw, "crash", n) for n, raw in enumerate(bad[:2])])
    assert told(missing) == {0: "", 1: ""}, "the event store may hold the third"


def test_a_status_older_than_the_one_in_force_stays_and_the_newest_goes_in_last() -> None:
    def at(ms: int) -> Passed:
        return passed(orjson.dumps(STATUS | {"at_ms": T0 + ms}), "status", ms)

    verdicts = told(judge_statuses([at(1), at(3), at(2)], {VIN: T0 + 1}))
    assert list(verdicts.items()) == [(1, ""), (3, ""), (2, "overtaken")]
    assert told(judge_statuses([at(1)], {VIN: T0 + 2})) == {1: "overtaken"}


def test_letters_are_chosen_by_reason_and_vehicle() -> None:
    one = letter(b"{", reason="bad_json")
    assert one.matches(None, None)
    assert one.matches("bad_json", VIN)
    assert not one.matches("bad_value", None)
    assert not one.matches(None, "1HGCM82633A004353")


def test_since_is_a_time_or_so_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: T0 * 1_000_000)
    assert cli._since_ms("10m") == T0 - 600_000
    assert cli._since_ms("7d") == T0 - 7 * DAY_MS
    assert cli._since_ms("2026-09-21T14:13:20") == T0
    with pytest.raises(ConfigError, match="--since 'soon'"):
        cli._since_ms("soon")
    for beyond in ("1960-01-01", "30000d"):  # a negative time means something else to Kafka
        with pytest.raises(ConfigError, match="after 1970"):
            cli._since_ms(beyond)


def test_lists_and_reports_say_what_and_why() -> None:
    one = letter(b"{", reason="bad_json")
    digest = hashlib.sha256(b"{").hexdigest()
    text = list_text([one.row({(4, digest)})], {"bad_json": 3})
    assert "4  2026-09-21T14:13:20.500Z  bad_json" in text
    assert " again " in text
    assert "3 dead letters, the newest 1 shown" in text
    report = Report({1: "telemetry", 2: "telemetry", 3: "crash"}, [8], [Stays(5, "bad_json", "no")])
    assert report_text(report, dry_run=True).splitlines() == [
        "       5 stays: bad_json: no",
        "would go in: 3 (crash 1, telemetry 2)",
        "went in before: 1 (--again sends them once more)",
        "stay: 1 (bad_json 1)",
    ]
    expected: dict[str, Any] = {
        "went": {"1": "telemetry", "2": "telemetry", "3": "crash"},
        "before": [8],
        "stays": [{"offset": 5, "reason": "bad_json", "detail": "no"}],
    }
    assert orjson.loads(as_json(report)) == expected


def test_a_dump_shows_position_hexadecimal_and_text() -> None:
    assert dump(b"\x00\xffabc") == "00000000  00 ff 61 62 63" + " " * 33 + "  ..abc"
