"""Windows made anew, slice by slice: what is not stored just so is restated, in one transaction a slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.errors import ServiceError
from infra.contract.settings import Settings
from stream_jobs import repair_plan
from stream_jobs.batch import Span
from stream_jobs.database import Connection, Database, fetch
from stream_jobs.recompute.restate import restate_staged, stage_to_compare
from stream_jobs.recompute.runs import Counts
from stream_jobs.recompute.slices import Reach, taken_in
from stream_jobs.recompute.turn import WINDOWS, TurnLostError, hold, turn
from stream_jobs.repair_plan import LateFrame
from stream_jobs.repair_store import REPAIR_BATCH_ID, mark_repaired
from stream_jobs.sinks import VEHICLE, WINDOW_TABLES, WindowTable, tagged
from stream_jobs.statements import staged

PAUSE_S: Final = 0.2
"""Between two looks whether another writer is done."""
Note = Callable[[Connection, Counts], None]
"""Writes down what was done, in its transaction."""

_OPEN_LATE: Final = """
SELECT DISTINCT l.topic, l.partition, l.log_offset, l.vehicle_id, l.t0_ms, l.span_ms
FROM odograph.late_frame l
JOIN unnest(%(starts_ms)s::bigint[]) AS w (start_ms)
  ON l.t0_ms < w.start_ms + %(length_ms)s AND l.t0_ms + l.span_ms >= w.start_ms
WHERE l.repaired_at IS NULL
"""

log = structlog.get_logger("stream_jobs.recompute")


class WindowPass:
    """Restates slices of road windows; ``stop`` ends a wait for the turn."""

    def __init__(
        self, spark: SparkSession, settings: Settings, database: Database, stop: threading.Event
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._grid = repair_plan.grid_of(settings)
        self._database = database
        self._stop = stop
        self._before = Reach()

    def __call__(self, starts_ms: list[int], vehicle_id: str | None, note: Note) -> Counts:
        """Restate one slice; ``vehicle_id``: of one vehicle alone, windows of places then stay as they are.

        Raises ArchiveError where files are damaged; ServiceError when asked to stop.
        """
        while not self._stop.is_set():
            with turn(self._database, WINDOWS) as ours:
                if ours:
                    try:
                        return self._restate(starts_ms, vehicle_id, note)
                    except TurnLostError:
                        log.warning("the database was away: the slice is read again", slice_ms=starts_ms[0])
            self._stop.wait(PAUSE_S)
        raise ServiceError("recompute was asked to stop; the same command goes on where it was")

    def _restate(self, starts_ms: list[int], vehicle_id: str | None, note: Note) -> Counts:
        # Late frames before files: each that is listed here is in the files that are found after it.
        length_ms = self._grid.road_window_ms
        found = self._database.run(lambda c: open_late(c, starts_ms, length_ms))
        late, reach = taken_in(found, starts_ms, length_ms, self._before)
        rows = self._rows(starts_ms, vehicle_id)
        counts = self._database.run(lambda c: self._write(c, starts_ms, vehicle_id, rows, late, note))
        self._before = reach
        return counts

    def _rows(self, starts_ms: list[int], vehicle_id: str | None) -> dict[WindowTable, pa.Table]:
        """Rows of all tables as the archive has them; none of a table that is not restated."""
        span = Span(self._spark, self._settings, self._grid, starts_ms)
        if not span.files(self._database):
            return {}
        records = span.records(self._database)
        if vehicle_id is None:
            found = span.rows(records)
        else:
            found = {VEHICLE: span.rows(records.where(F.col("vehicle_id") == vehicle_id))[VEHICLE]}
        return {table: tagged(rows, REPAIR_BATCH_ID) for table, rows in found.items()}

    def _write(
        self, connection: Connection, starts_ms: list[int], vehicle_id: str | None,
        rows: Mapping[WindowTable, pa.Table], late: Sequence[LateFrame], note: Note,
    ) -> Counts:  # fmt: skip
        hold(connection, WINDOWS)
        restated = dict.fromkeys(WINDOW_TABLES, 0)
        unfounded = 0
        for table, found in rows.items():
            stage_to_compare(connection, table.name, found)
            unfounded += self._unfounded(connection, table, starts_ms, vehicle_id)
            restated[table] = restate_staged(connection, table, found)
        if vehicle_id is None and rows:
            mark_repaired(connection, late)
        counts = Counts(
            late_frames=len(late) if vehicle_id is None and rows else 0,
            vehicle_windows=restated[VEHICLE],
            place_windows=sum(restated.values()) - restated[VEHICLE],
            unfounded=unfounded,
        )
        note(connection, counts)
        return counts

    def _unfounded(
        self, connection: Connection, table: WindowTable, starts_ms: list[int], vehicle_id: str | None
    ) -> int:
        """Stored windows of the slice that are not staged."""
        values: dict[str, Any] = {
            "starts": [start / 1000 for start in starts_ms], "length": self._grid.road_window_ms / 1000,
            "since": starts_ms[0] / 1000, "until": starts_ms[-1] / 1000 + self._grid.road_window_ms / 1000,
            "vehicle": vehicle_id,
        }  # fmt: skip
        return int(fetch(connection, unfounded(table), values)[0][0])


def unfounded(table: WindowTable) -> str:
    """How many stored windows of the slice are not staged."""
    same = " AND ".join(f"s.{key} = w.{key}" for key in table.keys)
    mine = "AND (%(vehicle)s::text IS NULL OR w.vehicle_id = %(vehicle)s)" if table is VEHICLE else ""
    return (
        f"SELECT count(*) FROM {table.name} w WHERE w.window_start >= to_timestamp(%(since)s) "  # noqa: S608
        f"AND w.window_start < to_timestamp(%(until)s) {mine} "
        "AND EXISTS (SELECT 1 FROM unnest(%(starts)s::float8[]) AS q (at) WHERE w.window_start >= "
        "to_timestamp(q.at) AND w.window_start < to_timestamp(q.at + %(length)s)) "
        f"AND NOT EXISTS (SELECT 1 FROM {staged(table.name)} s WHERE {same})"
    )


def open_late(connection: Connection, starts_ms: Sequence[int], length_ms: int) -> list[LateFrame]:
    """Late frames that touch these road windows and that nobody has taken in."""
    values = {"starts_ms": list(starts_ms), "length_ms": length_ms}
    return [LateFrame(*row) for row in fetch(connection, _OPEN_LATE, values)]
