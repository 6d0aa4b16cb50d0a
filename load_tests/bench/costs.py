"""What a frame costs on disk: in the log, in the archive, in the database with its indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from infra.clients.db import session
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of

_SIZES = """
SELECT pg_database_size(current_database()) AS database,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal,
       (SELECT count(*) FROM odograph.vehicle_window) AS windows,
       (SELECT table_bytes FROM hypertable_detailed_size('odograph.vehicle_window')) AS window_table,
       (SELECT index_bytes FROM hypertable_detailed_size('odograph.vehicle_window')) AS window_index,
       (SELECT count(*) FROM odograph.road_cell_window) AS road_windows,
       hypertable_size('odograph.road_cell_window') AS road_table
"""
_TABLES = """
SELECT name, sum(bytes)::bigint AS bytes FROM (
    SELECT format('%s.%s', hypertable_schema, hypertable_name) AS name,
           hypertable_size(format('%I.%I', hypertable_schema, hypertable_name)::regclass) AS bytes
    FROM timescaledb_information.hypertables
    UNION ALL
    SELECT format('%s.%s', n.nspname, c.relname), pg_total_relation_size(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND n.nspname NOT LIKE '\\_timescaledb%' AND n.nspname NOT LIKE 'pg\\_%'
) AS sized GROUP BY name
"""
"""Every table with its indexes and chunks; a hypertable's own relation is empty."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on disk, and rows, at one moment."""

    log: int
    archive: int
    database: int
    wal: int
    windows: int
    window_table: int
    window_index: int
    road_windows: int
    road_table: int
    tables: Counter[str]
    folders: Counter[str]
    """By folder of the home's ``data``, and of the home itself."""

    def __sub__(self, before: Sizes) -> Sizes:
        """What came in between."""
        return Sizes(**{f.name: _less(getattr(self, f.name), getattr(before, f.name)) for f in fields(self)})


def _less(now: Any, before: Any) -> Any:
    if isinstance(now, Counter):
        now.subtract(before)
        return now
    return now - before


def _folders(home: Path) -> Counter[str]:
    sized: Counter[str] = Counter()
    for place in (*home.glob("data/*/"), *home.glob("[!d]*/")):
        for path in place.rglob("*"):
            with suppress(OSError):  # it has gone meanwhile
                sized[str(place.relative_to(home))] += path.lstat().st_blocks * 512
    return sized


def sizes(home: Path, settings: Settings, endpoints: Endpoints) -> Sizes:
    """What lies there now; the log is 0 where Kafka is not of this home."""
    topic = kafka_topic(settings.kafka.prefix, "telemetry")
    segments = home.glob(f"data/kafka/log/{topic}-*/*.log")
    files = [file.path for file in reader.files(archive_of(home))]
    with session(endpoints.db_owner_url, row_factory=psycopg.rows.dict_row) as connection:
        row: dict[str, Any] = connection.execute(_SIZES).fetchone() or {}
        tables = Counter({one["name"]: int(one["bytes"]) for one in connection.execute(_TABLES)})
    known = {name: int(value or 0) for name, value in row.items()}
    return Sizes(
        log=sum(path.stat().st_size for path in segments),
        archive=sum(path.stat().st_size for path in files),
        tables=tables,
        folders=_folders(home),
        **known,
    )


def payload_bytes(home: Path) -> float:
    """Mean size of a frame as the vehicle sent it; NaN without an archive."""
    files = reader.paths(archive_of(home))
    if not files:
        return float("nan")
    with duckdb.connect(config={"threads": 1}) as connection:
        sql = "SELECT avg(octet_length(value)) FROM read_parquet(?, hive_partitioning = false)"
        row = connection.execute(sql, [files]).fetchone()
    return float(row[0]) if row and row[0] is not None else float("nan")


@dataclass(frozen=True, slots=True)
class Costs:
    """Bytes a frame in each place, and bytes a row of the windows' table with its indexes."""

    payload: float
    log: float
    archive: float
    database: float
    wal: float
    window_row: float
    window_row_index_share: float
    road_row: float
    windows: int
    road_windows: int
    samples_a_frame: int
    tables: Mapping[str, float] = field(default_factory=dict)
    folders: Mapping[str, float] = field(default_factory=dict)


def costs(grown: Sizes, frames: int, payload: float, samples: int) -> Costs:
    """From what the sizes grew by while ``frames`` came in."""
    per = max(1, frames)
    windows, roads = max(1, grown.windows), max(1, grown.road_windows)
    return Costs(
        payload=round(payload, 1),
        log=round(grown.log / per, 1),
        archive=round(grown.archive / per, 1),
        database=round(grown.database / per, 1),
        wal=round(grown.wal / per, 1),
        window_row=round((grown.window_table + grown.window_index) / windows, 1),
        window_row_index_share=round(grown.window_index / max(1, grown.window_table + grown.window_index), 2),
        road_row=round(grown.road_table / roads, 1),
        windows=grown.windows,
        road_windows=grown.road_windows,
        samples_a_frame=samples,
        tables={name: round(size / per, 1) for name, size in grown.tables.most_common() if size},
        folders={name: round(size / per, 1) for name, size in grown.folders.most_common() if size},
    )
