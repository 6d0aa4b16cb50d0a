"""Alerts from crash records that come in parts. Spark, in batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import Row, SparkSession

from infra.contract.messages import split_crash
from infra.contract.verdict import ClockLimits
from stream_jobs.rules.instant import crash_findings
from stream_jobs.rules.model import load_rules

RECORD = (Path(__file__).parents[2] / "golden" / "crash.json").read_bytes()
CRASH = orjson.loads(RECORD)
OWN, FOREIGN = CRASH["vehicle_id"].encode(), b"1HGCM82633A004353"
RECEIVED = 1_760_000_000_400
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
COLUMNS = "topic string, partition int, log_offset long, key binary, received_ms long, value string"
PLACES = [
    ((0, 0), (None, None)), ((0, 11.5), (0.0, 11.5)), ((48.1, 181), (48.1, None)), ((None, 0), (None, 0.0)),
]  # fmt: skip
BOOT, REST_BOOT, FOREIGN_BOOT = CRASH["boot_id"], 1, 2
PLACED_BOOT = 10


def of_boot(boot_id: int, **changes: Any) -> bytes:
    """The record of another boot."""
    return orjson.dumps(CRASH | {"boot_id": boot_id} | changes)


def parts(record: bytes) -> list[bytes]:
    found = split_crash(record, 4096)
    assert len(found) > 1
    return found


@pytest.fixture(scope="module")
def found(query_spark: SparkSession) -> list[Row]:
    """What all records and parts raise, each case a boot of its own: each query costs seconds."""
    messages = [(OWN, raw) for raw in (RECORD, *parts(RECORD), *parts(of_boot(REST_BOOT))[1:])]
    messages.append((FOREIGN, of_boot(FOREIGN_BOOT)))
    for boot_id, ((lat_deg, lon_deg), _) in enumerate(PLACES, PLACED_BOOT):
        messages.append((OWN, of_boot(boot_id, lat_deg=lat_deg, lon_deg=lon_deg)))
    rows = [("t", 0, k, key, RECEIVED, raw.decode()) for k, (key, raw) in enumerate(messages)]
    rules = [rule for rule in load_rules() if rule.source == "crash"]
    return crash_findings(query_spark.createDataFrame(rows, COLUMNS), rules, LIMITS).collect()


def of(found: list[Row], boot_id: int) -> list[Row]:
    return [row for row in found if row["boot_id"] == boot_id]


def test_a_record_in_parts_raises_the_alert_of_the_whole_once(found: list[Row]) -> None:
    whole, of_parts = of(found, BOOT)
    assert of_parts == whole
    assert (whole["rule"], whole["value"], whole["lat_deg"]) == ("crash_airbag", 40.0, 48.1371)


def test_a_crash_alert_is_never_at_0_0_nor_off_the_globe(found: list[Row]) -> None:
    alerts = [of(found, boot_id) for boot_id in range(PLACED_BOOT, PLACED_BOOT + len(PLACES))]
    assert [(alert["lat_deg"], alert["lon_deg"]) for (alert,) in alerts] == [told for _, told in PLACES]


def test_a_record_under_another_vehicles_key_raises_nothing(found: list[Row]) -> None:
    assert of(found, FOREIGN_BOOT) == []


def test_parts_after_the_first_raise_nothing(found: list[Row]) -> None:
    assert of(found, REST_BOOT) == []
