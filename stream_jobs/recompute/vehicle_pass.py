"""Journeys and alerts made anew: whole vehicles through the stream's core, a transaction each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.archive import reader
from infra.archive.layout import HOUR_MS, archive_of
from infra.contract.settings import Settings
from infra.contract.verdict import LATE, OK
from stream_jobs import sources
from stream_jobs.batch import archive_files
from stream_jobs.database import Connection, Database
from stream_jobs.event_writes import ClearTimes
from stream_jobs.frames.batch import RECORD
from stream_jobs.recompute import vehicle_work
from stream_jobs.recompute.alert_writes import restate_alerts
from stream_jobs.recompute.player import JOURNEY, PLAYED, STREAMED, WHOLE, Player, lasting
from stream_jobs.recompute.runs import Counts
from stream_jobs.recompute.turn import JOURNEYS, hold
from stream_jobs.recompute.vehicle_work import Work
from stream_jobs.recompute.window_pass import Note
from stream_jobs.repair_plan import hours_ms
from stream_jobs.rules import load_rules
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import of_rules
from stream_jobs.vehicles.repair import replace_journeys
from stream_jobs.vehicles.rows import AlertRow, unpack
from stream_jobs.vehicles.stage import vehicle_stage

log = structlog.get_logger("stream_jobs.recompute")


class VehiclePass:
    """Restates journeys and alerts of vehicles. The turn must be held by ``database`` meanwhile."""

    def __init__(self, spark: SparkSession, settings: Settings, database: Database) -> None:
        self._spark = spark
        self._settings = settings
        self._database = database
        rules = load_rules(settings.jobs.rules)
        self._detection = of_rules(lasting(rules))
        self._rules = [rule.id for rule in self._detection.rules]
        self._clear_times = ClearTimes.of(rules)

    def __call__(self, works: Sequence[Work], seen_ms: int, note: Note) -> Counts:
        """Restate them; what changed in all. Raises TurnLostError; what was written by then is right."""
        total = Counts()
        works = [whole(work, self._archived_from_ms()) for work in works]
        records = self._records(works)
        if records is None:
            return total
        waiting = {work.task.vehicle_id: work for work in works}
        for vehicle_id, rows in self._played(works, records, seen_ms):
            work = waiting.pop(vehicle_id)
            total = plus(total, self._database.run(partial(self._write, work, rows, seen_ms, note)))
        for work in waiting.values():  # expired: nothing is known better, and never will be
            log.warning("the archive has no frames of a vehicle", vehicle_id=work.task.vehicle_id)
            self._database.run(partial(vehicle_work.done, work=work, seen_ms=seen_ms))
        return total

    def _archived_from_ms(self) -> int:
        return min(reader.hours(archive_of(self._settings.paths.home)), default=0)

    def _write(
        self, work: Work, rows: Sequence[Row], seen_ms: int, note: Note, connection: Connection
    ) -> Counts:
        hold(connection, JOURNEYS)
        found = {kind: [unpack(r["body"]) for r in rows if r["kind"] == kind] for kind in _KINDS}
        changed = replace_journeys(connection, work.task, found[JOURNEY]) if work.journeys else 0
        whole, streamed = ([r for r in found[k] if isinstance(r, AlertRow)] for k in (WHOLE, STREAMED))
        vehicle = work.task.vehicle_id
        alerts = restate_alerts(connection, vehicle, whole, streamed, self._rules, self._clear_times, seen_ms)
        vehicle_work.done(connection, work, seen_ms)
        counts = plus(Counts(vehicles=1, journeys=changed), alerts)
        note(connection, counts)
        return counts

    def _played(
        self, works: Sequence[Work], records: DataFrame, seen_ms: int
    ) -> Iterator[tuple[str, list[Row]]]:
        """Rows of each vehicle, one after the other; a part of all vehicles at a time is in memory."""
        by_id = {work.task.vehicle_id: work for work in works}
        stage = vehicle_stage(self._settings, self._detection)
        player = Player(core_limits(self._settings), self._detection, stage, by_id, seen_ms)
        # A function and no method: Spark counts the parameters, and would hand a method the key too.
        played = sources.by_group(records, *RECORD).applyInPandas(lambda group: player(group), PLAYED)  # noqa: PLW0108
        for vehicle_id, group in groupby(played.toLocalIterator(), key=lambda row: row["vehicle_id"]):
            yield vehicle_id, list(group)

    def _records(self, works: Sequence[Work]) -> DataFrame | None:
        """Archived frames of these vehicles and their times; None where the archive has no hour of them."""
        late_ms = self._settings.recompute.late_h * HOUR_MS
        first_ms = min(work.read_from_ms for work in works) - self._settings.jobs.ahead_s * 1000
        span = (first_ms, max(work.read_until_ms for work in works) + late_ms)
        files = archive_files(self._settings.paths.home, hours_ms([span], []))
        if not files:
            return None
        wanted = self._spark.createDataFrame(_bounds(works))
        found = sources.archive(self._spark, files).where(F.col("verdict").isin(OK, LATE))
        inside = (F.col("t0_ms") >= F.col("read_from_ms")) & (F.col("t0_ms") < F.col("read_until_ms"))
        return found.join(F.broadcast(wanted), "vehicle_id").where(inside)


def whole(work: Work, archived_from_ms: int) -> Work:
    """The work without its journeys where the archive no longer reaches back to the stop before them."""
    task = work.task
    forgotten = task.stop_ms is not None and task.stop_ms // HOUR_MS * HOUR_MS < archived_from_ms
    return replace(work, journeys=False) if forgotten else work


_KINDS: Final = (JOURNEY, WHOLE, STREAMED)


def _bounds(works: Sequence[Work]) -> pa.Table:
    return pa.table(
        {
            "vehicle_id": [work.task.vehicle_id for work in works],
            "read_from_ms": pa.array([work.read_from_ms for work in works], pa.int64()),
            "read_until_ms": pa.array([work.read_until_ms for work in works], pa.int64()),
        }
    )


def plus(one: Counts, other: Counts) -> Counts:
    """The sums of both."""
    return Counts(*(a + b for a, b in zip(_values(one), _values(other), strict=True)))


def _values(counts: Counts) -> tuple[int, ...]:
    return tuple(getattr(counts, name) for name in Counts.__slots__)
