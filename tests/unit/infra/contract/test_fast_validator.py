"""The fast validator says yes only where ``frame.decode`` does: for a corpus and mutated frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.contract import frame
from infra.contract.errors import ContractError
from infra.contract.frame import validator
from infra.contract.signals import FAST, SLOW
from load_tests.mqtt_flood import frame as flood_frame
from load_tests.mqtt_flood import vehicle_id

GOLDEN = (Path(__file__).parents[3] / "golden" / "frame.json").read_bytes()
VIN = "WVWZZZ1KZAW000001"
PASSES = validator(VIN, 10)


def accepted(raw: bytes, vehicle: str = VIN) -> bool:
    """What the bridge decided before there was a fast validator."""
    try:
        return bool(frame.decode(raw)["vehicle_id"] == vehicle)
    except ContractError:
        return False


def golden(**changes: Any) -> bytes:
    return orjson.dumps(orjson.loads(GOLDEN) | changes)


def swapped(old: bytes, new: bytes) -> bytes:
    assert old in GOLDEN
    return GOLDEN.replace(old, new, 1)


SOUND = {
    "golden": GOLDEN,
    "indented": orjson.dumps(orjson.loads(GOLDEN), option=orjson.OPT_INDENT_2) + b"\n",
    "no-signals": orjson.dumps({key: orjson.loads(GOLDEN)[key] for key in frame.HEAD}),
    "nulls": golden(**{s.name: None for s in (*FAST, *SLOW)}),
    "null-samples": golden(speed_kmh=[None] * 10),
    "whole-numbers": golden(speed_kmh=[1] * 10, coolant_temp_c=-3),
    "exponents": swapped(b"50.25", b"5.025E+1"),
    "tiny": swapped(b"50.25", b"1e-400"),
    "integer-beyond-64-bits-as-a-signal": swapped(b"50.25", b"123456789012345678901234567890"),
    "largest-seq": golden(seq=2**53),
    "no-codes": golden(dtc_codes=[]),
    "codes": golden(dtc_codes=["P0301", ""]),
    "as-many-codes-as-may-be": golden(dtc_codes=["P" * 16] * 64),
    "minus-zero-seq": swapped(b'"seq":42', b'"seq":-0'),
    "sound-duplicate": swapped(b'"seq":42', b'"seq":1,"seq":42'),
}
DECIDED_BY_DECODE = {
    "unknown-key": golden(new_signal={"a": [1, "x", None]}),
    "escape": golden(dtc_codes=['"']),
    "not-ascii": golden(dtc_codes=["\u00fc"]),
    "escaped-key": swapped(b'"seq"', b'"\\u0073eq"'),
    "other-samples": golden(n=1, **{s.name: [1.0] for s in FAST}),
    "wrong-then-right": swapped(b'"seq":42', b'"seq":"x","seq":42'),
    "unknown-twice": golden(new_signal=1)[:-1] + b',"new_signal":2}',
}
HEADS = {key: (-1, 2**53 + 1, 10**25, 1.0, 7.5, True, None, "7", [], {}) for key in frame.HEAD[2:]}
REFUSED = {
    **{
        f"{key}={value!r}": golden(**{key: value})
        for key, values in HEADS.items()
        for value in values
        if not (isinstance(value, int) and value > 2**64)
    },
    **{
        f"{key}-missing": orjson.dumps({k: v for k, v in orjson.loads(GOLDEN).items() if k != key})
        for key in frame.HEAD
    },
    **{f"schema={value!r}": golden(schema=value) for value in (0, 2, 1.0, True, "1", None)},
    **{
        f"vehicle={value!r}": golden(vehicle_id=value)
        for value in (VIN.lower(), VIN + "\n", VIN[:-1], 7, None)
    },
    "seq-beyond-64-bits": swapped(b'"seq":42', b'"seq":123456789012345678901234567890'),
    "dt-0": golden(dt_ms=0),
    "dt-over": golden(dt_ms=60_001),
    "n-0": golden(n=0),
    "n-over": golden(n=101),
    "nan": swapped(b"50.25", b"NaN"),
    "infinity": swapped(b"50.25", b"-Infinity"),
    "overflow": swapped(b"50.25", b"1e400"),
    "overflow-in-unknown": golden(z=1)[:-2] + b"1e400}",
    "leading-zero": swapped(b"50.25", b"050"),
    "plus": swapped(b"50.25", b"+5"),
    "dot": swapped(b"50.25", b"5."),
    "bare-dot": swapped(b"50.25", b".5"),
    "hex": swapped(b"50.25", b"0x5"),
    "bare-minus": swapped(b"50.25", b"-"),
    "comma-in-array": swapped(b"52.25]", b"52.25,]"),
    "comma-in-object": GOLDEN[:-1] + b",}",
    "comment": GOLDEN[:-1] + b"/* */}",
    "single-quotes": GOLDEN.replace(b'"', b"'"),
    "trailing": GOLDEN + b"x",
    "two": GOLDEN + GOLDEN,
    "cut": GOLDEN[:-1],
    "empty": b"",
    "bom": b"\xef\xbb\xbf" + GOLDEN,
    "nul": GOLDEN + b"\0",
    "utf-16": GOLDEN.decode().encode("utf-16"),
    "bool-as-sample": golden(speed_kmh=[True] * 10),
    "text-as-sample": golden(speed_kmh=["1"] * 10),
    "nested-sample": golden(speed_kmh=[[1]] * 10),
    "short-array": golden(speed_kmh=[1.0] * 9),
    "long-array": golden(speed_kmh=[1.0] * 11),
    "no-array": golden(speed_kmh=1.0),
    "array-object": golden(speed_kmh={}),
    "bool-as-number": golden(coolant_temp_c=True),
    "text-as-number": golden(coolant_temp_c="88"),
    "number-as-flag": golden(ignition_on=1),
    "zero-as-flag": golden(ignition_on=0.0),
    "text-as-flag": golden(ignition_on="true"),
    "code-as-number": golden(dtc_codes=[1]),
    "code-too-long": golden(dtc_codes=["P" * 17]),
    "codes-too-many": golden(dtc_codes=["P0301"] * 65),
    "nul-in-code": golden(dtc_codes=["P\0"]),
    "codes-as-text": golden(dtc_codes="P0301"),
    "null-code": golden(dtc_codes=[None]),
    "bad-utf8-in-code": golden(dtc_codes=["X"]).replace(b'"X"', b'"\xff"'),
    "surrogate-bytes-in-code": golden(dtc_codes=["X"]).replace(b'"X"', b'"\xed\xa0\x80"'),
    "overlong-in-code": golden(dtc_codes=["X"]).replace(b'"X"', b'"\xc0\xaf"'),
    "lone-surrogate-in-code": golden(dtc_codes=["X"]).replace(b'"X"', b'"\\udc00"'),
    "control-in-code": golden(dtc_codes=["X"]).replace(b'"X"', b'"\x01"'),
    "bad-utf8-in-unknown": golden(zz="X").replace(b'"X"', b'"\xff"'),
    "bad-utf8-in-unknown-key": golden(zz="X").replace(b'"zz"', b'"\xff"'),
    "lone-surrogate-in-unknown": golden(zz="X").replace(b'"X"', b'"\\ud800"'),
    "bad-escape-in-unknown": golden(zz="X").replace(b'"X"', b'"\\x41"'),
    "nan-in-unknown": golden(zz="X").replace(b'"X"', b"NaN"),
    "deep": golden(zz="X").replace(b'"X"', b"[" * 5000 + b"]" * 5000),
    "deep-in-signal": golden(speed_kmh="X").replace(b'"X"', b"[" * 5000 + b"]" * 5000),
    "wrong-duplicate": swapped(b'"seq":42', b'"seq":42,"seq":"x"'),
    "duplicate-column": GOLDEN[:-1] + b',"speed_kmh":[1]}',
    "too-large": GOLDEN + b" " * frame.MAX_BYTES,
    "array": b"[]",
    "null": b"null",
    "number": b"1",
    "text": b'"x"',
}


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_sound_frame_passes(name: str) -> None:
    assert accepted(SOUND[name])
    assert PASSES(SOUND[name])


@pytest.mark.parametrize("name", sorted(DECIDED_BY_DECODE))
def test_what_the_gate_does_not_know_is_sound_and_left_to_decode(name: str) -> None:
    assert accepted(DECIDED_BY_DECODE[name])
    assert not PASSES(DECIDED_BY_DECODE[name])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_decode_refuses_does_not_pass(name: str) -> None:
    assert not accepted(REFUSED[name])
    assert not PASSES(REFUSED[name])


def test_a_sound_frame_of_another_vehicle_does_not_pass() -> None:
    assert not validator("WVWZZZ1KZAW000002", 10)(GOLDEN)


@pytest.mark.parametrize("samples", [0, 1, 100, 101])
def test_the_bounds_of_the_sample_count_are_those_of_decode(samples: int) -> None:
    raw = golden(n=samples, **{s.name: [1.0] * samples for s in FAST})
    assert validator(VIN, samples)(raw) == accepted(raw) == (1 <= samples <= 100)


def test_the_frames_of_the_rate_measurement_pass() -> None:
    assert validator(vehicle_id(3))(flood_frame(3, 9, 1_700_000_000_000))


JUNK = (
    b'NaN 1e999 - 0 1.0 true null "" [] {} " \\ \\u0000 \xff \xc3\xbc [[[[ , : } ] "x":1, "seq":2, 1E999'
).split()


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GOLDEN)),
            st.integers(0, 6),
            st.one_of(st.sampled_from(JUNK), st.binary(max_size=3)),
        ),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=600)
def test_no_mutation_passes_that_decode_refuses(cuts: list[tuple[int, int, bytes]]) -> None:
    raw = GOLDEN
    for at, gone, put in cuts:
        raw = raw[:at] + put + raw[at + gone :]
    if PASSES(raw):
        assert accepted(raw), raw


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from([*frame.HEAD, *(s.name for s in (*FAST, *SLOW)), "unknown"]), VALUES, max_size=3
    )
)
@settings(max_examples=100)
def test_no_replaced_value_passes_that_decode_refuses(changes: dict[str, Any]) -> None:
    raw = golden(**changes)
    if PASSES(raw):
        assert accepted(raw), raw
