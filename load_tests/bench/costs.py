"""What a frame costs on disk: in the log, in the archive, in the database with its indexes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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

    def __sub__(self, before: Sizes) -> Sizes:
        """What came in between."""
        return Sizes(**{name: value - asdict(before)[name] for name, value in asdict(self).items()})


def sizes(home: Path, settings: Settings, endpoints: Endpoints) -> Sizes:
    """What lies there now; the log is 0 where Kafka is not of this home."""
    topic = kafka_topic(settings.kafka.prefix, "telemetry")
    segments = home.glob(f"data/kafka/log/{topic}-*/*.log")
    files = [file.path for file in reader.files(archive_of(home))]
    with session(endpoints.db_owner_url, row_factory=psycopg.rows.dict_row) as connection:
        row: dict[str, Any] = connection.execute(_SIZES).fetchone() or {}
    known = {name: int(value or 0) for name, value in row.items()}
    return Sizes(
        log=sum(path.stat().st_size for path in segments),
        archive=sum(path.stat().st_size for path in files),
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
    )
