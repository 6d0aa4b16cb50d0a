"""The frame: what is taken, what is refused and why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.contract import frame
from infra.contract.errors import ContractError
from infra.contract.frame import MAX_INT
from infra.contract.signals import FAST, SLOW

GOLDEN = Path(__file__).parents[3] / "golden" / "frame.json"
VIN = "WVWZZZ1KZAW000001"


def small(**changes: Any) -> dict[str, Any]:
    head = {
        "schema": 1,
        "vehicle_id": VIN,
        "boot_id": 7,
        "seq": 42,
        "t0_ms": 1_750_000_000_000,
        "dt_ms": 100,
        "n": 2,
        "sent_ms": 1_750_000_000_250,
    }
    return {**head, "speed_kmh": [50.0, 50.1], "coolant_temp_c": 87.5, "ignition_on": True, **changes}


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in small().items() if k != key}


def reason_for(raw: bytes) -> str:
    with pytest.raises(ContractError) as refused:
        frame.decode(raw)
    return refused.value.reason


def test_the_golden_frame_is_read_and_written_byte_for_byte() -> None:
    raw = GOLDEN.read_bytes()
    decoded = frame.decode(raw)
    assert frame.encode(decoded) == raw
    assert (decoded["vehicle_id"], decoded["boot_id"], decoded["seq"]) == (VIN, 7, 42)
    assert decoded["speed_kmh"][:2] == [50.0, 50.25]
    assert set(decoded) == {*frame.HEAD, *(s.name for s in FAST), *(s.name for s in SLOW)}


@given(
    speeds=st.lists(st.none() | st.floats(0, 250), min_size=1, max_size=frame.MAX_SAMPLES),
    coolant=st.none() | st.floats(-40, 215),
    codes=st.none() | st.lists(st.from_regex(r"[PCBU][0-3][0-9A-F]{3}", fullmatch=True), max_size=5),
    seq=st.integers(0, MAX_INT),
)
def test_what_was_encoded_is_decoded_again(
    speeds: list[float | None], coolant: float | None, codes: list[str] | None, seq: int
) -> None:
    sent = small(n=len(speeds), speed_kmh=speeds, coolant_temp_c=coolant, dtc_codes=codes, seq=seq)
    assert frame.decode(frame.encode(sent)) == sent


def test_an_absent_signal_and_a_null_are_both_allowed() -> None:
    assert frame.decode(frame.encode(small(speed_kmh=None)))["speed_kmh"] is None
    assert "speed_kmh" not in frame.decode(frame.encode(without("speed_kmh")))


def test_an_unknown_key_is_kept() -> None:
    assert frame.decode(frame.encode(small(lidar_points=3)))["lidar_points"] == 3


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"x" * (frame.MAX_BYTES + 1), "too_large"),
        (b"", "bad_json"),
        (b"[1, 2]", "bad_json"),
        (b"{", "bad_json"),
        (b'{"schema": 1, "speed_kmh": [NaN]}', "bad_json"),
        (b'{"vehicle_id": "\xff\xfe"}', "bad_json"),
        (b"[" * 2000 + b"]" * 2000, "bad_json"),
    ],
)
def test_bytes_that_are_no_small_json_object_are_refused(raw: bytes, reason: str) -> None:
    assert reason_for(raw) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "bad_schema"),
        ({"schema": True}, "bad_schema"),
        ({"schema": None}, "bad_schema"),
        ({"vehicle_id": "short"}, "bad_identity"),
        ({"vehicle_id": 17}, "bad_identity"),
        ({"vehicle_id": VIN + "\n"}, "bad_identity"),
        ({"boot_id": -1}, "bad_identity"),
        ({"seq": 1.0}, "bad_identity"),
        ({"seq": True}, "bad_identity"),
        ({"seq": 2**53 + 1}, "bad_identity"),
        ({"t0_ms": -1}, "bad_clock"),
        ({"t0_ms": "now"}, "bad_clock"),
        ({"sent_ms": None}, "bad_clock"),
        ({"dt_ms": 0}, "bad_clock"),
        ({"dt_ms": 60_001}, "bad_clock"),
        ({"n": 0}, "bad_shape"),
        ({"n": 101}, "bad_shape"),
        ({"n": 3}, "bad_shape"),
        ({"speed_kmh": 50.0}, "bad_shape"),
        ({"speed_kmh": [50.0]}, "bad_shape"),
        ({"speed_kmh": [50.0, "fast"]}, "bad_value"),
        ({"speed_kmh": [50.0, True]}, "bad_value"),
        ({"coolant_temp_c": "hot"}, "bad_value"),
        ({"coolant_temp_c": [87.0]}, "bad_value"),
        ({"coolant_temp_c": False}, "bad_value"),
        ({"ignition_on": 1}, "bad_value"),
        ({"ignition_on": "on"}, "bad_value"),
        ({"dtc_codes": "P0128"}, "bad_value"),
        ({"dtc_codes": [128]}, "bad_value"),
    ],
)
def test_a_frame_that_breaks_the_contract_is_refused_with_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    assert reason_for(orjson.dumps(small(**changes))) == reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("schema", "bad_schema"),
        ("vehicle_id", "bad_identity"),
        ("boot_id", "bad_identity"),
        ("seq", "bad_identity"),
        ("t0_ms", "bad_clock"),
        ("dt_ms", "bad_clock"),
        ("sent_ms", "bad_clock"),
        ("n", "bad_shape"),
    ],
)
def test_each_key_of_the_head_must_be_there(key: str, reason: str) -> None:
    assert reason_for(orjson.dumps(without(key))) == reason


def test_a_number_that_is_not_finite_never_reaches_the_wire() -> None:
    assert orjson.loads(frame.encode(small(coolant_temp_c=math.inf)))["coolant_temp_c"] is None
