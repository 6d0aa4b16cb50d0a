"""What a stream application writes beside its tables: the archive."""

from __future__ import annotations

import duckdb

from tests.support import Lane


def archive_of(lane: Lane) -> str:
    return f"read_parquet('{lane.home}/archive/telemetry/date=*/hour=*/*.parquet', hive_partitioning = false)"


def has_archive(lane: Lane) -> bool:
    return any((lane.home / "archive" / "telemetry").glob("date=*/hour=*/*.parquet"))


def archive_copies(lane: Lane) -> int:
    """Records in the archive beyond one for each Kafka coordinate."""
    sql = f"SELECT count(*) - count(DISTINCT (partition, log_offset)) FROM {archive_of(lane)}"
    return int(duckdb.sql(sql).fetchall()[0][0])
