from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.uplink import translate
from bridge.uplink.translate import (
    DECODERS,
    KEPT_BYTES,
    Record,
    Rejection,
    Route,
    Translator,
    VehicleLimit,
)
from infra.contract import errors

VIN = "1HGCM82633A004352"
OTHER = "1HGCM82633A004353"
TOPIC = f"odograph/v1/{VIN}/telemetry".encode()
FRAME = {
    "schema": 1,
    "vehicle_id": VIN,
    "boot_id": 3,
    "seq": 7,
    "t0_ms": 1_700_000_000_000,
    "dt_ms": 100,
    "n": 2,
    "sent_ms": 1_700_000_000_300,
    "speed_kmh": [50.0, 51.0],
}
STATUS = {"schema": 1, "vehicle_id": VIN, "boot_id": 3, "seq": 0, "state": "online", "at_ms": 5}
CRASH = {
    "schema": 1,
    "vehicle_id": VIN,
    "boot_id": 3,
    "seq": 9,
    "crash_id": "c1",
    "event_ms": 5,
    "sent_ms": 6,
    "delta_v_kmh": [0.0, -9.0],
    "pre_crash": {"speed_kmh": [50.0]},
}
HEALTHY = {"telemetry": FRAME, "status": STATUS, "crash": CRASH}
PART = {
    "schema": 1,
    "vehicle_id": VIN,
    "boot_id": 3,
    "seq": 9,
    "crash_id": "c1",
    "event_ms": 5,
    "sent_ms": 6,
    "part": 1,
    "parts": 2,
    "sha256": "0a" * 32,
    "data": '"delta_v_kmh":[0,-9]}',
}


def translator(*skipped: str) -> Translator:
    return Translator("odograph/v1", "test.", frozenset(skipped))


def outcome_of(raw: bytes, topic: bytes = TOPIC) -> Record | Rejection | None:
    return translator().translate(topic, raw, 1_700_000_001_000)


def reason_of(raw: bytes, topic: bytes = TOPIC) -> str:
    outcome = outcome_of(raw, topic)
    assert isinstance(outcome, Rejection)
    return outcome.reason


def frame(**changes: object) -> bytes:
    return orjson.dumps(FRAME | changes)


@pytest.mark.parametrize("channel", ["telemetry", "status", "crash"])
def test_a_healthy_message_goes_to_its_topic_keyed_by_vehicle(channel: str) -> None:
    raw = orjson.dumps(HEALTHY[channel])
    topic = f"odograph/v1/{VIN}/{channel}".encode()
    assert outcome_of(raw, topic) == Record(
        topic=f"test.{channel}",
        key=b"1HGCM82633A004352",
        value=raw,
        headers=[("mqtt_topic", topic), ("received_ms", b"1700000001000"), ("schema", b"1")],
        timestamp_ms=1_700_000_001_000,
    )


def test_of_two_regions_a_status_says_in_which_it_was_written_and_a_frame_does_not() -> None:
    ours = Translator("odograph/v1", "test.", region="A")
    for channel, said in (("status", [("region", b"A")]), ("telemetry", [])):
        topic = f"odograph/v1/{VIN}/{channel}".encode()
        outcome = ours.translate(topic, orjson.dumps(HEALTHY[channel]), 1_700_000_001_000)
        assert isinstance(outcome, Record)
        assert outcome.headers[3:] == said


def test_a_part_of_a_crash_record_goes_the_way_of_whole_ones() -> None:
    topic = f"odograph/v1/{VIN}/crash".encode()
    raw = orjson.dumps(PART)
    outcome = outcome_of(raw, topic)
    assert isinstance(outcome, Record)
    assert (outcome.topic, outcome.key, outcome.value) == ("test.crash", VIN.encode(), raw)
    assert reason_of(orjson.dumps(PART | {"part": 2}), topic) == "bad_shape"
    assert reason_of(orjson.dumps(PART | {"vehicle_id": OTHER}), topic) == "identity_mismatch"


def test_the_bytes_of_the_value_are_those_received() -> None:
    raw = orjson.dumps(FRAME, option=orjson.OPT_INDENT_2) + b"\n "
    outcome = outcome_of(raw)
    assert isinstance(outcome, Record)
    assert outcome.value == raw


POISON = {
    "too_large": (TOPIC, frame(padding="x" * 65_536)),
    "bad_topic": (b"odograph/v1/a/b/c", frame()),
    "unknown_topic": (f"odograph/v1/{VIN}/dtc".encode(), frame()),
    "bad_json": (TOPIC, b'{"schema":'),
    "bad_schema": (TOPIC, frame(schema=2)),
    "bad_identity": (b"odograph/v1/short/telemetry", frame()),
    "identity_mismatch": (TOPIC, frame(vehicle_id=OTHER)),
    "bad_clock": (TOPIC, frame(t0_ms=-1)),
    "bad_shape": (TOPIC, frame(n=3)),
    "bad_value": (TOPIC, frame(speed_kmh=["fast", 1])),
}


@pytest.mark.parametrize("reason", sorted(POISON))
def test_poison_is_rejected_with_its_reason(reason: str) -> None:
    topic, raw = POISON[reason]
    assert reason_of(raw, topic) == reason


def test_every_reason_of_the_contract_has_its_poison() -> None:
    found_later = {"rate_limited", "unstorable", "refused", "internal", "bad_digest", "session_lost"}
    assert set(POISON) | found_later == set(errors.REASONS)


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"[]", b"\xff\xfe", b'{"a":NaN}', b"[" * 5000 + b"]" * 5000, b'{"schema":1e999}'],
    ids=["empty", "null", "array", "bad-utf8", "nan", "deep", "infinite"],
)
def test_what_is_no_strict_json_object_is_bad_json(raw: bytes) -> None:
    assert reason_of(raw) == "bad_json"


def test_size_is_judged_before_the_json_is_parsed() -> None:
    assert reason_of(b"[" * 10_000_000) == "too_large"


def test_a_topic_that_is_no_utf8_is_kept_byte_for_byte() -> None:
    topic = b"odograph/v1/\xff\xfe/telemetry"
    outcome = outcome_of(frame(), topic)
    assert isinstance(outcome, Rejection)
    assert outcome.reason == "bad_identity"
    letter = translator().dead_letter(outcome, topic, b"raw", 5)
    assert dict(letter.headers)["mqtt_topic"] == topic


@pytest.mark.parametrize("topic", [b"", b"odograph/v1", b"odograph/v1/", b"elsewhere/x/telemetry"])
def test_a_topic_of_another_shape_is_a_bad_topic(topic: bytes) -> None:
    assert reason_of(frame(), topic) == "bad_topic"


def test_a_rejection_is_keyed_by_the_vehicle_where_the_topic_names_one() -> None:
    for topic in (TOPIC, f"odograph/v1/{VIN}/dtc".encode(), f"odograph/v1/{VIN}/a/b".encode()):
        outcome = outcome_of(b"junk", topic)
        assert isinstance(outcome, Rejection)
        assert outcome.key == VIN.encode()
    outcome = outcome_of(b"junk", b"odograph/v1/short/telemetry")
    assert isinstance(outcome, Rejection)
    assert outcome.key is None


def test_a_dead_letter_keeps_raw_bytes_reason_and_origin() -> None:
    letter = translator().dead_letter(Rejection("bad_json", "why", b"K"), b"t", b"\xff\x00", 5)
    assert letter == Record(
        topic="test.dead-letter",
        key=b"K",
        value=b"\xff\x00",
        headers=[
            ("reason", b"bad_json"),
            ("detail", b"why"),
            ("mqtt_topic", b"t"),
            ("received_ms", b"5"),
            ("schema", b"1"),
        ],
        timestamp_ms=5,
    )


def test_a_dead_letter_too_large_for_kafka_is_cut_and_says_so() -> None:
    raw = b"x" * (KEPT_BYTES + 1)
    letter = translator().dead_letter(Rejection("too_large", "why", None), b"t", raw, 5)
    assert len(letter.value) == 900_000
    assert dict(letter.headers)["detail"] == b"why; the first 900000 of 900001 bytes are kept"


def test_channels_of_others_are_skipped_by_their_place_in_the_topic() -> None:
    ours = translator("crash", "alert")
    assert ours.translate(f"odograph/v1/{VIN}/crash".encode(), b"", 0) is None
    assert ours.translate(b"odograph/v1/anything/alert", b"", 0) is None
    assert isinstance(ours.translate(b"odograph/v1/crash", b"", 0), Rejection)
    assert isinstance(ours.translate(b"odograph/v1/a/b/crash", b"", 0), Rejection)


def test_a_record_that_kafka_refuses_becomes_a_dead_letter() -> None:
    record = outcome_of(frame())
    assert isinstance(record, Record)
    letter = translator().unstorable(record, "MSG_SIZE_TOO_LARGE")
    assert (letter.topic, letter.key, letter.value) == ("test.dead-letter", record.key, record.value)
    assert dict(letter.headers)["reason"] == b"unstorable"
    assert dict(letter.headers)["detail"] == b"Kafka refused it for test.telemetry: MSG_SIZE_TOO_LARGE"
    assert dict(letter.headers)["mqtt_topic"] == TOPIC


def test_a_refused_dead_letter_is_halved_until_it_fits() -> None:
    letter = translator().dead_letter(Rejection("bad_json", "", None), b"t", b"1234567", 5)
    assert translator().unstorable(letter, "MSG_SIZE_TOO_LARGE").value == b"123"


def test_an_error_of_our_own_is_a_rejection_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(raw: bytes) -> dict[str, object]:
        raise RuntimeError("our fault")

    monkeypatch.setitem(DECODERS, "telemetry", broken)
    outcome = outcome_of(frame())
    assert outcome == Rejection("internal", "RuntimeError: our fault", VIN.encode())


@given(st.binary(max_size=80), st.binary(max_size=200))
def test_no_bytes_at_all_make_it_raise(topic: bytes, raw: bytes) -> None:
    for name in (topic, b"odograph/v1/" + topic, TOPIC):
        outcome = outcome_of(raw, name)
        assert isinstance(outcome, Rejection)
        translator().dead_letter(outcome, name, raw, 5)


def test_a_vehicle_and_those_that_come_after_it_are_expected_to_keep_their_sample_count() -> None:
    ours = translator()
    first = frame(n=3, speed_kmh=[1.0, 2.0, 3.0])
    assert isinstance(ours.translate(TOPIC, first, 0), Record)
    other = f"odograph/v1/{OTHER}/telemetry".encode()
    assert isinstance(ours.translate(other, frame(vehicle_id=OTHER), 0), Record)
    passes = [route.passes for route in ours.routes()]
    assert [gate is not None and gate(first) for gate in passes] == [True, False]
    late = ours.route(f"odograph/v1/{VIN[:-1]}9/telemetry".encode())
    assert isinstance(late, Route)
    assert late.passes is not None
    assert late.passes(frame(vehicle_id=VIN[:-1] + "9"))


def test_an_unsound_frame_teaches_nothing_and_is_rejected_each_time() -> None:
    ours = translator()
    for _ in range(2):
        outcome = ours.translate(TOPIC, frame(n=3), 0)
        assert isinstance(outcome, Rejection)
        assert outcome.reason == "bad_shape"


def test_a_route_knows_when_its_vehicle_was_heard_last() -> None:
    ours = translator()
    ours.translate(TOPIC, frame(), 1000)
    ours.translate(TOPIC, b"junk", 2000)
    assert [route.seen_ms for route in ours.routes()] == [1000]


def test_a_million_invented_vehicles_are_forgotten_one_by_one_but_not_one_that_is_over_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translate, "ROUTES_KEPT", 50)
    ours = Translator("odograph/v1", "test.", limit=VehicleLimit(rate_per_s=1, burst=3))
    outcomes = [ours.translate(TOPIC, frame(), 0) for _ in range(4)]
    assert [type(outcome) for outcome in outcomes] == [Record] * 3 + [Rejection]
    for number in range(1000):
        ours.route(TOPIC)
        ours.translate(f"odograph/v1/1HGCM82633A{number:06d}/telemetry".encode(), b"{", 0)
    assert (len(ours.routes()), ours.forgotten) == (50, 951)
    again = ours.translate(TOPIC, frame(), 0)
    assert isinstance(again, Rejection)
    assert again.reason == "rate_limited"


def test_frames_of_a_vehicle_put_off_go_to_their_topic_but_for_one_now_and_then() -> None:
    ours = translator()
    ours.deferred, ours.show_every_ms = frozenset({VIN}), 1000
    other = f"odograph/v1/{OTHER}/telemetry".encode()
    others = orjson.dumps(FRAME | {"vehicle_id": OTHER})

    def topic(name: bytes, raw: bytes, at_ms: int) -> str:
        outcome = ours.translate(name, raw, at_ms)
        assert isinstance(outcome, Record)
        return outcome.topic

    raw = orjson.dumps(FRAME)
    found = [topic(TOPIC, raw, at_ms) for at_ms in (5000, 5001, 5999, 6000, 6001)]
    put_off = "test.telemetry-deferred"
    assert found == ["test.telemetry", put_off, put_off, "test.telemetry", put_off]
    assert topic(other, others, 5001) == "test.telemetry"
    for channel in ("crash", "status"):
        name = f"odograph/v1/{VIN}/{channel}".encode()
        assert topic(name, orjson.dumps(HEALTHY[channel]), 5001) == f"test.{channel}"
    ours.deferred = frozenset()
    assert topic(TOPIC, raw, 6002) == "test.telemetry"
