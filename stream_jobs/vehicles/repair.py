"""The batch layer of journeys: what frames that came behind would have changed, made anew from the archive.

For a vehicle with such frames the time from the stop before them to the stop after them is read again and put
through the same core, all frames in order. It waits for that stop: a trip under way is the stream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import structlog

from infra.archive import reader
from infra.archive.layout import HOUR_MS, archive_of
from infra.contract.settings import Settings
from infra.contract.verdict import LATE, OK, clock_limits
from stream_jobs import statements as sql
from stream_jobs.database import Connection, Database, execute, fetch, stage
from stream_jobs.frames.batch import RECORD
from stream_jobs.recompute.turn import JOURNEYS, TurnLostError, hold, turn
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.journeys.rows import HarshRow, IdleRow, StopRow, TripRow
from stream_jobs.vehicles.limits import core_limits, harsh_limits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.replay import arrivals_of, replay
from stream_jobs.vehicles.rows import Row
from stream_jobs.vehicles.stage import VehicleStage
from stream_jobs.vehicles.tables import RowTable, restated_tables

REPAIR_BATCH_ID: Final = -1
VEHICLES_AT_ONCE: Final = 20
TAIL_MS: Final = 3_600_000
"""So much is read after the stop's begin, to see that it was one."""
LOOK_BACK_MS: Final = 86_400_000
"""How far back a vehicle is read where no stop is known before its frames."""

_OPEN: Final = """
SELECT b.vehicle_id,
       (extract(epoch FROM b.since) * 1000)::bigint,
       (extract(epoch FROM b.until) * 1000)::bigint,
       (extract(epoch FROM before.began_at) * 1000)::bigint,
       (extract(epoch FROM after.began_at) * 1000)::bigint
FROM (SELECT vehicle_id, min(from_time) AS since, max(to_time) AS until, max(noted_at) AS noted
      FROM odograph.journey_behind WHERE repaired_at IS NULL GROUP BY vehicle_id) b
LEFT JOIN LATERAL (SELECT max(began_at) AS began_at FROM odograph.trip_stop s
                   WHERE s.vehicle_id = b.vehicle_id AND s.began_at < b.since) before ON true
LEFT JOIN LATERAL (SELECT min(began_at) AS began_at FROM odograph.trip_stop s
                   WHERE s.vehicle_id = b.vehicle_id AND s.began_at >= b.until) after ON true
WHERE b.noted <= to_timestamp(%(seen_ms)s / 1000.0)
  AND (after.began_at IS NOT NULL OR NOT EXISTS (
       SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = b.vehicle_id AND t.phase = 'open'))
ORDER BY b.noted LIMIT %(limit)s
"""
_REPAIRED: Final = """
UPDATE odograph.journey_behind SET repaired_at = now()
WHERE vehicle_id = %(vehicle)s AND repaired_at IS NULL AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
"""
_LEAVES: Final = """
UPDATE odograph.trip_stop SET ended_at = to_timestamp(%(ended_ms)s / 1000.0), revision = revision + 1,
    restated_at = now()
WHERE vehicle_id = %(vehicle)s AND began_at = to_timestamp(%(began_ms)s / 1000.0)
  AND ended_at IS DISTINCT FROM to_timestamp(%(ended_ms)s / 1000.0)
"""
_TIME_OF: Final = {"odograph.trip": "started_at"}

log = structlog.get_logger("stream_jobs.vehicles.repair")


@dataclass(frozen=True, slots=True)
class Task:
    """A vehicle and the time to make anew, ms; ``stop_ms``: begin of the stop before it, where one is
    known.
    """

    vehicle_id: str
    from_ms: int
    to_ms: int
    stop_ms: int | None

    def holds(self, row: Row) -> bool:
        """Whether a row is a journey of this time."""
        return self.from_ms < _begin_ms(row) <= self.to_ms


class JourneyRepair:
    """Restates the journeys that are due; ``caught_up_ms`` says how far the archive is."""

    def __init__(
        self, settings: Settings, database: Database, caught_up_ms: Callable[[], int | None]
    ) -> None:
        home = settings.paths.home
        self._database = database
        self._caught_up_ms = caught_up_ms
        self._archive = archive_of(home)
        self._lookup = lookups.vehicle_file(home)
        self._core = Core(core_limits(settings), Detection())
        self._stage = VehicleStage(clock_limits(settings), harsh_limits(settings), self._lookup)

    def __call__(self) -> int:
        """The number of vehicles restated."""
        seen_ms = self._caught_up_ms()
        if seen_ms is None:
            return 0
        with turn(self._database, JOURNEYS) as ours:
            try:
                return self._repair(seen_ms) if ours else 0
            except TurnLostError:
                log.warning("the database was away: journeys are read again")
                return 0

    def _repair(self, seen_ms: int) -> int:
        tasks = self._database.run(lambda connection: _tasks(connection, seen_ms))
        for task in tasks:
            rows = self.rows(task, seen_ms)
            changed = self._database.run(partial(_write, task=task, rows=rows, seen_ms=seen_ms))
            log.info("journeys restated", vehicle_id=task.vehicle_id, changed=changed)
        return len(tasks)

    def rows(self, task: Task, until_ms: int) -> list[Row] | None:
        """The rows of ``task``'s time, out of the archive; None where it has not a frame of it."""
        arrivals = arrivals_of(self._stage, archived(self._archive, task))
        if not arrivals:
            return None
        found = (replay(self._core, (each[2] for each in placed), until_ms) for placed in arrivals.values())
        return [row for rows in found for row in rows if task.holds(row)]


def _write(connection: Connection, task: Task, rows: list[Row] | None, seen_ms: int) -> int:
    hold(connection, JOURNEYS)
    return restate(connection, task, rows, seen_ms)


def archived(folder: Path, task: Task) -> Iterator[pa.RecordBatch]:
    """Records of a vehicle whose first sample lies in the time of ``task``, as they came."""
    hours = reader.paths(folder, task.from_ms // HOUR_MS * HOUR_MS)
    wanted = (
        (pc.field("vehicle_id") == task.vehicle_id)
        & (pc.field("t0_ms") >= task.from_ms)
        & (pc.field("t0_ms") < task.to_ms + TAIL_MS)
        & pc.field("verdict").isin([OK, LATE])
    )
    found = ds.dataset(hours, format="parquet")
    yield from found.to_batches(columns=list(RECORD), filter=wanted) if hours else ()


def _begin_ms(row: Row) -> int:
    """What a row's key says of time."""
    if isinstance(row, TripRow):
        return row.started_ms
    return row.began_ms if isinstance(row, StopRow | IdleRow | HarshRow) else -1


def _tasks(connection: Connection, seen_ms: int) -> list[Task]:
    found = fetch(connection, _OPEN, {"seen_ms": seen_ms, "limit": VEHICLES_AT_ONCE})
    return [_task(seen_ms, *row) for row in found]


def _task(
    seen_ms: int, vehicle: str, since_ms: int, until_ms: int, before_ms: int | None, after_ms: int | None
) -> Task:
    from_ms = since_ms - LOOK_BACK_MS if before_ms is None else before_ms
    return Task(vehicle, from_ms, max(until_ms, seen_ms) if after_ms is None else after_ms, before_ms)


def restate(connection: Connection, task: Task, rows: list[Row] | None, seen_ms: int) -> int:
    """The rows in the place of those that the stream made of this time; how many changed or went.

    None: the archive has forgotten it, and what is stored stays.
    """
    changed = 0 if rows is None else replace_journeys(connection, task, rows)
    execute(connection, _REPAIRED, {"vehicle": task.vehicle_id, "seen_ms": seen_ms})
    return changed


def replace_journeys(connection: Connection, task: Task, rows: list[Row]) -> int:
    """Journeys of the time of ``task``: those that are stored just so stay as they are."""
    changed = sum(_replace(connection, table, task, found) for table, found in restated_tables(rows).items())
    trips = [row.started_ms for row in rows if isinstance(row, TripRow)]
    if trips and task.stop_ms is not None:
        values = {"vehicle": task.vehicle_id, "began_ms": task.stop_ms, "ended_ms": min(trips)}
        changed += execute(connection, _LEAVES, values)
    return changed


def _replace(connection: Connection, table: RowTable, task: Task, rows: pa.Table) -> int:
    time = _TIME_OF.get(table.name, "began_at")
    tagged = rows.append_column("batch_id", pa.array([REPAIR_BATCH_ID] * rows.num_rows, pa.int64()))
    stage(connection, table.name, tagged)
    since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (task.from_ms, task.to_ms))
    values: dict[str, Any] = {"vehicle": task.vehicle_id, "since": since, "until": until}
    same = " AND ".join(f"s.{key} = w.{key}" for key in table.keys)
    gone = execute(
        connection,
        f"DELETE FROM {table.name} w WHERE vehicle_id = %(vehicle)s "  # noqa: S608  names of this package
        f"AND {time} > %(since)s AND {time} <= %(until)s "
        f"AND NOT EXISTS (SELECT 1 FROM {sql.staged(table.name)} s WHERE {same})",
        values,
    )
    execute(connection, sql.leave_equal(table.name, tagged.column_names, table.keys, time), values)
    restated = execute(connection, sql.restate(table.name, tagged.column_names, table.keys))
    execute(connection, f"TRUNCATE {sql.staged(table.name)}")
    return gone + restated
