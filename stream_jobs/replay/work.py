"""A replay from its first record to its last window: shadow runs, and records into the live topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import structlog

from infra.clients import database_url
from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings
from infra.stack.supervisor import Supervisor
from stream_jobs.replay import databases, runs
from stream_jobs.replay.compare import Verdict, compare, keep
from stream_jobs.replay.databases import connected
from stream_jobs.replay.feed import OUTSTANDING, Bar, Ends, Feed, bounds_of, skew_s
from stream_jobs.replay.log import Log, Writer, copy_crashes, partitions_of
from stream_jobs.replay.promote import parameters
from stream_jobs.replay.records import Slice, Stored
from stream_jobs.replay.runs import Run, folder_of
from stream_jobs.replay.shadow import TOPIC, Shadow
from stream_jobs.replay.sources import files_of
from stream_jobs.replay.tables import Table, of_run

SETTLE_POLL_S: Final = 1.0
STUCK_S: Final = 300.0
"""A run whose jobs get no further for so long has failed: its tables are not whole."""
LEFT_OUT: Final = "dead_letter"
NAMED: Final = 20
"""So many records that were left out are named."""

Say = Callable[[str], None]
log = structlog.get_logger("replay")


@dataclass(frozen=True, slots=True)
class Result:
    """What a shadow run came to."""

    run: Run
    dropped_late: int
    left_out: list[str]
    """Records that became dead letters, a line each."""


def stored(settings: Settings, run: Run) -> Stored:
    """The records of a run."""
    home = settings.paths.home.absolute()
    files = files_of(home, run.source, folder_of(home, run.run_id))
    late_ms = max(run.late_until_ms, run.received_until_ms)
    return Stored(files, run.received, run.span, late_ms, run.vehicles, partitions_of(TOPIC))


def overrides(settings: Settings) -> dict[str, str]:
    """Variables of a run's jobs that follow from how it is fed; they change no result."""
    skew, jobs = skew_s(), settings.jobs
    return {
        "JOBS_RECEIPT_SKEW_S": str(jobs.receipt_skew_s + skew),
        "JOBS_MAX_OFFSETS": str(OUTSTANDING.records),
        "JOBS_TRIGGER_S": "0.2",
        "JOBS_ARCHIVE_TRIGGER_S": "1",
        "JOBS_REPAIR_INTERVAL_S": "5",
        "JOBS_ROLLUP_INTERVAL_S": "5",
        "JOBS_INSTANT_TRIGGER_S": "5",
    }


def shadow(settings: Settings, live: Endpoints, run: Run, stop: threading.Event, say: Say) -> Result:
    """Run it, or go on with it where an earlier attempt ended; raises ServiceError, ConfigError."""
    begun_s = time.monotonic()
    shape = Shadow(run, settings, live, overrides(settings))
    records = stored(settings, run)
    plan = records.plan(bounds_of(run.speed))
    run = runs.save(settings.paths.home, replace(run, records=sum(part.records for part in plan)))
    say(f"run {run.run_id}: {run.records} records in {len(plan)} slices")
    shape.prepare()
    crashes = copy_crashes(
        live.kafka_bootstrap, kafka_topic(settings.kafka.prefix, "crash"), kafka_topic(shape.prefix, "crash"),
        run.received.since_ms, run.received.until_ms,
    )  # fmt: skip
    say(f"run {run.run_id}: database {run.database}, topics {shape.prefix}*, {crashes} crash records")
    with shape.running() as supervisor:
        shape.wait_ready(supervisor, stop)
        fed_s = time.monotonic()
        say(f"run {run.run_id}: {', '.join(run.jobs)} ready after {fed_s - begun_s:.0f} s")
        ends = _feed(shape, supervisor, records, plan, stop)
        run = runs.save(settings.paths.home, run.stage("fed"))
        _settle(shape, supervisor, ends, stop, say)
        took_s = time.monotonic() - fed_s
    dropped = databases.dropped_late(shape.owner_url)
    with connected(live.db_owner_url) as here, connected(shape.owner_url) as there:
        left_out, _ = databases.dead_letters(here, there)
    total_s = run.total_s + time.monotonic() - begun_s
    done = run.stage("done", feed_s=round(run.feed_s + took_s, 1), total_s=round(total_s, 1))
    return Result(runs.save(settings.paths.home, done), dropped, left_out)


def _feed(
    shape: Shadow, supervisor: Supervisor, records: Stored, plan: Sequence[Slice], stop: threading.Event
) -> Ends:
    """All records into the run's topic; where it ends."""
    writer = Writer(shape.live.kafka_bootstrap, shape.topic)
    partitions = partitions_of(TOPIC)
    with (
        closing(Log(shape.live.kafka_bootstrap)) as kafka,
        Bar(sum(part.records for part in plan)) as bar,
    ):
        feed = Feed(records.read, writer.write, shape.taken, lambda: shape.watch(supervisor), bar.show, stop)
        feed.run(plan, tuple(kafka.ends(shape.topic, partitions)), shape.run.speed)
        return tuple(kafka.ends(shape.topic, partitions))


def _settle(shape: Shadow, supervisor: Supervisor, ends: Ends, stop: threading.Event, say: Say) -> None:
    """Wait until the run's jobs and periodic tasks are through; raises ServiceError where they get stuck."""
    left, since_s = ["everything"], time.monotonic()
    while True:
        shape.watch(supervisor)
        now = shape.behind(ends)
        if not now:
            return
        if now != left:
            say(f"run {shape.run.run_id}: left: {'; '.join(now)}")
            left, since_s = now, time.monotonic()
        if time.monotonic() - since_s > STUCK_S:
            raise ServiceError(
                f"run {shape.run.run_id}: no step in {STUCK_S:g} s, left: {'; '.join(now)}. Its logs: "
                f"{shape.home / 'logs'}; the same command again goes on from here"
            )
        if stop.wait(SETTLE_POLL_S):
            raise ServiceError("stopped; the same command again goes on from here")


def compared(
    live: Endpoints, run: Run, wanted: Callable[[Table], bool], say: Callable[[Verdict], None]
) -> list[Verdict]:
    """Each table of ``wanted`` in both databases, one after the other; what is found is kept."""
    found = []
    own_url = database_url.with_name(live.db_owner_url, run.database)
    with connected(live.db_owner_url) as here, connected(own_url) as there:
        for table in of_run(run.whole_fleet):
            if wanted(table):
                found.append(compare(here, there, table, parameters(run)))
                say(found[-1])
        named, live_too = databases.dead_letters(here, there)
        if named:
            found.append(Verdict(LEFT_OUT, live_too, len(named), 0, 0, named=tuple(named[:NAMED])))
            say(found[-1])
        keep(here, run, found)
    return found


def into_live(
    settings: Settings, live: Endpoints, source: Stored, speed: float | None, stop: threading.Event
) -> int:
    """Records into the live topic, received now; how many. Their first time of receipt is in a header."""
    plan = source.plan(bounds_of(speed))
    writer = Writer(live.kafka_bootstrap, kafka_topic(settings.kafka.prefix, TOPIC))
    sent = [0] * source.partitions

    def write(rows: pa.Table, _skip: Ends) -> None:
        writer.write(rows, now_ms=int(datetime.now(UTC).timestamp() * 1000))
        for partition in rows["partition"].to_pylist():
            sent[partition] += 1

    with Bar(sum(part.records for part in plan)) as bar:
        feed = Feed(source.read, write, lambda: tuple(sent), lambda: None, bar.show, stop)
        try:
            feed.run(plan, (0,) * source.partitions, speed)
        except ServiceError as error:
            if not stop.is_set():
                raise
            raise ServiceError(
                f"stopped after {sum(sent)} records; sent again they count as duplicates"
            ) from error
    return sum(sent)
