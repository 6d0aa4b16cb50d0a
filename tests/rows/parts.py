"""What the watch has measured: every part for 15 minutes, places in the log, sizes of folders."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from tests.rows.town import Row

PARTS = (
    # part, trouble, rate, errors, lag, saturation, cores, MiB
    ("mosquitto", None, 41.0, 0, 3, 0.000003, 0.03, 18.0),
    ("bridge", None, 40.0, 0, 20, 0.001, 0.06, 61.0),
    ("kafka", None, 42.5, None, None, None, 0.11, 702.0),
    ("jobs", None, 40.0, 0, 12, 0.00012, 0.82, 1620.0),
    ("instant", None, 38.9, None, None, None, 0.31, 1105.0),
    ("events", "database: waiting", 0.0, 4, 2, None, 0.02, 74.0),
    ("downlink", None, 0.1, 0, 0, None, 0.01, 58.0),
    ("postgres", None, 9.6, 0, None, 0.84, 0.22, 410.0),
    ("dashboard", None, 4.2, None, None, None, 0.09, 210.0),
)
GOOD = timedelta(minutes=20)
"""Long enough for a test session; the downlink's last sample is older."""


def stage_samples(now: datetime) -> list[Row]:
    """Every part each 15 s for half an hour; the downlink was not measured for the last 22 minutes."""
    return [
        _stage_sample(part, now - timedelta(seconds=15 * k + 2), k)
        for part in PARTS
        for k in range(88 if part[0] == "downlink" else 0, 120)
    ]


def _stage_sample(part: tuple[Any, ...], at: datetime, k: int) -> Row:
    name, trouble, rate, errors, lag, saturation, cores, memory_mb = part
    return {
        "stage": name,
        "at": at,
        "good_until": at + GOOD,
        "ready": trouble is None,
        "reason": trouble,
        "rate_per_s": rate * (1 + 0.2 * math.sin(k / 5)),
        "errors": errors,
        "lag": lag,
        "saturation": saturation,
        "cores": cores,
        "memory_mb": memory_mb,
        "restarts": 1 if name == "events" else 0,
    }


def partition_lags(now: datetime) -> list[Row]:
    """Two queries and the event store; ``archive`` is 600 records behind, 500 of them in partition 3."""
    behind = {"telemetry": (3, 3, 3, 3), "archive": (40, 30, 30, 500)}
    rows = [
        _place(reader, "telemetry", number, lag, now)
        for reader, lags in behind.items()
        for number, lag in enumerate(lags)
    ]
    return [*rows, _place("events", "alerts", 0, 2, now), _place("events", "alerts", 1, 0, now)]


def _place(reader: str, topic: str, partition: int, lag: int, now: datetime) -> Row:
    return {
        "reader": reader,
        "topic": topic,
        "partition": partition,
        "log_end": 90_000 + partition,
        "read_to": 90_000 + partition - lag,
        "rate_per_s": 10.0 if topic == "telemetry" else 0.1,
        "at": now,
        "good_until": now + GOOD,
    }


def storage_samples(now: datetime) -> list[Row]:
    """Two folders over a day: the archive grew by 240 MiB, the tables by 60 MiB; 20 GiB are free."""
    sizes = {"archive": (760, 1000), "data/postgres": (440, 500)}
    return [
        {
            "place": place,
            "at": now - timedelta(hours=23 * (1 - k)),
            "bytes": mib << 20,
            "free_bytes": 20 << 30,
        }
        for place, steps in sizes.items()
        for k, mib in enumerate(steps)
    ]


def maintenance_tasks(now: datetime) -> list[Row]:
    """Two that work, one that has failed for two minutes."""
    return [
        _task("jobs", "repair", now, None),
        _task("maintenance", "rollups", now, None),
        _task("maintenance", "trends", now, "UndefinedTable: no vehicle_baseline"),
    ]


def _task(process: str, name: str, now: datetime, error: str | None) -> Row:
    failing = error is not None
    return {
        "process": process, "task": name, "interval_s": 20.0, "run_at": now - timedelta(seconds=4),
        "run_s": 0.25, "success_at": now - timedelta(minutes=3 if failing else 0),
        "failures": 7 if failing else 0, "failing_since": now - timedelta(minutes=2) if failing else None,
        "error": error,
    }  # fmt: skip
