"""Crash records in parts: cut, checked, put together; and the golden payloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.contract import messages
from infra.contract.errors import ContractError
from infra.contract.messages import join_crash, split_crash

GOLDEN = Path(__file__).parents[3] / "golden" / "crash.json"
GOLDEN_PARTS = GOLDEN.with_name("crash_parts.jsonl")
RECORD = GOLDEN.read_bytes()


def parts_of(record: bytes, chunk_bytes: int) -> list[dict[str, Any]]:
    return [messages.decode_crash(raw) for raw in split_crash(record, chunk_bytes)]


def test_the_golden_record_is_cut_into_the_golden_parts_and_joined_again() -> None:
    parts = split_crash(RECORD, 4096)
    assert parts == GOLDEN_PARTS.read_bytes().splitlines()
    read = [orjson.loads(part) for part in parts]
    assert join_crash([part["data"] for part in read], read[0]["sha256"]) == RECORD


def test_a_record_that_fits_travels_whole() -> None:
    assert split_crash(RECORD, len(RECORD)) == [RECORD]


@given(chunk_bytes=st.integers(1024, 20_000), text=st.text(min_size=0, max_size=3000))
def test_parts_of_any_size_give_the_record_back(chunk_bytes: int, text: str) -> None:
    record = orjson.dumps(orjson.loads(RECORD) | {"note": text})
    parts = parts_of(record, chunk_bytes)
    if len(parts) > 1:
        assert [part["part"] for part in parts] == list(range(len(parts)))
        assert {part["parts"] for part in parts} == {len(parts)}
        assert join_crash([part["data"] for part in parts], parts[0]["sha256"]) == record


def test_part_0_alone_repeats_the_figures_and_none_the_long_tables() -> None:
    whole = orjson.loads(RECORD)
    first, *rest = parts_of(RECORD, 4096)
    assert {key: first[key] for key in messages.FIGURES} == {key: whole[key] for key in messages.FIGURES}
    assert "pre_crash" not in first
    for part in rest:
        assert set(part) == {*messages.PART_HEAD, *messages.CLOCKS, *messages.PART_KEYS}


def test_a_part_is_hardly_larger_than_asked_for() -> None:
    assert max(map(len, split_crash(RECORD, 4096))) < 4096 + 1500


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"part": 3}, "bad_shape"),
        ({"part": -1}, "bad_shape"),
        ({"part": None}, "bad_shape"),
        ({"parts": 0}, "bad_shape"),
        ({"parts": 257}, "bad_shape"),
        ({"sha256": "A" * 64}, "bad_shape"),
        ({"sha256": "ab"}, "bad_shape"),
        ({"data": None}, "bad_shape"),
        ({"crash_id": ""}, "bad_shape"),
        ({"event_ms": "now"}, "bad_clock"),
        ({"vehicle_id": "?"}, "bad_identity"),
        ({"schema": 2}, "bad_schema"),
    ],
)
def test_a_broken_part_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    part = parts_of(RECORD, 4096)[0] | change
    with pytest.raises(ContractError) as refused:
        messages.decode_crash(orjson.dumps(part))
    assert refused.value.reason == reason


def test_parts_that_are_not_those_of_the_digest_are_told() -> None:
    parts = parts_of(RECORD, 4096)
    slices = [part["data"] for part in parts]
    with pytest.raises(ContractError) as refused:
        join_crash([slices[1], slices[0], *slices[2:]], parts[0]["sha256"])
    assert refused.value.reason == "bad_digest"
