"""Payloads out of Kafka: strict reading, the same by every reader and beside any other payload."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.frames.batch import readable
from stream_jobs.frames.reading import HEAD_SCHEMA, PIECE, SINGLY, _heads_at_once, read, read_heads
from tests.support_frames import frame, vin

T0 = 1_767_225_600_000

GOOD = orjson.dumps({"vehicle_id": vin(1), "boot_id": 1, "seq": 7, "speed_kmh": [1.5, None], "gear": 3})
SEQ_OF: list[tuple[bytes | None, int | None]] = [
    (GOOD, 7),
    (b" " + GOOD + b"\n", 7),
    (GOOD.replace(b'"seq":7', b'"seq":1,"seq":7'), 7),
    (GOOD.replace(b'"gear":3', b'"gear":"x"'), 7),
    (GOOD.replace(b"[1.5,null]", b'[1.5,"2"]'), 7),
    (GOOD.replace(b'"seq":7', b'"seq":7.0'), None),
    (GOOD.replace(b'"seq":7', b'"seq":true'), None),
    (GOOD.replace(b'"seq":7', b'"seq":99999999999999999999'), None),
    (GOOD.replace(b'"gear":3', b'"gear":NaN'), None),
    (GOOD.replace(b'"gear":3', b'"gear":-Infinity'), None),
    (GOOD.replace(b'"gear":3', b'"note":1e999'), None),
    (GOOD.replace(b'"gear":3', b'"note":-2.5E+400'), None),
    (GOOD.replace(b'"gear":3', b'"note":1e-999'), 7),
    (GOOD.replace(b'"gear":3', b'"note":"\\ud800"'), None),
    (GOOD.replace(b'"gear":3', b'"note":01'), None),
    (GOOD.replace(b'"gear":3', b'"note":"\xff"'), None),
    (GOOD + GOOD, None),
    (GOOD + b"\x00}", None),
    (GOOD[:-1], None),
    (b"[1]", None),
    (b"", None),
    (None, None),
]


@settings(max_examples=50)
@given(st.data())
def test_a_payload_is_read_the_same_whatever_stands_beside_it(data: st.DataObject) -> None:
    few = data.draw(st.lists(st.sampled_from(SEQ_OF), max_size=6))
    before = data.draw(st.integers(0, 3 * SINGLY))
    mixed = [(GOOD, 7)] * before + few
    payloads = pa.array([payload for payload, _ in mixed], pa.binary())
    for table in (read(payloads), read_heads(payloads)):
        assert table["seq"].to_pylist() == [seq for _, seq in mixed]


FIELDS = ["vehicle_id", "boot_id", "seq", "gear", "speed_kmh", "ignition_on", "dtc_codes", "schema", "note"]
VALUES = [
    b"null", b"true", b"false", b"0", b"-0", b"7", b"1.5", b"7.0", b"1e3", b"1e999", b"-1e999", b"nan",
    b"NaN", b"inf", b"99999999999999999999", b"1" * 400, b'"7"', b'"true"', b'"P0001"', b'""', b'":"',
    b'","', b'"],"', b"[]", b"[1,2]", b"[1,null]", b"[null]", b"[true]", b"[1,false]", b'["1"]',
    b'[1,"2"]', b'[1,"2",3]', b"[1,]", b'["P0001"]', b'["P0001","P0002"]', b'["P0001",5]',
    b'[5,"P0001"]', b'["P0001",null]', b"[[1]]", b'[["a"]]', b"[{}]", b'[{"seq":3}]', b"{}",
    b'{"seq":3}', b'{"a":"b"}', b" 5", b'"a b"', b'"\\u0041"', b'"\\ud800"',
]  # fmt: skip
PAIR = st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(PAIR, max_size=3), min_size=1, max_size=2), st.booleans())
def test_a_large_batch_is_read_as_each_payload_alone(
    changes: list[list[tuple[str, bytes]]], comma: bool
) -> None:
    """Also where a field is there twice, of another type, or a number of a text and a text of a number."""
    plain = orjson.dumps(frame(1, 0, T0, speed_kmh=10.0, gear=3, ignition_on=True, dtc_codes=["P0001"]))
    bare = orjson.dumps({"vehicle_id": vin(1), "boot_id": 1})
    odd = [
        raw[:-1] + b"".join(b',"' + name.encode() + b'":' + value for name, value in pairs) + end
        for pairs in changes
        for raw in (plain, bare)
        for end in (b",}" if comma else b"}",)
    ]
    payloads = [plain] * SINGLY + odd
    table = read(pa.array(payloads, pa.binary()))
    alone = [read(pa.array([each], pa.binary())) for each in (plain, *odd)]
    assert table.slice(SINGLY - 1).equals(pa.concat_tables(alone).combine_chunks())


def test_a_value_of_a_wrong_type_is_not_available_and_the_others_are() -> None:
    wrong = GOOD.replace(b'"gear":3', b'"gear":"x"').replace(b"[1.5,null]", b'[1.5,"2",true]')
    row = read(pa.array([wrong], pa.binary())).to_pylist()[0]
    assert (row["seq"], row["gear"], row["speed_kmh"]) == (7, None, [1.5, None, None])


def test_two_halves_of_an_object_are_not_one_and_two_objects_are_not_two_records() -> None:
    halves = [b'{"seq":1,"x":"}', b'{","seq":2}', b'{"seq":3}{"seq":4}', b'{"seq":5}']
    payloads = pa.array(halves, pa.binary())
    for table in (read(payloads), read_heads(payloads)):
        assert table["seq"].to_pylist() == [None, None, None, 5]


@pytest.mark.slow
def test_a_digit_and_an_e_in_a_vehicle_id_are_no_exponent_wherever_a_piece_ends() -> None:
    named = GOOD.replace(vin(1).encode(), b"5E8RLMDXYF2E8EJ3E").replace(b'"gear":3', b'"note":1e-999')
    count = 3 * PIECE // len(named)
    beyond = named.replace(b"1e-999", b"1e+999")
    for padding in range(len(named)):
        payloads = [named[:-1] + b" " * padding + b"}", *[named] * count]
        heads = _heads_at_once(pa.array(payloads, pa.binary()))
        assert heads is not None
        assert heads.num_rows == len(payloads)
        payloads[-1 - PIECE // len(named)] = beyond
        assert _heads_at_once(pa.array(payloads, pa.binary())) is None


def test_a_number_of_too_many_digits_makes_a_payload_unreadable_to_every_reader() -> None:
    plain = orjson.dumps(frame(1, 0, T0, speed_kmh=10.0))
    long = plain[:-1] + b',"engine_rpm":' + b"1" * 400 + b"}"
    with_text = plain[:-1] + b',"yaw_rate_dps":"x","engine_rpm":' + b"1" * 400 + b"}"
    for payloads in ([plain, long], [with_text, plain], [plain, long, with_text] * 40):
        raw = pa.array(payloads, pa.binary())
        for table in (read(raw), read(raw, HEAD_SCHEMA), read_heads(raw)):
            seen = readable(table).tolist()
            assert seen == [each is plain for each in payloads]


def test_a_payload_nested_too_deep_is_unreadable_to_every_reader() -> None:
    plain = orjson.dumps(frame(1, 0, T0, speed_kmh=10.0))
    bearable = plain[:-1] + b',"note":' + b"[" * 1023 + b"]" * 1023 + b"}"
    deep = plain[:-1] + b',"engine_rpm":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    unknown = plain[:-1] + b',"note":' + b'{"a":' * 1024 + b"1" + b"}" * 1024 + b"}"
    beside = plain[:-1] + b',"yaw_rate_dps":"x"}'
    good = (plain, bearable, beside)
    for payloads in ([bearable], [deep], [unknown, plain], [beside, unknown], [*good, deep, unknown] * 40):
        raw = pa.array(payloads, pa.binary())
        for table in (read(raw), read(raw, HEAD_SCHEMA), read_heads(raw)):
            seen = readable(table).tolist()
            assert seen == [each in good for each in payloads]
