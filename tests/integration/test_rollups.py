"""Minutes, hours and days on a real database: equal to what all samples of the bucket give, bit by bit."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from load_tests.oracle import Expected, expect, expect_rollup
from stream_jobs import windows
from stream_jobs.rollups.keeper import RollUps
from stream_jobs.sinks import VEHICLE, Database, restate_windows, write_windows
from tests.integration.stream_support import drive, query, spoilt
from tests.support import Lane
from tests.support_frames import Record

pytestmark = pytest.mark.integration

SUMMER_TIME_ENDS_MS = 1_792_890_000_000
"""2026-10-25 01:00:00 UTC: Berlin lives its third hour a second time."""


@pytest.fixture
def database(lane: Lane) -> Iterable[Database]:
    opened = Database(lane.endpoints.db_ingest_url, "rollups", threading.Event())
    yield opened
    opened.close()


def table_of(expected: Expected, keys: Iterable[tuple[str, datetime]]) -> pa.Table:
    rows = [{"vehicle_id": k[0], "window_start": k[1], "batch_id": 1} | expected.vehicle[k] for k in keys]
    return pa.Table.from_pylist(rows).select([*windows.VEHICLE_COLUMNS, "batch_id"])


def stored(lane: Lane, unit: str) -> dict[tuple[str, datetime], dict[str, Any]]:
    rows = query(lane, f"SELECT * FROM odograph.vehicle_{unit}")
    return {(row.pop("vehicle_id"), row.pop("bucket")): row for row in rows}


def assert_levels(lane: Lane, records: list[Record], tz: str) -> None:
    for unit in ("minute", "hour", "day"):
        assert stored(lane, unit) == expect_rollup(records, unit, tz), unit


def test_every_level_equals_all_its_samples_and_follows_what_is_written_again(
    lane: Lane, database: Database
) -> None:
    records = spoilt(drive(range(1, 4), SUMMER_TIME_ENDS_MS - 40_000, 120, seed=7), seed=8)
    in_time = expect(records, repaired=False)
    roll_up = RollUps(database, "Europe/Berlin")
    database.run(lambda c: write_windows(c, VEHICLE, table_of(in_time, in_time.vehicle)))
    assert roll_up() > 0

    whole = expect(records)
    changed = [k for k in whole.vehicle if whole.vehicle[k] != in_time.vehicle.get(k)]
    assert 0 < len(changed) < len(whole.vehicle)
    database.run(lambda c: restate_windows(c, VEHICLE, table_of(whole, changed)))
    minutes = {(vehicle, start.replace(second=0)) for vehicle, start in changed}
    assert roll_up() == len(minutes)
    assert_levels(lane, records, "Europe/Berlin")
    assert roll_up() == 0

    assert RollUps(database, "Asia/Kolkata")() > 0
    assert_levels(lane, records, "Asia/Kolkata")
