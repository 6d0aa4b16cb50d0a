"""Literal records past the transforms of windows: what Spark makes of them as rows by key."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from infra.contract.verdict import ClockLimits
from stream_jobs import windows
from stream_jobs.archive_files import indexed
from stream_jobs.frames.identity import batch_frames
from stream_jobs.windows import Lengths
from tests.support_frames import Record

T0 = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC"""
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
LENGTHS = Lengths(window_s=10, road_window_s=60, watermark_s=60)
Row = dict[str, Any]


def archived(spark: SparkSession, records: list[Record]) -> DataFrame:
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["telemetry"] * len(records),
            "partition": pa.array([0] * len(records), pa.int32()),
            "log_offset": pa.array(range(len(records)), pa.int64()),
            "key": pa.array([None] * len(records), pa.binary()),
            "received_ms": pa.array([r[0] for r in records], pa.int64()),
            "value": pa.array([r[1] for r in records], pa.binary()),
        }
    )
    return spark.createDataFrame(indexed(batch, LIMITS))


def windows_of(records: DataFrame) -> DataFrame:
    return windows.all_windows(batch_frames(records, LENGTHS), LENGTHS)


def keyed(rows: pa.Table, *key: str) -> dict[Any, Row]:
    """Rows by ``key`` and the begin of their window."""
    names = (*key, "window_start")
    return {tuple(row.pop(name) for name in names): row for row in rows.to_pylist()}


def window_rows(records: DataFrame) -> dict[tuple[str, datetime], Row]:
    return keyed(windows.vehicle_windows(windows_of(records)).toArrow(), "vehicle_id")


def road_rows(records: DataFrame) -> dict[tuple[str, int, datetime], Row]:
    return keyed(windows.road_windows(windows_of(records)).toArrow(), "cell", "heading_sector")


def received(payload: Row, after_ms: int = 1500) -> Record:
    return payload["t0_ms"] + after_ms, orjson.dumps(payload)
