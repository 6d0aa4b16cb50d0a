"""Ground truth from a run's file in the database: once each, the last word, wrong lines named."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from infra.contract.errors import ConfigError
from infra.sql import truth
from tests.integration.events_support import rows
from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]
VIN = "WDGAAAAA5AAAAAAAA"
BEGIN = {
    "kind": "fault", "fault": "slow_leak", "fault_id": "f1", "phase": "begin", "vehicle_id": VIN,
    "from_ms": 1_760_000_000_000, "full_ms": 1_760_000_060_000, "to_ms": None, "severity": 0.7,
    "details": {"wheel": "fl"},
}  # fmt: skip
TRIP = {
    "kind": "trip", "what": "commute", "vehicle_id": VIN, "from_ms": 1_760_000_000_000,
    "to_ms": 1_760_000_900_000, "distance_m": 5120.5,
}  # fmt: skip


def written(lane: Lane, run_id: str, *lines: bytes) -> Path:
    folder = lane.home / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / truth.FILE
    path.write_bytes(b"\n".join(lines))
    return path


def test_truth_is_in_the_table_once_with_its_last_word(lane: Lane) -> None:
    ended = BEGIN | {"phase": "end", "to_ms": 1_760_000_120_000}
    half = orjson.dumps(TRIP | {"what": "half"})[:40]
    path = written(lane, "run-1", *map(orjson.dumps, (BEGIN, TRIP, ended)), half)
    url = lane.endpoints.db_ingest_url
    assert truth.load(url, "run-1", path) == 2
    assert truth.load(url, "run-1", truth.find(lane.home, "run-1")) == 2
    query = """SELECT kind, what, vehicle_id, extract(epoch FROM to_time - from_time)::int, severity, details
               FROM serving.truth ORDER BY kind"""
    assert [tuple(row.values()) for row in rows(lane, query)] == [
        ("fault", "slow_leak", VIN, 120, 0.7, {"wheel": "fl"}),
        ("trip", "commute", VIN, 900, None, {"distance_m": 5120.5}),
    ]
    assert [(t.kind, t.what, t.count) for t in truth.counts(url, "run-1")] == [
        ("fault", "slow_leak", 1), ("trip", "commute", 1),
    ]  # fmt: skip
    assert truth.counts(url, "another") == []


def test_a_line_that_is_no_truth_is_named_and_nothing_is_stored(lane: Lane) -> None:
    path = written(lane, "run-2", orjson.dumps(BEGIN), b'{"kind": "fault"}', b"")
    with pytest.raises(ConfigError, match=r"truth\.jsonl, line 2: not a row of truth"):
        truth.load(lane.endpoints.db_ingest_url, "run-2", path)
    assert rows(lane, "SELECT count(*) FROM odograph.truth WHERE run_id = 'run-2'") == [{"count": 0}]


def test_a_run_that_is_not_there_is_told(lane: Lane) -> None:
    with pytest.raises(ConfigError, match="run-3: no such run; looked for"):
        truth.find(lane.home, "run-3")
