"""Who asks for what to be restated: the command for a span, the task `repair` for what waits, the night.

All give slices to the one writer (restate.py). A run of the command and of the night stands in the ledger.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import structlog

from infra.clients.db import sql_of
from infra.contract.errors import ArchiveError, ConfigError, ServiceError
from infra.settings.settings import Endpoints, Settings
from infra.sql import queries
from infra.stack.status import records_behind
from stream_jobs.app.database import Connection, Database, fetch
from stream_jobs.app.progress import clock_ms, complete_until_ms
from stream_jobs.app.session import spark_when_asked
from stream_jobs.app.topic_writer import dead_lettering
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of
from stream_jobs.frames.lookup_files import folder_of
from stream_jobs.maintenance.copies import write_vehicle_lookup
from stream_jobs.maintenance.rollups import roll_up_changes
from stream_jobs.reprocess import queue
from stream_jobs.reprocess.feed import Feeder, vehicles_in
from stream_jobs.reprocess.queue import Counts, Run, Span, Work, Works, grid_of, moment, slices
from stream_jobs.reprocess.restate import Restater

SQL: Final = sql_of(__file__)

CLOSERS: Final = ("telemetry", "archive")  # must have taken in everything before a window is restated
MINUTE_MS: Final = 60_000
REPAIR_SLICE_MS: Final = 2 * MINUTE_MS  # little at a time: whole windows of roads are read, of all vehicles
VEHICLES_AT_ONCE: Final = 20

log = structlog.get_logger("stream_jobs.reprocess")


@contextmanager
def restater(
    settings: Settings, addresses: Endpoints, name: str, stop: threading.Event, say: Callable[[str], None]
) -> Iterator[Restater]:
    """What the command ``name`` restates with, the vehicles as the database has them now; Spark starts where
    it is worth it.
    """
    terms = settings.recompute
    opened = dead_lettering(settings, addresses, name, stop, terms.transaction_timeout_s)
    with closing(opened) as database, spark_when_asked(settings, name, terms.driver_mb) as session:
        database.run(partial(write_vehicle_lookup, folder=folder_of(settings)))
        yield Restater(settings, database, stop, Feeder(session), say)


def closed_ms(settings: Settings, addresses: Endpoints, database: Database) -> int:
    """Up to when all records are in the archive and in the stream's windows (receive time, ms).

    By Kafka's and the checkpoints' offsets; while Kafka is away by what the queries noted last. Where none
    ever ran there is nothing to wait for. Raises ServiceError where one is behind and noted nothing else.
    """
    now_ms = database.run(clock_ms)
    with suppress(ServiceError):
        behind = records_behind(settings, addresses)
        if not any(behind.get(query) for query in CLOSERS):
            return now_ms - settings.jobs.unwritten_ms
    complete_ms = complete_until_ms(database, *CLOSERS)
    if complete_ms is None and database.run(lambda c: fetch(c, SQL["ever"], {"queries": [*CLOSERS]}))[0][0]:
        raise ServiceError("the stream has not caught up yet: recompute when odograph status shows no lag")
    return now_ms if complete_ms is None else complete_ms


def closed_span(settings: Settings, span: Span, caught_up_ms: int) -> Span:
    """The part of the span that the stream adds nothing to any more.

    Raises ConfigError where none is, or the archive has nothing of it; ArchiveError where that is damaged.
    """
    grid, folder = grid_of(settings), archive_of(settings.paths.home)
    closed_until_ms = grid.closed_until_ms(caught_up_ms)
    found = replace(span, until_ms=min(span.until_ms, closed_until_ms))
    starts = grid.starts_ms(found)
    if not starts:
        raise ConfigError(
            f"recompute: nothing between --from and --to is closed: the stream is done with what is before "
            f"{moment(closed_until_ms):%Y-%m-%dT%H:%M:%S} UTC, and "
            f"road windows are {grid.road_window_ms // 1000} s long"
        )
    since_ms, last_ms = grid.received(starts)
    if not reader.files(folder, since_ms, last_ms + 1):
        raise ConfigError(
            f"recompute: the archive {folder} has nothing of "
            f"{moment(found.from_ms):%Y-%m-%dT%H:%M} to {moment(found.until_ms):%Y-%m-%dT%H:%M} (UTC)"
        )
    return found


def recompute(
    restate: Restater, span: Span, caught_up_ms: int, kind: str = queue.COMMAND
) -> tuple[Run, Counts]:
    """Restate a closed span; raises ArchiveError where files are damaged, ServiceError when stopped."""
    run = restate.database.run(lambda c: queue.begin(c, kind, span))
    starts, whose = restate.grid.starts_ms(span), span.vehicle_id
    files, wanted = restate.records(starts)
    vehicles = vehicles_in(files, wanted) if whose is None else [whose]
    times = [(vehicle_id, span.from_ms, span.until_ms) for vehicle_id in vehicles]
    hours = {file.hour_ms for file in files}
    slice_ms = restate.settings.recompute.slice_min * MINUTE_MS
    filled = restate.database.run(lambda c: queue.filled_slices(c, restate.grid, span, slice_ms, hours))
    some = [start for start in starts if start // slice_ms in filled]
    return run, _restate(restate, run, some, partial(queue.works, times=times), caught_up_ms)


def _restate(restate: Restater, run: Run, starts: Iterable[int], works: Works, seen_ms: int) -> Counts:
    """The slices of a run that are not done yet, oldest first, vehicles with the last one; then the roll-ups
    (by the license's own means too) and the run's end.
    """
    settings, span, database = restate.settings, run.span, restate.database
    slice_ms = settings.recompute.slice_min * MINUTE_MS
    left = slices(starts, restate.grid.road_window_ms, slice_ms, run.done_until_ms)
    pieces: list[Sequence[int]] = [*left] or [()]
    for place, piece in enumerate(pieces, start=1):
        restate(piece, works if place == len(pieces) else None, seen_ms, run)
        restate.say(f"slice {place} of {len(pieces)}")
    while roll_up_changes(database, settings.tz):
        pass
    times = (moment(span.from_ms), moment(span.until_ms))
    queries.refresh(database.url, *times, settings.recompute.transaction_timeout_s)
    return database.run(lambda c: queue.finish(c, run))


def repair(restate: Restater, caught_up_ms: Callable[[], int | None]) -> int:
    """The task `repair`: restate windows that late frames touch, and journeys of late vehicles, once they are
    due; how many late frames and vehicles were taken in.

    A trip under way is the stream's: its vehicle waits for the stop. ``caught_up_ms`` says up to when stream
    and archive have taken in everything. Raises ArchiveError with what is damaged, after all else is done.
    """
    seen_ms, grid = caught_up_ms(), restate.grid
    if seen_ms is None:
        return 0
    starts = restate.database.run(lambda c: queue.late_starts(c, grid, seen_ms))
    pieces, total = [*slices(starts, grid.road_window_ms, REPAIR_SLICE_MS, None)], Counts()
    asked, at_once, damage, damaged = list[Work](), VEHICLES_AT_ONCE, list[str](), set[str]()

    def waiting(connection: Connection, seen_ms: int) -> list[Work]:
        works = queue.late_vehicles(connection, seen_ms, rules=False)
        asked[:] = [work for work in works if work.closed and work.vehicle_id not in damaged][:at_once]
        return asked

    while True:
        piece = pieces[0] if pieces else ()
        works = waiting if at_once > 1 or not piece else None
        try:
            total += restate(piece, works, seen_ms)
        except ArchiveError as error:
            if at_once > 1:  # what is damaged shows one by one
                at_once = 1
                continue
            damage.append(str(error))
            damaged |= {work.vehicle_id for work in asked if works}
        del pieces[:1]
        if works and not pieces and len(asked) < at_once:
            break
    if total:
        log.info("late frames are restated", **total)
    if damage:
        raise ArchiveError("; ".join(dict.fromkeys(damage)))
    return total["late_frames"] + total["vehicles"]


def nightly(
    restate: Restater, closed_ms: int | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Counts | None:
    """Once a day from ``recompute.hour_utc`` on, without being asked: what came late since the last time; and
    at any time, once it is closed, the time of a gap between ledger and checkpoint (recovery/ledger.py).

    The task `repair` has mostly been there before. What is left for the night are alerts, which need all of a
    vehicle's frames in order, and the proof: windows that late frames touched are compared once more.
    What it changed, None: nothing is due. ``closed_ms``: all is taken in up to then. Raises ArchiveError with
    what is damaged, after all that goes on without it.
    """
    if closed_ms is None:
        return None
    damage, counts = list[str](), None
    moments = {"closed_ms": restate.grid.closed_until_ms(closed_ms), "seen_ms": closed_ms}
    for times in restate.database.run(lambda c: fetch(c, SQL["gaps"], moments)):
        try:
            run, made = recompute(restate, Span(*times), closed_ms, queue.GAP)
            log.warning("the time of a gap is made again", run=run.run_no, **made)
        except ArchiveError as error:
            log.error("the time of a gap is not made again", since=str(moment(times[0])), error=str(error))
            damage.append(str(error))
    try:
        counts = _by_night(restate, closed_ms, now())
    except ArchiveError as error:
        damage.append(str(error))
    if damage:
        raise ArchiveError("; ".join(dict.fromkeys(damage)))
    return counts


def _by_night(restate: Restater, closed_ms: int, now: datetime) -> Counts | None:
    database, grid = restate.database, restate.grid
    since, last_at = database.run(lambda c: fetch(c, SQL["last"]))[0]
    unfinished = database.run(lambda c: fetch(c, SQL["unfinished"]))
    if not unfinished and not due(now, last_at, restate.settings.recompute.hour_utc):
        return None
    until = unfinished[0][2] if unfinished else moment(closed_ms)
    starts = database.run(lambda c: queue.late_starts(c, grid, closed_ms, (since, until)))
    span = Span(starts[0], starts[-1] + grid.road_window_ms) if starts else Span(closed_ms, closed_ms)
    if unfinished:
        span = Span(*unfinished[0][:2])
    run = database.run(lambda c: queue.begin(c, queue.NIGHTLY, span, until))
    counts = _restate(restate, run, starts, partial(queue.late_vehicles, rules=True), closed_ms)
    log.info("late frames are recomputed", run=run.run_no, **counts)
    return counts


def due(now: datetime, last_at: datetime | None, hour_utc: int) -> bool:
    """Whether the hour has come since the last run; without a last one, in the hour itself."""
    if hour_utc < 0:
        return False
    hour = now.astimezone(UTC).replace(hour=hour_utc, minute=0, second=0, microsecond=0)
    if last_at is None:
        return hour <= now < hour + timedelta(hours=1)
    newest = hour if hour <= now else hour - timedelta(days=1)
    return last_at < newest
