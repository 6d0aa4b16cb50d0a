"""The batch layer: windows restated from the archive, with the transforms of the stream.

``Repair`` does it for the windows that late frames touch, once the stream is done with them; recompute/ for
a span of time. See the README for why a window that counts as closed here gets nothing more from the
stream, and what happens if it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.archive import reader
from infra.archive.layout import archive_of
from infra.contract.settings import Settings
from infra.contract.verdict import LATE
from stream_jobs import repair_plan as plan
from stream_jobs import repair_store as store
from stream_jobs import sources, windows
from stream_jobs.database import Connection, Database
from stream_jobs.frames.identity import batch_frames
from stream_jobs.recompute.turn import WINDOWS, TurnLostError, hold, turn
from stream_jobs.repair_plan import Grid, Interval, LateFrame
from stream_jobs.schema import COORDINATES, WINDOW_KEYS
from stream_jobs.sinks import EDGE, ROAD, VEHICLE, WindowTable

GRACE_MS: Final = 2_000
"""How long after its receive time a record may appear in the log without reopening a restated window."""
FRAMES_AT_ONCE: Final = 50_000

log = structlog.get_logger("stream_jobs.batch")


ROADS: Final = ((ROAD, windows.road_windows), (EDGE, windows.edge_windows))
"""Tables of windows by place, and how their rows are found among all."""


class Repair:
    """Restates what late frames touch.

    ``caught_up_ms`` says up to when stream and archive have taken in everything.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        database: Database,
        caught_up_ms: Callable[[], int | None],
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._grid = plan.grid_of(settings)
        self._database = database
        self._caught_up_ms = caught_up_ms

    def __call__(self) -> int:
        """Restate the windows that are due; the number of late frames repaired."""
        with turn(self._database, WINDOWS) as ours:
            return self._repair() if ours else 0

    def _repair(self) -> int:
        caught_up_ms = self._caught_up_ms()
        if caught_up_ms is None:
            return 0
        closed_ms = caught_up_ms - self._grid.lateness_ms - GRACE_MS
        frames = self._database.run(
            lambda c: store.open_frames(c, self._grid.road_window_ms, closed_ms, FRAMES_AT_ONCE)
        )
        try:
            return self._restate(frames) if frames else 0
        except TurnLostError:
            log.warning("the database was away: late windows are read again")
            return 0

    def _restate(self, frames: Sequence[LateFrame]) -> int:
        started = time.monotonic()
        starts_ms = plan.road_starts_ms(frames, self._grid)
        span = Span(self._spark, self._settings, self._grid, starts_ms)
        records = span.records(self._database)
        vehicle = span.vehicle_rows(records, plan.vehicle_keys(frames, self._grid))
        rows = {VEHICLE: vehicle, **span.place_rows(records, frames)}
        self._database.run(lambda c: _write(c, rows, frames))
        log.info(
            "late windows restated",
            late_frames=len(frames),
            vehicle_windows=vehicle.num_rows,
            road_windows=rows[ROAD].num_rows,
            edge_windows=rows[EDGE].num_rows,
            took_s=round(time.monotonic() - started, 2),
        )
        return len(frames)


def _write(connection: Connection, rows: Mapping[WindowTable, pa.Table], frames: Sequence[LateFrame]) -> None:
    hold(connection, WINDOWS)
    store.write(connection, rows, frames)


@dataclass(frozen=True, slots=True)
class Span:
    """Road windows that begin at ``starts_ms`` and all that the archive knows of them."""

    spark: SparkSession
    settings: Settings
    grid: Grid
    starts_ms: list[int]

    def records(self, database: Database) -> DataFrame:
        """Archived records, ok or late, that have a sample in these windows; copies included."""
        found = sources.archive(self.spark, self.files(database))
        intervals = plan.received_intervals(self.starts_ms, self.grid)
        candidates = found.where((F.col("verdict") == LATE) | received_in(intervals))
        return candidates.join(self._starts(), self._touched(), "left_semi")

    def files(self, database: Database) -> list[str]:
        """The archive's files that may hold them."""
        intervals = plan.received_intervals(self.starts_ms, self.grid)
        late_hours = database.run(lambda c: store.late_hours(c, self.starts_ms, self.grid.road_window_ms))
        return archive_files(self.settings.paths.home, plan.hours_ms(intervals, late_hours))

    def vehicle_rows(self, records: DataFrame, keys: Sequence[tuple[str, int]] | None) -> pa.Table:
        """Rows of odograph.vehicle_window: those of ``keys``, or of all windows in the span."""
        wanted = None if keys is None else _key_frame(self.spark, keys)
        if wanted is not None:
            records = records.join(
                F.broadcast(wanted.select("vehicle_id").distinct()), "vehicle_id", "left_semi"
            )
        rows = windows.vehicle_windows(self.windows(records))
        if wanted is not None:
            rows = rows.join(F.broadcast(wanted), list(WINDOW_KEYS), "left_semi")
        return rows.toArrow()

    def place_rows(
        self, records: DataFrame, frames: Sequence[LateFrame] | None
    ) -> dict[WindowTable, pa.Table]:
        """Rows of the windows of road cells and edges: those that ``frames`` touch, or all in the span."""
        found = self.windows(records)
        if frames is None:
            return {table: rows_of(found).toArrow() for table, rows_of in ROADS}
        coordinates = F.broadcast(_coordinates(self.spark, frames))
        late = self.windows(records.join(coordinates, list(COORDINATES), "left_semi"))
        return {
            table: self._touched_rows(rows_of(found), rows_of(late), list(table.keys))
            for table, rows_of in ROADS
        }

    def _touched_rows(self, rows: DataFrame, touched: DataFrame, keys: list[str]) -> pa.Table:
        """Those of ``rows`` that have the keys of a row of ``touched``."""
        wanted = touched.select(*keys).toArrow()
        if not wanted.num_rows:
            return touched.limit(0).toArrow()
        return rows.join(F.broadcast(self.spark.createDataFrame(wanted)), keys, "left_semi").toArrow()

    def windows(self, records: DataFrame) -> DataFrame:
        """Windows of any table of this span only: a frame may reach into windows that are not restated."""
        lengths = windows.lengths_of(self.settings)
        found = windows.all_windows(batch_frames(records, lengths), lengths)
        window_ms = F.unix_millis("window_start")
        start = window_ms - window_ms % self.grid.road_window_ms
        return found.join(self._starts(), start == F.col("start_ms"), "left_semi")

    def _starts(self) -> DataFrame:
        table = pa.table({"start_ms": pa.array(self.starts_ms, pa.int64())})
        return F.broadcast(self.spark.createDataFrame(table))

    def _touched(self) -> Any:
        first_before = F.col("start_ms") <= F.col("t0_ms") + F.col("span_ms")
        return first_before & (F.col("start_ms") + self.grid.road_window_ms > F.col("t0_ms"))


def received_in(intervals: Sequence[Interval]) -> Any:
    """Whether a record was received in one of the ``intervals``."""
    condition = F.lit(False)
    for low, high in intervals:
        condition = condition | F.col("received_ms").between(low, high)
    return condition


def archive_files(home: Path, hours_ms: Sequence[int]) -> list[str]:
    """The archive's files of these hours of receive time. Raises ArchiveError."""
    return [str(file.path) for file in reader.of_hours(archive_of(home), hours_ms)]


def _key_frame(spark: SparkSession, keys: Sequence[tuple[str, int]]) -> DataFrame:
    starts = pa.array([start * 1000 for _, start in keys], pa.timestamp("us", tz="UTC"))
    return spark.createDataFrame(
        pa.table({"vehicle_id": [vehicle for vehicle, _ in keys], "window_start": starts})
    )


def _coordinates(spark: SparkSession, frames: Sequence[LateFrame]) -> DataFrame:
    return spark.createDataFrame(
        pa.table(
            {
                "topic": pa.array([f.topic for f in frames], pa.string()),
                "partition": pa.array([f.partition for f in frames], pa.int32()),
                "log_offset": pa.array([f.log_offset for f in frames], pa.int64()),
            }
        )
    )
