"""Literal records as the archive holds them, and the rows of windows that follow from them, by key."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from infra.contract.verdict import ClockLimits
from infra.settings.sections import Jobs
from load_tests.archived import archived_windows
from stream_jobs.archive.writer import indexed
from stream_jobs.roads.network import RoadLookup
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.fleet import Fleet, dump, load
from stream_jobs.windows.open_windows import Memory
from stream_jobs.windows.places import place_rows, summed
from tests.support_frames import Record

T0 = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC"""
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
JOBS = Jobs(publish_s=2)
Row = dict[str, Any]


def key_of(payload: bytes) -> bytes | None:
    """The key that the bridge gives a record: its vehicle."""
    try:
        named = orjson.loads(payload)["vehicle_id"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return named.encode() if isinstance(named, str) else None


def recorded(records: list[Record]) -> pa.RecordBatch:
    """Records as Kafka holds them."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["telemetry"] * len(records),
            "partition": pa.array([0] * len(records), pa.int32()),
            "log_offset": pa.array(range(len(records)), pa.int64()),
            "key": pa.array([key_of(r[1]) for r in records], pa.binary()),
            "received_ms": pa.array([r[0] for r in records], pa.int64()),
            "value": pa.array([r[1] for r in records], pa.binary()),
        }
    )


def archived(records: list[Record]) -> pa.Table:
    """Records as the archive holds them."""
    return indexed(recorded(records), LIMITS)


def windows_of(records: pa.Table, roads: RoadLookup | None = None) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Rows of vehicles, road cells and edges."""
    vehicle, shares = archived_windows(records, JOBS, LIMITS, roads)
    return vehicle, *place_rows(summed(shares), JOBS.road_window_s)


def keyed(rows: pa.Table, *key: str) -> dict[Any, Row]:
    """Rows by ``key`` and the begin of their window."""
    names = (*key, "window_start")
    return {tuple(row.pop(name) for name in names): row for row in rows.to_pylist()}


def window_rows(records: pa.Table) -> dict[tuple[str, datetime], Row]:
    return keyed(windows_of(records)[0], "vehicle_id")


def road_rows(records: pa.Table) -> dict[tuple[str, int, datetime], Row]:
    return keyed(windows_of(records)[1], "cell", "heading_sector")


def received(payload: Row, after_ms: int = 1500) -> Record:
    return payload["t0_ms"] + after_ms, orjson.dumps(payload)


class Kept:
    """What a bucket remembers, between calls of the operator."""

    def __init__(self) -> None:
        self.blob: bytes | None = None

    def load(self, rule_set: RuleSet) -> tuple[Fleet, Memory]:
        return load(self.blob, rule_set)

    def save(self, fleet: Fleet, memory: Memory, due_ms: int) -> None:
        assert due_ms > 0
        self.blob = dump(fleet, memory)

    def remove(self) -> None:
        self.blob = None
