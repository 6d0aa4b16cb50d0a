"""The one writer of the batch layer (README, "The writer lock"): rows that differ get their next revision."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import structlog

from infra.clients.db import sql_of
from infra.contract.errors import ServiceError
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch, stage
from stream_jobs.app.sinks import EDGE, ROAD, VEHICLE, tagged, write_latest
from stream_jobs.app.statements import Table, staged
from stream_jobs.app.telemetry import table_of
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.archive.reader import ArchiveFile
from stream_jobs.reprocess import feed, queue
from stream_jobs.reprocess.alerts import restate_alerts
from stream_jobs.reprocess.feed import Feeder, Wanted
from stream_jobs.reprocess.queue import NONE, Counts, Interval, LateFrame, Run, Work, Works, moment
from stream_jobs.rules.model import Clone, Silence, load_rules
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.rows import RESTATED, Row, TripRow, tables_of, unpack
from stream_jobs.windows.places import SHARE, place_rows, summed
from stream_jobs.windows.vehicle import NO_WINDOWS, latest_of

SQL: Final = sql_of(__file__)


class LockLostError(Exception):
    """The connection that held the lock is gone: what was read may be old by now, and is read again."""


@contextmanager
def writer_lock(database: Database) -> Iterator[bool]:
    """Whether the lock is ours while the block runs; False: another process holds it."""
    if not database.run(partial(fetch, statement=SQL["take"]))[0][0]:
        yield False
        return
    try:
        yield True
    finally:
        # Asked to stop while the database was away: the lock went with the session.
        with suppress(ServiceError):
            database.run(partial(execute, statement=SQL["release"]))


def require_lock(connection: Connection) -> None:
    """In the transaction that writes: raises LockLostError where the lock went with its session."""
    if fetch(connection, SQL["held"])[0][0] == 0:
        raise LockLostError


BATCH_ID: Final = -1  # in place of the speed layer's batch: a restated row belongs to none
STOPPED: Final = "recompute was asked to stop; the same command goes on where it was"
LOCK_POLL_S: Final = 0.2

log = structlog.get_logger("stream_jobs.reprocess")


class Restater:
    """Restates slices one after the other, one writer at a time.

    ``stop`` ends a wait for the lock and, between two vehicles, the work; ``say`` hears of each slice that is
    done.
    """

    def __init__(
        self, settings: Settings, database: Database, stop: threading.Event, feeder: Feeder,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.settings, self.database, self.feeder, self.say = settings, database, feeder, say
        self._archive = archive_of(settings.paths.home)
        self.grid = queue.grid_of(settings)
        self._stop = stop
        self._left: queue.LeftOut = {}
        rules = load_rules(settings.jobs.rules)
        # Silence and clones are about what was received when: a late frame was not there then.
        self._rules = of_rules(rule for rule in rules if not isinstance(rule.spec, Silence | Clone))
        self._clear_times = {rule.id: rule.clear_for_s for rule in rules}

    def __call__(
        self, starts: Sequence[int], works: Works | None, seen_ms: int, run: Run | None = None
    ) -> Counts:
        """Restate road windows without a gap between them, and journeys of some vehicles; begun again where
        the lock was lost, which finds done what is done.

        ``works`` is asked under the lock, because what another writer did changes it. ``run``: the line of
        the ledger that counts it: windows of all vehicles and places, or those of its one vehicle (windows
        of places then stay as they are), and findings and alerts too. None, a repair: windows of vehicles
        with late frames and of all places, and journeys.

        ``seen_ms``: up to when the archive has everything. Raises ArchiveError where files are damaged;
        ServiceError when asked to stop.
        """
        while not self._stop.is_set():
            with writer_lock(self.database) as ours:
                if ours:
                    try:
                        return self._restate(starts, works, seen_ms, run)
                    except LockLostError:
                        log.warning("the database was away: the archive is read again")
            self._stop.wait(LOCK_POLL_S)
        raise ServiceError(STOPPED)

    def _restate(self, starts: Sequence[int], works: Works | None, seen_ms: int, run: Run | None) -> Counts:
        # Late frames before files: each that is listed here is in the files that are found after it.
        road_ms, rules = self.grid.road_window_ms, self._rules if run else of_rules(())
        windows = (starts[0], starts[-1] + road_ms) if starts else NONE
        listed = self.database.run(lambda c: queue.open_late(c, *windows, seen_ms)) if starts else []
        left = queue.left_out(listed, starts, road_ms, self._left)
        late = [frame for frame, out_of in left.items() if not out_of]
        waiting = {work.vehicle_id: work for work in self._works(works, seen_ms)} if works else {}
        files, wanted = self.records(starts, waiting.values(), run)
        whose = None if run else {frame.vehicle_id for frame in listed}
        remake = feed.Remake(self.settings, rules, dict(waiting), seen_ms, windows, whose)
        total, tables = Counts(), defaultdict[str, list[pa.Table]](list)
        for vehicle_id, rows in groupby(self.feeder(files, wanted, remake), key=itemgetter(1)):
            if self._stop.is_set():
                raise ServiceError(STOPPED)
            if vehicle_id is None:
                for kind, _, body in rows:
                    tables[kind].append(table_of(body))
            else:
                write = partial(self._write_vehicle, waiting.pop(vehicle_id), [*rows], run, seen_ms)
                total += self.database.run(write)
        for work in waiting.values():  # expired: nothing is known better, and never will be
            log.warning("the archive has no frames of a vehicle", vehicle_id=work.vehicle_id)
            self.database.run(partial(queue.mark_done, work=work, seen_ms=seen_ms, rules=run is not None))
        if starts:
            found = self._window_rows(tables, run) if files else {}
            expired_ms = reader.expired_until_ms(self._archive, queue.hours_ms([wanted.received]))
            whole_ms = windows[0] if expired_ms is None else expired_ms + self.grid.ahead_ms
            total += self.database.run(partial(self._write_windows, windows, whole_ms, found, late, run))
            if run is None or run.span.vehicle_id is None:
                self._left = left
        return total

    def _works(self, works: Works, seen_ms: int) -> list[Work]:
        """The vehicles; journeys of which the archive has forgotten the stop before them stay as they are."""
        found = self.database.run(lambda c: works(c, seen_ms))
        known_ms = (reader.oldest_ms(self._archive) if found else None) or 0
        return [replace(w, journeys=w.closed and (w.stop_ms or known_ms) >= known_ms) for w in found]

    def records(
        self, starts: Sequence[int], works: Iterable[Work] = (), run: Run | None = None
    ) -> tuple[list[ArchiveFile], Wanted]:
        """The archive's files that may have records of road windows and of ``works``, and which these are."""
        lead_ms = self.settings.recompute.lead_h * HOUR_MS if run else 0
        times = [(w.vehicle_id, min(w.from_ms, w.since_ms - lead_ms), w.to_ms + queue.TAIL_MS) for w in works]
        ahead_ms, late_ms = self.grid.ahead_ms, self.settings.recompute.late_h * HOUR_MS
        windows = (starts[0], starts[-1] + self.grid.road_window_ms) if starts else NONE
        received = self.grid.received(starts) if starts else NONE
        spans = [received, *((from_ms - ahead_ms, until_ms + late_ms) for _, from_ms, until_ms in times)]
        events: list[tuple[str | None, int, int]] = [*times, *([(None, *windows)] if starts else [])]
        others = self.database.run(lambda c: queue.late_hours(c, events)) if events else []
        wanted = Wanted(windows, received, run.span.vehicle_id if run else None, times)
        return reader.of_hours(self._archive, queue.hours_ms(spans, others)), wanted

    def _window_rows(self, made: Mapping[str, list[pa.Table]], run: Run | None) -> dict[Table, pa.Table]:
        found = {VEHICLE: pa.concat_tables([NO_WINDOWS, *made[feed.VEHICLE]])}
        if run is None or run.span.vehicle_id is None:
            sums = summed(pa.concat_tables([SHARE.empty_table(), *made[feed.SHARES]]))
            found[ROAD], found[EDGE] = place_rows(sums, self.settings.jobs.road_window_s)
        return {table: tagged(rows, batch_id=BATCH_ID) for table, rows in found.items()}

    def _write_windows(
        self, windows: Interval, whole_ms: int, rows: Mapping[Table, pa.Table], late: Sequence[LateFrame],
        run: Run | None, connection: Connection,
    ) -> Counts:  # fmt: skip
        """Of windows before ``whole_ms`` records have expired: those that are stored know more, and stay."""
        require_lock(connection)
        only = run.span.vehicle_id if run else None
        bounds = {"since": moment(windows[0]), "until": moment(windows[1]), "vehicle": only}
        restated, orphaned = dict.fromkeys((VEHICLE, ROAD, EDGE), 0), 0
        for table, found in rows.items():
            stage(connection, table.name, found)
            execute(connection, f"ANALYZE {staged(table.name)}")
            if run is not None:
                whose = SQL["of_vehicle"] if table is VEHICLE else "true"
                orphans = SQL["orphans"].format(table=table.name, not_staged=table.not_staged(), whose=whose)
                orphaned += fetch(connection, orphans, bounds)[0][0]
            if whole_ms > windows[0]:
                execute(connection, table.leave_stored(), bounds | {"until": moment(whole_ms)})
            restated[table] = restate_rows(connection, table, found, bounds)
        whole = late if rows and not only else []
        queue.mark_taken_in(connection, whole)
        counts = Counts(
            late_frames=len(whole), vehicle_windows=restated[VEHICLE],
            place_windows=restated[ROAD] + restated[EDGE], orphaned=orphaned,
        )  # fmt: skip
        if run is not None:
            queue.add(connection, run, counts, windows[1])
        return counts

    def _write_vehicle(
        self, work: Work, rows: Sequence[feed.Made], run: Run | None, seen_ms: int, connection: Connection
    ) -> Counts:
        require_lock(connection)
        made = defaultdict[str, list[Any]](list)
        for kind, _, body in rows:
            if kind != feed.SEEN:
                made[kind].append(unpack(body))
        counts = Counts(vehicles=1)
        if work.journeys:
            counts += Counts(journeys=restate_journeys(connection, work, made[feed.JOURNEY]))
        if run is not None:
            found, ids = (made[feed.WHOLE], made[feed.STREAMED]), [each.rule.id for each in self._rules]
            counts += restate_alerts(connection, work.vehicle_id, *found, ids, self._clear_times, seen_ms)
            queue.add(connection, run, counts)
        queue.mark_done(connection, work, seen_ms, rules=run is not None)
        return counts


def restate_rows(connection: Connection, table: Table, rows: pa.Table, bounds: Mapping[str, Any]) -> int:
    """Restate those of the staged ``rows`` of ``since`` .. ``until`` that differ; how many."""
    if not rows.num_rows:
        return 0
    execute(connection, table.leave_equal(rows.column_names), bounds)
    restated = execute(connection, table.restate(rows.column_names))
    if restated and table.also:
        execute(connection, table.also)
    if restated and table is VEHICLE:
        write_latest(connection, latest_of(rows))
    return restated


def restate_journeys(connection: Connection, work: Work, rows: Sequence[Row]) -> int:
    """Journeys of the time of ``work`` in the place of those stored; how many changed or were removed."""
    bounds = {"since": moment(work.from_ms), "until": moment(work.to_ms), "vehicle": work.vehicle_id}
    changed = 0
    for table, found in tables_of(rows, RESTATED).items():
        made = tagged(found, batch_id=BATCH_ID)
        stage(connection, table.name, made)
        gone = SQL["gone"].format(table=table.name, time=table.time, not_staged=table.not_staged())
        changed += execute(connection, gone, bounds)
        changed += restate_rows(connection, table, made, bounds)
        execute(connection, f"TRUNCATE {staged(table.name)}")
    trips = [row.started_ms for row in rows if isinstance(row, TripRow)]
    if trips and work.stop_ms is not None:
        values = {"vehicle": work.vehicle_id, "began_ms": work.stop_ms, "ended_ms": min(trips)}
        changed += execute(connection, SQL["leaves"], values)
    return changed
