"""Small archives: a record is (partition, offset, receive time after the hour's begin in s)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stream_jobs.archive.manifest import described
from stream_jobs.archive.writer import place

HOUR_MS = 3_600_000
TEN = 10 * HOUR_MS
"""10 o'clock on 1970-01-01."""
Row = tuple[int, int, int]


def table_of(rows: Sequence[Row], hour_ms: int = TEN, verdict: str = "ok") -> pa.Table:
    numbers = {name: pa.array([0] * len(rows), pa.int64()) for name in ("boot_id", "seq", "t0_ms", "span_ms")}
    return pa.table({
        "topic": pa.array(["odograph.telemetry"] * len(rows)),
        "partition": pa.array([row[0] for row in rows], pa.int32()),
        "log_offset": pa.array([row[1] for row in rows], pa.int64()),
        "key": pa.array([b"%d" % row[0] for row in rows], pa.binary()),
        "received_ms": pa.array([hour_ms + 1000 * row[2] for row in rows], pa.int64()),
        "value": pa.array([b"{%d}" % row[1] for row in rows], pa.binary()),
        "vehicle_id": pa.array([""] * len(rows)),
        **numbers,
        "verdict": pa.array([verdict] * len(rows)),
    })  # fmt: skip


def written(folder: Path, name: str, rows: Sequence[Row], hour_ms: int = TEN, log: str = "") -> bool:
    """Put a file into the archive as the query does, its records of the log with this identity."""
    staged = folder / ".staging" / name
    staged.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(rows, hour_ms), staged)
    return place(folder, hour_ms, staged, described(staged, name, {"odograph.telemetry": log}))


def batches(folder: Path, count: int, hour_ms: int = TEN) -> None:
    """``count`` batches of two records in each of two partitions."""
    for number in range(count):
        rows = [(p, 2 * number + k, 10 * number + k) for p in (0, 1) for k in (0, 1)]
        written(folder, f"abcdef01-{number:09d}-000.parquet", rows, hour_ms)


def offsets_in(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Partition and offset of every record of these files, in order of both."""
    tables = [pq.read_table(path, partitioning=None, columns=["partition", "log_offset"]) for path in paths]
    found = pa.concat_tables(tables).to_pylist() if tables else []
    return sorted((row["partition"], row["log_offset"]) for row in found)
