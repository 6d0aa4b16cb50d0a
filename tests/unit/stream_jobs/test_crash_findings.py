"""Alerts from crash records that come in parts. Spark, in batch."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pyspark.sql import Row, SparkSession

from infra.contract.messages import split_crash
from infra.contract.verdict import ClockLimits
from stream_jobs.rules.instant import crash_findings
from stream_jobs.rules.model import load_rules

RECORD = (Path(__file__).parents[2] / "golden" / "crash.json").read_bytes()
PARTS = split_crash(RECORD, 4096)
RECEIVED = 1_760_000_000_400
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
COLUMNS = "topic string, partition int, log_offset long, key binary, received_ms long, value string"


@pytest.fixture(scope="module", name="spark")
def as_the_query_runs(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own


def alerts_of(spark: SparkSession, messages: list[bytes], key: str | None = None) -> list[Row]:
    own = (key or orjson.loads(RECORD)["vehicle_id"]).encode()
    rows = [("t", 0, k, own, RECEIVED, raw.decode()) for k, raw in enumerate(messages)]
    rules = [rule for rule in load_rules() if rule.source == "crash"]
    return crash_findings(spark.createDataFrame(rows, COLUMNS), rules, LIMITS).collect()


def test_a_record_in_parts_raises_the_alert_of_the_whole_once(spark: SparkSession) -> None:
    (whole,) = alerts_of(spark, [RECORD])
    (of_parts,) = alerts_of(spark, PARTS)
    assert of_parts == whole
    assert (whole["rule"], whole["value"], whole["lat_deg"]) == ("crash_airbag", 40.0, 48.1371)


@pytest.mark.parametrize(
    ("given", "told"),
    [((0, 0), (None, None)), ((0, 11.5), (0.0, 11.5)), ((48.1, 181), (48.1, None)), ((None, 0), (None, 0.0))],
)
def test_a_crash_alert_is_never_at_0_0_nor_off_the_globe(
    spark: SparkSession, given: tuple[float, float], told: tuple[float, float]
) -> None:
    crash = orjson.loads(RECORD) | dict(zip(("lat_deg", "lon_deg"), given, strict=True))
    (alert,) = alerts_of(spark, [orjson.dumps(crash)])
    assert (alert["lat_deg"], alert["lon_deg"]) == told


def test_a_record_under_another_vehicles_key_raises_nothing(spark: SparkSession) -> None:
    assert alerts_of(spark, [RECORD], key="1HGCM82633A004353") == []


def test_parts_after_the_first_raise_nothing(spark: SparkSession) -> None:
    assert alerts_of(spark, PARTS[1:]) == []
