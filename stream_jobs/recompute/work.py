"""A run of the batch layer from begin to end: windows, then journeys and alerts, then roll-ups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from pyspark.sql import SparkSession

from infra.archive.layout import HOUR_MS, archive_of
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.settings import Endpoints, Settings
from infra.sql import continuous
from infra.stack.lag import records_behind
from stream_jobs import repair_plan
from stream_jobs.batch import GRACE_MS, archive_files
from stream_jobs.database import Connection, Database
from stream_jobs.recompute import runs, slices, vehicle_work
from stream_jobs.recompute.runs import Counts, Run
from stream_jobs.recompute.slices import Span
from stream_jobs.recompute.turn import JOURNEYS, TurnLostError, turn
from stream_jobs.recompute.vehicle_pass import VehiclePass
from stream_jobs.recompute.vehicle_work import Work
from stream_jobs.recompute.window_pass import PAUSE_S, WindowPass
from stream_jobs.rollups.update import RollUps

CLOSERS: Final = ("telemetry", "archive")
"""Queries that must have taken in everything before a window is restated."""
MINUTE_MS: Final = 60_000

log = structlog.get_logger("stream_jobs.recompute")
Say = Callable[[int, int], None]
"""Told after each slice: how many of how many are done."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a run works with; ``say`` hears of its progress."""

    spark: SparkSession
    settings: Settings
    database: Database
    owner_url: str
    stop: threading.Event
    say: Say = lambda _done, _all: None


def closed_ms(settings: Settings, addresses: Endpoints, database: Database) -> int:
    """Up to when all records are in the archive and in the stream's windows (receive time, ms).

    By Kafka's and the checkpoints' offsets; while Kafka is away by what the queries last said. Raises
    ServiceError where one of them is behind and never said otherwise.
    """
    now_ms = int(time.time() * 1000)
    try:
        behind = records_behind(settings, addresses)
    except ServiceError:
        behind = dict.fromkeys(CLOSERS, 1)
    if sum(behind.get(query, 0) for query in CLOSERS) == 0:
        return now_ms - settings.jobs.unwritten_ms
    said = database.run(lambda c: runs.caught_up_ms(c, CLOSERS, now_ms))
    if said is None:
        raise ServiceError("the stream has not caught up yet: recompute when odograph status shows no lag")
    return said


def closed_span(settings: Settings, span: Span, caught_up_ms: int) -> Span:
    """The part of the span that the stream adds nothing to any more; raises ConfigError where none is."""
    grid = repair_plan.grid_of(settings)
    until_ms = min(span.until_ms, slices.closed_until_ms(caught_up_ms, grid, GRACE_MS))
    found = Span(span.from_ms, until_ms, span.vehicle_id)
    if not slices.starts_ms(found, grid):
        raise ConfigError(
            f"recompute: nothing between --from and --to is closed: the stream is done with what is before "
            f"{runs.moment(slices.closed_until_ms(caught_up_ms, grid, GRACE_MS)):%Y-%m-%dT%H:%M:%S} UTC, and "
            f"road windows are {grid.road_window_ms // 1000} s long"
        )
    return found


def check_archive(settings: Settings, span: Span) -> None:
    """Raises ConfigError where the archive has nothing of the span; ArchiveError where it is damaged."""
    grid = repair_plan.grid_of(settings)
    intervals = repair_plan.received_intervals(slices.starts_ms(span, grid), grid)
    if not archive_files(settings.paths.home, repair_plan.hours_ms(intervals, [])):
        raise ConfigError(
            f"recompute: the archive {archive_of(settings.paths.home)} has nothing of "
            f"{runs.moment(span.from_ms):%Y-%m-%dT%H:%M} to {runs.moment(span.until_ms):%Y-%m-%dT%H:%M} (UTC)"
        )


def recompute(tools: Tools, span: Span, caught_up_ms: int) -> tuple[Run, Counts]:
    """Make a closed span anew; raises ArchiveError where files are damaged, ServiceError when stopped."""
    lead_ms = tools.settings.recompute.lead_h * HOUR_MS
    run = tools.database.run(lambda c: runs.begin(c, runs.COMMAND, span))
    starts = slices.starts_ms(span, repair_plan.grid_of(tools.settings))
    restate_windows(tools, run, list(starts))
    restate_vehicles(tools, run, caught_up_ms, lambda c: vehicle_work.of_span(c, span, caught_up_ms, lead_ms))
    return run, close(tools, run)


def restate_windows(tools: Tools, run: Run, starts_ms: list[int]) -> None:
    """All slices that are not done yet, oldest first."""
    slice_ms = tools.settings.recompute.slice_min * MINUTE_MS
    road_ms = repair_plan.grid_of(tools.settings).road_window_ms
    restate = WindowPass(tools.spark, tools.settings, tools.database, tools.stop)
    pieces = list(slices.slices(starts_ms, slice_ms, run.done_until_ms))
    for place, piece in enumerate(pieces, start=1):
        restate(piece, run.span.vehicle_id, partial(_note_slice, run, piece[-1] + road_ms))
        tools.say(place, len(pieces))


def _note_slice(run: Run, done_ms: int, connection: Connection, counts: Counts) -> None:
    runs.add(connection, run, counts)
    runs.move(connection, run, done_ms)


def restate_vehicles(
    tools: Tools, run: Run, seen_ms: int, works_of: Callable[[Connection], Sequence[Work]]
) -> None:
    """Journeys and alerts; begun again where the turn was lost, which finds done what is done."""
    restate = VehiclePass(tools.spark, tools.settings, tools.database)
    while not tools.stop.is_set():
        with turn(tools.database, JOURNEYS) as ours:
            if ours:
                works = tools.database.run(works_of)
                try:
                    restate(works, seen_ms, partial(_note, run)) if works else None
                except TurnLostError:
                    log.warning("the database was away: vehicles are read again")
                else:
                    return
        tools.stop.wait(PAUSE_S)
    raise ServiceError("recompute was asked to stop; the same command goes on where it was")


def _note(run: Run, connection: Connection, counts: Counts) -> None:
    runs.add(connection, run, counts)


def close(tools: Tools, run: Run) -> Counts:
    """Roll up what was restated, by the license's own means too, and end the run."""
    roll_up = RollUps(tools.database, tools.settings.tz)
    while roll_up():
        pass
    since, until = runs.moment(run.span.from_ms), runs.moment(run.span.until_ms)
    continuous.refresh(tools.owner_url, since, until, tools.settings.recompute.attempt_s)
    return tools.database.run(lambda c: runs.finish(c, run))
