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
import pyarrow.compute as pc
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.archive import reader
from infra.archive.layout import archive_of
from infra.contract.settings import Settings
from infra.contract.verdict import LATE, ClockLimits, clock_limits
from stream_jobs import repair_plan as plan
from stream_jobs import repair_store as store
from stream_jobs import sources
from stream_jobs.database import Connection, Database
from stream_jobs.recompute.turn import WINDOWS, TurnLostError, hold, turn
from stream_jobs.repair_plan import Grid, Interval, LateFrame
from stream_jobs.schema import COORDINATES, WINDOW_KEYS
from stream_jobs.sinks import EDGE, ROAD, VEHICLE, WindowTable
from stream_jobs.telemetry import ipc_of, table_of
from stream_jobs.windows.open_windows import ARCHIVED, Terms, archived_windows, terms_of
from stream_jobs.windows.places import KEYS as PLACE
from stream_jobs.windows.places import SHARE, summed
from stream_jobs.windows.tables import NO_WINDOWS, place_rows

GRACE_MS: Final = 2_000
"""How long after its receive time a record may appear in the log without reopening a restated window."""
LATE_AT_ONCE: Final = 50_000
FOUND: Final = "vehicle binary, shares binary"

log = structlog.get_logger("stream_jobs.batch")


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
            lambda c: store.open_frames(c, self._grid.road_window_ms, closed_ms, LATE_AT_ONCE)
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
        rows = span.touched(span.records(self._database), frames)
        self._database.run(lambda c: _write(c, rows, frames))
        log.info(
            "late windows restated",
            late_frames=len(frames),
            vehicle_windows=rows[VEHICLE].num_rows,
            road_windows=rows[ROAD].num_rows,
            edge_windows=rows[EDGE].num_rows,
            took_s=round(time.monotonic() - started, 2),
        )
        return len(frames)


def _write(connection: Connection, rows: Mapping[WindowTable, pa.Table], frames: Sequence[LateFrame]) -> None:
    hold(connection, WINDOWS)
    store.write(connection, rows, frames)


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Windows of archived records of some vehicles, in a Python worker; copies may be among them."""

    terms: Terms
    limits: ClockLimits

    def __call__(self, records: pa.Table) -> pa.Table:
        """One row: rows of vehicles' windows and shares of places, in Arrow's stream format."""
        vehicle, shares = archived_windows(records, self.terms, self.limits)
        told = {"vehicle": [ipc_of(vehicle)], "shares": [ipc_of(shares)]}
        return pa.table(told, pa.schema([(name, pa.binary()) for name in told]))


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

    def rows(self, records: DataFrame) -> dict[WindowTable, pa.Table]:
        """Rows of all tables: every window in the span."""
        return self._tables(*self._windows(records))

    def touched(self, records: DataFrame, frames: Sequence[LateFrame]) -> dict[WindowTable, pa.Table]:
        """Rows of all tables: the windows in the span that ``frames`` touch."""
        vehicle, shares = self._windows(records)
        keys = plan.vehicle_keys(frames, self.grid)
        starts = pa.array([start for _, start in keys]).cast(pa.timestamp("ms", tz="UTC"))
        wanted = pa.table({"vehicle_id": [name for name, _ in keys], "window_start": starts})
        coordinates = F.broadcast(_coordinates(self.spark, frames))
        late = self._windows(records.join(coordinates, list(COORDINATES), "left_semi"))[1]
        places = ["start_ms", *PLACE]
        return self._tables(
            vehicle.join(wanted, list(WINDOW_KEYS), join_type="left semi"),
            shares.join(late.select(places), places, join_type="left semi"),
        )

    def _tables(self, vehicle: pa.Table, shares: pa.Table) -> dict[WindowTable, pa.Table]:
        road, edge = place_rows(summed(shares), self.settings.jobs.road_window_s)
        return {VEHICLE: vehicle, ROAD: road, EDGE: edge}

    def _windows(self, records: DataFrame) -> tuple[pa.Table, pa.Table]:
        """Rows of vehicles' windows and shares of places, of this span only: a frame may reach beyond it."""
        work = WindowGroup(terms_of(self.settings), clock_limits(self.settings))
        groups = sources.by_group(records, *ARCHIVED)
        # A function and no method: Spark counts the parameters, and would hand a method the key too.
        found = groups.applyInArrow(lambda group: work(group), FOUND).toArrow()  # noqa: PLW0108
        vehicle, shares = (
            pa.concat_tables([empty, *map(table_of, found[name].to_pylist())])
            for name, empty in (("vehicle", NO_WINDOWS), ("shares", SHARE.empty_table()))
        )
        starts = pa.array(self.starts_ms, pa.int64())
        start_ms = vehicle["window_start"].cast(pa.int64()).to_numpy()
        of_vehicle = pa.array(start_ms // self.grid.road_window_ms * self.grid.road_window_ms)
        return (
            vehicle.filter(pc.is_in(of_vehicle, starts)),
            shares.filter(pc.is_in(shares["start_ms"], starts)),
        )

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
