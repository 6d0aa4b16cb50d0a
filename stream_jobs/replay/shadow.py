"""A shadow run from its first record to its last window: the same jobs on services' parts of their own."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Final

from infra.clients import database_url
from infra.clients.db import sql_of
from infra.clients.kafka import topics_of
from infra.contract.errors import ServiceError
from infra.contract.topics import CLOCK, EVENT_TOPICS, kafka_topic
from infra.settings.files import write_private
from infra.settings.settings import ENDPOINTS_FILE, PREFIX, Endpoints, Settings, endpoints, load
from infra.stack import kafka, processes, query_offsets
from infra.stack.probes import metrics, readyz
from infra.stack.service import free_port
from infra.stack.stack import with_database
from infra.stack.supervisor import Backoff, Program, Supervisor, odograph, read_state
from infra.stack.watch.samples import Metrics
from stream_jobs.app.session import LOCAL, spark_when_asked
from stream_jobs.archive.manifest import archive_of
from stream_jobs.frames import lookup_files
from stream_jobs.maintenance.copies import write_vehicle_lookup
from stream_jobs.recovery.files import checkpoint_files
from stream_jobs.replay import databases, feed, promote, runs
from stream_jobs.replay.databases import connected
from stream_jobs.replay.feed import Ends, Writer
from stream_jobs.replay.records import ARCHIVE, DAY, DRIVES, INPUT, Log, Stored
from stream_jobs.replay.runs import DASHBOARD, FILE, LOCK, Run, folder_of

SQL: Final = sql_of(__file__)

TOPIC: Final = "telemetry"
JOBS: Final = {
    "stream": (Program("jobs", odograph("jobs", "stream")), Program("maintenance", odograph("maintenance"))),
    "instant": (Program("instant", odograph("jobs", "instant")),),
    "events": (Program("events", odograph("jobs", "events")),),
    DASHBOARD: (Program(DASHBOARD, odograph(DASHBOARD)),),
}
"""What can run beside the live jobs; downlink and bridge never do."""
QUERIES: Final = ("telemetry", "archive")
INSTANT_READ: Final = "odograph_instant_records_read"  # the metric (app/instant.py)
PACE: Final = {
    "JOBS_MAX_OFFSETS": str(feed.OUTSTANDING.records),
    "JOBS_TRIGGER_S": "0.2",
    "JOBS_CLOCK_S": "0",  # its clock is that of the records
    "JOBS_PUBLISH_S": "0",  # what waits is complete only after the skew of receipts, here an hour
    "JOBS_ARCHIVE_TRIGGER_S": "1",
    "JOBS_REPAIR_INTERVAL_S": "5",
    "JOBS_ROLLUP_INTERVAL_S": "5",
    "JOBS_INSTANT_TRIGGER_S": "5",
}
"""Variables of its jobs that follow from how it is fed; they change no result."""
YOUNG: Final = "-Xmn400m"  # room for a whole slice in Java's young generation: else records are copied twice
RESTARTS: Final = 3  # a program that ended so often will end again
TICK_S: Final = 0.2
ROOM_BYTES: Final = 1 << 20  # less than a program needs to begin: its disk is full
SETTLE_POLL_S: Final = 1.0
STUCK_S: Final = 300.0  # a run whose jobs get no further for so long has failed: its tables are not whole
AFTER_MS: Final = 900_000  # so much later a recording is over: longer than any timer of a trip
Say = Callable[[str], None]


class Shadow:
    """A run and where it runs: its home, the prefix of its topics, its telemetry topic, its database."""

    def __init__(self, run: Run, settings: Settings, live: Endpoints) -> None:
        self.run = run
        self.live = live
        self.home = folder_of(settings.paths.home, run.run_id)
        self.prefix = f"{settings.kafka.prefix}run-{run.run_id}."
        self.topic = kafka_topic(self.prefix, TOPIC)
        self.owner_url = database_url.with_name(live.db_owner_url, run.database)
        self._settings = settings
        self._pages: dict[str, str] = {}  # addresses of what its programs tell of themselves
        self._clock_ms = 0  # where the run's clock must be at its end
        self._skew_s = settings.jobs.receipt_skew_s + feed.OUTSTANDING.span_ms // 1000
        self._programs = [program for name in run.jobs for program in JOBS[name]]

    def prepare(self) -> None:
        """Database, topics, addresses and what jobs look up in files; what is there stays."""
        databases.create(self.live.db_owner_url, self.run.database)
        kafka.create_topics(self.live.kafka_bootstrap, self.prefix, self._settings.kafka, for_ever=True)
        self._look_up()
        self._introduce()
        chosen: dict[str, int] = {}
        for program in chain.from_iterable(JOBS.values()):
            chosen[program.name] = free_port(chosen.values())
        own = replace(with_database(self.live, self.run.database), http_ports=chosen)
        write_private(self.home / ENDPOINTS_FILE, json.dumps(asdict(own), indent=1))
        self._pages = own.pages

    def _look_up(self) -> None:
        """The live lookups as they are at the begin of the run, all of them or none."""
        given, own = lookup_files.folder_of(self._settings), self.home / "lookups"
        if given.exists() and not own.exists():
            half = self.home / ".lookups.new"
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(given, half)
            half.rename(own)

    def _introduce(self) -> None:
        """What the vehicles of recorded drives are: no birth message tells the jobs."""
        known = runs.drives_of(self.home)
        with connected(self.owner_url) as own:
            if DASHBOARD in self.run.jobs:
                promote.on_its_clock(own)
            for drive in known.get("drives", ()):
                own.execute(SQL["vehicle"], known | drive)
            if known:
                write_vehicle_lookup(own, self.home / "lookups")

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[Supervisor]:
        """Its programs, all of which serve, while the block runs; ended however this process ends.

        Raises ServiceError.
        """
        live = self._settings.paths
        own = {
            "PATHS_HOME": str(self.home),
            "PATHS_CACHE": str(live.cache.absolute()),
            # Beside the live ones where these lie on shared storage; else in the run's home.
            "PATHS_CHECKPOINTS": f"{live.place('checkpoints')}.{self.run.run_id}" if live.checkpoints else "",
            "PATHS_LOOKUPS": live.lookups if "://" in live.lookups else "",
            "KAFKA_PREFIX": self.prefix,
            "JOBS_RECEIPT_SKEW_S": str(self._skew_s),
            **PACE,
            "JOBS_JAVA_OPTIONS": f"{YOUNG} {self._settings.jobs.java_options}",
            "OVERLOAD_CLASSES": "",  # a day at full speed is no overload
            "ARCHIVE_URL": "",  # the second place is the live archive's: it would get the run's manifests
            "ARCHIVE_KEEP_DAYS": "0",  # its records are as old as its day, and its windows too
            "RETENTION_INTERVAL_S": "1e9",
            **self.run.settings,
        }
        environment = {**os.environ, **{f"{PREFIX}{name}": value for name, value in own.items()}}
        backoff = Backoff(good_s=600.0)
        supervised = Supervisor(self.home, self._programs, lambda _text: None, backoff, environment)
        with processes.guarded(self.home), supervised as supervisor:
            waiting = {program.name for program in self._programs}
            while waiting:
                self.watch(supervisor)
                waiting = {name for name in waiting if readyz(self._pages[name]) is not None}
                if waiting and stop.wait(TICK_S):
                    raise ServiceError(feed.STOPPED)
            yield supervisor

    def watch(self, supervisor: Supervisor) -> None:
        """Start again what ended; raises ServiceError where that does not help.

        A full disk shows here first: programs that cannot write end, and cannot say so in their logs.
        """
        supervisor.tick()
        for name, kept in read_state(self.home).items():
            if (kept.get("restarts") or 0) >= RESTARTS:
                log = supervisor.log(name)
                if shutil.disk_usage(self.home).free < ROOM_BYTES:
                    raise ServiceError(
                        f"run {self.run.run_id}: {name} ended, no space left on device: {self.home}. "
                        "With space the same command with its --run goes on from here"
                    )
                raise ServiceError(
                    f"run {self.run.run_id}: {name} ended with {kept.get('last_exit')} again and again; "
                    f"its log {log}:\n{processes.log_tail(log)}"
                )

    def committed(self) -> dict[str, Ends]:
        """By query and partition what it has taken in; nothing of a query that has not begun."""
        with connected(self.owner_url) as own:
            found = query_offsets.committed_ends(own, self.topic)
        return {query: tuple(ends[p] for p in sorted(ends)) for query, ends in found.items() if ends}

    def taken(self, supervisor: Supervisor) -> Ends | None:
        """What the query with a watermark has taken in; raises ServiceError where the programs end."""
        self.watch(supervisor)
        return self.committed().get("telemetry")

    def behind(self, ends: Ends) -> list[str]:
        """What of the run's jobs has not taken in all that is in its topics; [] when they are through."""
        taken = self.committed()
        left = {query: sum(ends) - sum(taken.get(query, ())) for query in QUERIES}
        if "instant" in self.run.jobs:  # it has no lines in the ledger, but tells
            read = Metrics(metrics(self._pages["instant"])).by(INSTANT_READ, "query")
            left["instant"] = sum(ends) - int(read.get("instant", 0))
        if "events" in self.run.jobs and not any(count > 0 for count in left.values()):
            counts = kafka.records_by_topic(self.live.kafka_bootstrap, self.prefix)
            events = sum(counts[kafka_topic(self.prefix, name)] for name in EVENT_TOPICS)
            left["events"] = events - databases.number(self.owner_url, "events_taken")
        found = [f"{query}: {count} records" for query, count in left.items() if count > 0]
        if databases.number(self.owner_url, "watermark") < self._clock_ms:
            found.append("its clock, behind the last record")
        return found or databases.open_work(self.owner_url)

    def fall_silent(self) -> None:
        """Let the run's clock go on behind its last record, so that timers run out as live: trips end."""
        self._clock_ms = self.run.received_until_ms + AFTER_MS
        clock = Writer(self.live.kafka_bootstrap, kafka_topic(self.prefix, CLOCK))
        clock.write([(0, b"receipt", b"", self._clock_ms + 1000 * self._skew_s, [])])

    def settle(self, supervisor: Supervisor, ends: Ends, stop: threading.Event, say: Say) -> None:
        """Wait until its jobs and periodic tasks are through; raises ServiceError where they get stuck."""
        left, since_s = list[str](), time.monotonic()
        while now := self.behind(ends):
            self.watch(supervisor)
            if now != left:
                say(f"run {self.run.run_id}: left: {'; '.join(now)}")
                left, since_s = now, time.monotonic()
            if time.monotonic() - since_s > STUCK_S:
                raise ServiceError(
                    f"run {self.run.run_id}: no step in {STUCK_S:g} s, left: {'; '.join(now)}. Its logs: "
                    f"{self.home / 'logs'}; the same command with its --run goes on from here"
                )
            if stop.wait(SETTLE_POLL_S):
                raise ServiceError(feed.STOPPED)


def watch(run_id: str) -> None:
    """Become the dashboard of a run, on a port of its own."""
    settings = load()
    run, home = runs.load(settings.paths.home, run_id), folder_of(settings.paths.home, run_id)
    with connected(database_url.with_name(endpoints(settings).db_owner_url, run.database)) as own:
        promote.on_its_clock(own)
    command = (*odograph(DASHBOARD), "--port", str(free_port(())))
    os.execve(command[0], command, {**os.environ, f"{PREFIX}PATHS_HOME": str(home)})  # noqa: S606  our own


def drop(run_id: str) -> None:
    """Remove all of a run: programs, topics, database, checkpoints, folder; raises ConfigError while serving
    reads it.

    The run's own file goes last: while it is there the run is known, and a killed drop can be done again.
    """
    settings = load()
    if run_id in runs.not_begun(settings.paths.home):
        with runs.held(settings.paths.home, run_id):
            return  # nothing of it stays
    run, addresses = runs.load(settings.paths.home, run_id), endpoints(settings)
    with runs.held(settings.paths.home, run_id):
        with connected(addresses.db_owner_url) as live:
            promote.forget(live, run)
        shadow = Shadow(run, settings, addresses)
        processes.stop_all(shadow.home / "run", 30.0)
        kafka.delete_topics(addresses.kafka_bootstrap, shadow.prefix)
        databases.drop(addresses.db_owner_url, run.database)
        if settings.paths.checkpoints:
            with spark_when_asked(settings, "drop", 512, LOCAL) as session:
                beside = checkpoint_files(settings, session, f".{run_id}")
                if beside.names(""):
                    beside.remove("")
        for path in shadow.home.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (FILE, LOCK):
                path.unlink()
        (shadow.home / FILE).unlink(missing_ok=True)  # so nothing of it stays


def stored(settings: Settings, run: Run, partitions: int) -> Stored:
    """The records of a run, for a topic of so many partitions."""
    home = settings.paths.home.absolute()
    folder = folder_of(home, run.run_id) / INPUT
    if run.source == ARCHIVE:
        folder = archive_of(home)
    elif run.source.startswith(DAY):
        folder = home / "days" / run.source.removeprefix(DAY)
    late_ms = max(run.late_until_ms, run.received_until_ms)
    return Stored(folder, run.received, run.span, late_ms, run.vehicles, partitions)


def run_shadow(settings: Settings, live: Endpoints, run: Run, stop: threading.Event, say: Say) -> Run:
    """Run it, or go on with it where an earlier attempt ended; raises ServiceError, ConfigError."""
    begun_s = time.monotonic()
    shadow, bootstrap = Shadow(run, settings, live), live.kafka_bootstrap
    topics = topics_of(bootstrap)
    kept = len(topics[shadow.topic].partitions) if shadow.topic in topics else settings.kafka.partitions
    records = stored(settings, run, kept)
    plan = records.plan(feed.bounds_of(run.speed))
    total = sum(part.records for part in plan)
    run = runs.save(settings.paths.home, replace(run, records=total))
    say(f"run {run.run_id}: {run.records} records in {len(plan)} slices")
    shadow.prepare()
    source, target = (kafka_topic(prefix, "crash") for prefix in (settings.kafka.prefix, shadow.prefix))
    crashes = feed.copy_crashes(bootstrap, source, target, *run.received, run.vehicles)
    say(f"run {run.run_id}: database {run.database}, topics {shadow.prefix}*, {crashes} crash records")
    say(f"run {run.run_id}: starting {', '.join(run.jobs)}: about half a minute")
    with shadow.running(stop) as supervisor:
        fed_s = time.monotonic()
        say(f"run {run.run_id}: {', '.join(run.jobs)} ready after {fed_s - begun_s:.0f} s")
        if DASHBOARD in run.jobs:
            say(f"run {run.run_id}: watch it at {runs.watched(settings)[run.run_id]}")
        writer = Writer(bootstrap, shadow.topic)
        with Log(bootstrap) as log, feed.progress(total) as show:
            taken = partial(shadow.taken, supervisor)
            feed.feed(plan, log.ends(shadow.topic), run.speed, records.read, writer.rows, taken, show, stop)
            ends = log.ends(shadow.topic)
        run = runs.save(settings.paths.home, replace(run, state="fed"))
        shadow.settle(supervisor, ends, stop, say)
        if run.source.startswith(DRIVES):  # the recording is over: time goes on, and nothing comes
            shadow.fall_silent()
            shadow.settle(supervisor, ends, stop, say)
        took_s = time.monotonic() - fed_s
    total_s = run.total_s + time.monotonic() - begun_s
    done = replace(run, state="done", feed_s=round(run.feed_s + took_s, 1), total_s=round(total_s, 1))
    return runs.save(settings.paths.home, done)
