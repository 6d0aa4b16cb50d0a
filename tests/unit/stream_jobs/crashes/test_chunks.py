"""Crash records put together from their parts; the database's side is in tests/integration/test_events.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.clients.kafka import Record
from infra.contract.errors import ContractError
from infra.contract.messages import FIGURES, PART_HEAD, split_crash
from infra.contract.verdict import ClockLimits
from stream_jobs.crashes.chunks import assembled, part_row
from stream_jobs.events.writes import sort_out
from stream_jobs.rules.instant import CRASH

RECORD = (Path(__file__).parents[3] / "golden" / "crash.json").read_bytes()
CLOCKS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=0)
AT_MS = 1_760_000_000_400


def rows(record: bytes = RECORD, *changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Stored parts as the database gives them; ``changes`` are made to the messages in their order."""
    found = []
    for k, raw in enumerate(split_crash(record, 4096)):
        message = orjson.loads(raw) | (changes[k] if k < len(changes) else {})
        value = orjson.dumps(message)
        kafka = Record("crash", 0, k, AT_MS + 10 * k, value, {"mqtt_topic": "a/b/crash"}, "")
        row = part_row(kafka, CLOCKS)
        assert row is not None
        found.append(row)
    return found


def reason_of(parts: list[dict[str, Any]]) -> str:
    with pytest.raises(ContractError) as refused:
        assembled(parts, CLOCKS)
    return refused.value.reason


def test_a_part_becomes_a_row_with_its_message_as_received() -> None:
    first, second, _ = rows()
    assert (first["part"], first["parts"], first["crash_id"]) == (0, 3, "c-1")
    assert (second["received_ms"], second["event_ms"]) == (AT_MS + 10, 1_760_000_000_000)
    assert first["mqtt_topic"] == "a/b/crash"
    assert first["message"].encode() == split_crash(RECORD, 4096)[0]


def test_a_whole_record_is_no_part() -> None:
    assert part_row(Record("crash", 0, 0, AT_MS, RECORD, {}), CLOCKS) is None
    raws = [RECORD, *split_crash(RECORD, 4096)]
    batch = sort_out([Record("crash", 0, k, AT_MS, raw, {}) for k, raw in enumerate(raws)], CLOCKS)
    assert (len(batch.crashes), len(batch.crash_parts), batch.rejected) == (1, 3, [])


def test_a_whole_set_gives_the_row_of_its_record() -> None:
    row = assembled(rows(), CLOCKS)
    assert row["record"] == orjson.loads(RECORD)
    assert (row["hash_ok"], row["complete"], row["delta_v_max_kmh"]) == (True, True, -40)
    assert (row["event_ms"], row["received_ms"]) == (1_760_000_000_000, AT_MS + 20)


def test_a_set_whose_digest_differs_is_refused() -> None:
    assert reason_of(rows(RECORD, {}, {"data": "x"})) == "bad_digest"


def test_a_set_whose_parts_claim_another_crash_than_the_record_is_refused() -> None:
    assert reason_of(rows(RECORD, *[{"crash_id": "c-2"}] * 3)) == "bad_identity"
    assert reason_of(rows(RECORD, {"seq": 99})) == "bad_identity"


def test_a_set_that_gives_no_crash_record_is_refused() -> None:
    broken = orjson.dumps(orjson.loads(RECORD) | {"pre_crash": "none"})
    assert reason_of(rows(broken)) == "bad_shape"
    nested = orjson.dumps(orjson.loads(split_crash(RECORD, 4096)[0]) | {"padding": ["x" * 200] * 25})
    assert reason_of(rows(nested)) == "bad_shape"


def test_part_0_tells_all_that_rules_may_look_at() -> None:
    seen = set(CRASH.fieldNames()) - {"part"}
    assert seen <= {*PART_HEAD, "event_ms", *FIGURES}
