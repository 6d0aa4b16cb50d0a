"""Crash records and status messages: what is taken, what is refused and why."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from infra.contract import messages
from infra.contract.errors import ContractError

HEAD = {"schema": 1, "vehicle_id": "WVWZZZ1KZAW000001", "boot_id": 7, "seq": 3}


def crash(**changes: Any) -> bytes:
    record = {
        **HEAD,
        "crash_id": "c-1",
        "event_ms": 1_750_000_000_000,
        "sent_ms": 1_750_000_000_400,
        "pre_crash": {"speed_kmh": [60.0, 58.5], "brake_on": [False, True]},
        "delta_v_kmh": [0, -4, -11],
    }
    return orjson.dumps({**record, **changes})


def status(**changes: Any) -> bytes:
    message = {**HEAD, "state": "online", "at_ms": 1_750_000_000_000, "model": None}
    return orjson.dumps({**message, **changes})


def test_a_crash_record_is_read() -> None:
    assert messages.decode_crash(crash())["delta_v_kmh"] == [0, -4, -11]


def test_only_the_service_calls_a_vehicle_silent() -> None:
    with pytest.raises(ContractError, match="silent"):
        messages.decode_status(status(state="silent"))
    assert messages.decode_status(status(state="silent", since_ms=5), messages.STATUS_STATES)["since_ms"] == 5


def test_a_status_message_is_read() -> None:
    assert messages.decode_status(status(model="Corolla 2016"))["model"] == "Corolla 2016"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"x" * (messages.CRASH_MAX_BYTES + 1), "too_large"),
        (crash(schema=9), "bad_schema"),
        (crash(vehicle_id="?"), "bad_identity"),
        (crash(event_ms=None), "bad_clock"),
        (crash(crash_id=""), "bad_shape"),
        (crash(crash_id="c" * 65), "bad_shape"),
        (crash(crash_id="c\0"), "bad_shape"),
        (crash(profile="p" * 257), "bad_value"),
        (crash(delta_v_kmh=[0] * 4097), "bad_shape"),
        (crash(more={str(key): key for key in range(4097)}), "bad_shape"),
        (crash(more=[{"a\0b": 1}]), "bad_value"),
        (crash(delta_v_max_kmh=1e300), "bad_value"),
        (crash(sent_ms=253_402_300_800_000), "bad_clock"),
        (crash(more="x").replace(b'"x"', b'"\\ud800"'), "bad_json"),
        (crash(delta_v_kmh="hard"), "bad_shape"),
        (crash(pre_crash=[1]), "bad_shape"),
        (crash(pre_crash={"speed_kmh": [60.0], "brake_on": []}), "bad_shape"),
    ],
)
def test_a_broken_crash_record_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        messages.decode_crash(raw)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"x" * (messages.STATUS_MAX_BYTES + 1), "too_large"),
        (status(state="asleep"), "bad_value"),
        (status(model=4), "bad_value"),
        (status(model="m" * 65), "bad_value"),
        (status(powertrain="\0"), "bad_value"),
        (status(at_ms=-1), "bad_clock"),
    ],
)
def test_a_broken_status_message_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        messages.decode_status(raw)
    assert refused.value.reason == reason
