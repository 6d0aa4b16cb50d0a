"""What ``odograph replay`` does, from the options of the command line on."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

import infra
from edge_simulator.recordings import replay as recordings
from edge_simulator.recordings.checks import told
from infra.clients import database_url
from infra.clients.db import Connection, system_user
from infra.clients.health import stopped_by_signals
from infra.clients.tables import aligned
from infra.contract.errors import NO_SPACE, ConfigError, OdographError, ServiceError
from infra.contract.topics import kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import PREFIX, Endpoints, Settings, endpoints, known_variables, load
from infra.settings.values import duration_ms, moment_ms
from stream_jobs.replay import databases, promote, records, runs, shadow
from stream_jobs.replay.databases import Table
from stream_jobs.replay.feed import Writer, bounds_of, feed, progress
from stream_jobs.replay.records import Log, Source, Span
from stream_jobs.replay.runs import Run, folder_of
from stream_jobs.replay.shadow import JOBS, TOPIC, Say

LIVE_SPEED: Final = "60"
PROGRAMS: Final = "stream,instant,events"
ONE_SOURCE: Final = "one of --day, --from-offset, --from-time or --drives is wanted; see --help"
ROOT: Final = Path(infra.__file__).parents[1]


class Wanted(NamedTuple):
    """The options of the command."""

    day: str | None
    from_offset: str | None
    from_time: str | None
    speed: str | None
    vehicles: tuple[str, ...]
    into: str
    verify: bool
    run: str | None
    jobs: str
    settings: tuple[str, ...]
    lead: str
    yes: bool
    drives: Path | None = None
    mapping: Path | None = None
    start: str = "now"


def replay(wanted: Wanted, say: Say, *, as_json: bool) -> bool:
    """Do what is wanted; False where --verify finds a difference. Raises ConfigError, ServiceError."""
    sources = (wanted.day, wanted.from_offset, wanted.from_time, wanted.drives)
    if len([source for source in sources if source is not None]) != 1:
        raise ConfigError(ONE_SOURCE)
    if wanted.into == "live" and (wanted.verify or wanted.settings or wanted.run):
        raise ConfigError(
            "--verify, --set and --run belong to --into shadow: the live jobs are compared, not changed"
        )
    settings = load()
    home, live = settings.paths.home, endpoints(settings)
    try:
        with stopped_by_signals() as stop, _run_of(wanted, settings, live, say) as begun:
            if wanted.into == "live":
                _into_live(begun, wanted.yes, settings, live, stop, say)
                return True
            run = shadow.run_shadow(settings, live, begun, stop, say)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise ServiceError(
            f"replay: {error} (runs lie in {home.absolute() / 'replays'}). "
            "With space the same command with its --run goes on from here"
        ) from error
    rate = run.records / run.feed_s if run.feed_s else 0.0
    took = f"{run.feed_s:.0f} s ({rate:.0f}/s), {run.total_s:.0f} s in all"
    say(f"run {run.run_id}: {run.records} records in {took}")
    own_url = database_url.with_name(live.db_owner_url, run.database)
    if dropped := databases.number(own_url, "dropped_late"):
        runs.save(home, replace(run, state="fed"))  # so that it can be neither promoted nor compared
        raise ServiceError(
            f"run {run.run_id}: Spark dropped {dropped} rows behind its watermark: its windows "
            "lack them and it must not be promoted; drop it and report this"
        )
    for _, line in databases.asked(own_url, databases.SQL["dead"])[: databases.NAMED]:
        say(f"run {run.run_id}: dead-lettered: {line}")
    if run.source.startswith(records.DRIVES):
        _drives_told(home, run, own_url, as_json)
        say(f"run {run.run_id}: odograph replay watch, promote (keep it) or drop {run.run_id}")
    return _verified(home, live, run, say, as_json) if wanted.verify else True


def _verified(home: Path, live: Endpoints, run: Run, say: Say, as_json: bool) -> bool:
    if late := databases.number(live.db_owner_url, "late_open", asdict(run)):
        say(f"live: {late} late frames of this span wait for their repair; the run has them already")
    equal = compared(run.run_id, lambda table: table.windows, as_json)
    runs.save(home, replace(run, state="verified" if equal else "different"))
    say(f"run {run.run_id}: {'every window is equal' if equal else 'different from live'}")
    return equal


def _drives_told(home: Path, run: Run, own_url: str, as_json: bool) -> None:
    drives = runs.drives_of(folder_of(home, run.run_id))["drives"]
    for drive in drives:
        drive.update({name: databases.number(own_url, name, drive) for name in ("trips", "alerts")})
    typer.echo(json.dumps(asdict(run) | {"drives": drives}) if as_json else told(drives), nl=as_json)


@contextmanager
def opened(run_id: str) -> Iterator[tuple[Run, Connection, Connection]]:
    """A run that is done, the live database and its own; raises ConfigError, ServiceError."""
    settings = load()
    run, live_url = runs.load(settings.paths.home, run_id, done=True), endpoints(settings).db_owner_url
    own_url = database_url.with_name(live_url, run.database)
    acting = databases.connected(live_url, actor=system_user())
    with acting as live, databases.connected(own_url) as own:
        yield run, live, own


@contextmanager
def _run_of(wanted: Wanted, settings: Settings, live: Endpoints, say: Say) -> Iterator[Run]:
    """The run that is begun, or the kept one that goes on, held; raises ConfigError where they do not fit."""
    home, at = settings.paths.home.absolute(), datetime.now(UTC)
    given, some = settings_given(wanted.settings), records.vehicles(wanted.vehicles)
    # The live jobs need no run-up: they would get the hour before a second time.
    lead_ms = 0 if wanted.into == "live" else duration_ms(wanted.lead, "--lead")
    limits = clock_limits(settings)
    speed = records.speed_of(wanted.speed or (LIVE_SPEED if wanted.into == "live" else "max"))
    jobs, code = jobs_of(wanted.jobs), runs.code_digest(ROOT, runs.with_settings(given))
    run_id = runs.check_id(wanted.run) if wanted.run else _next_id(home, wanted.into)
    folder = folder_of(home, run_id)
    now_ms, day = int(at.timestamp() * 1000), wanted.day
    source = None if day is None else records.of_day(home, day, settings.tz, limits, lead_ms, now_ms)
    with runs.held(home, run_id):
        if (folder / runs.FILE).exists():
            kept = runs.load(home, run_id)
            asked = _told(source.name, source.event) if source else _asked(wanted)
            if asked != _told(kept.source, kept.span):  # its end may differ: today has grown meanwhile
                raise ConfigError(
                    f"run {run_id} is of {_told(kept.source, kept.span)}, not of {asked}. Drop it "
                    f"(odograph replay drop {run_id}) or give another --run"
                )
            runs.same_jobs(kept, vehicles=some or kept.vehicles, jobs=jobs, settings=given, code=code)
            say(f"run {run_id} goes on: it was {kept.state}")
            yield kept
            return
        if wanted.drives is not None:
            source = _of_drives(wanted, wanted.drives, settings, folder, lead_ms)
        elif source is None:
            source = _out_of_the_log(wanted, settings, live, folder, say)
        times = (*source.event, *source.received, now_ms - records.ARCHIVED_MS)
        some, begun_at = some or source.vehicles, at.isoformat(timespec="seconds")
        yield Run(run_id, source.name, *times, some, speed, jobs, given, code, begun_at=begun_at)


def _asked(wanted: Wanted) -> str:
    """Of drives and of a stretch of the log the name that run.json keeps: what was asked for."""
    if wanted.drives is not None:
        return f"{records.DRIVES}{wanted.drives.absolute()}"
    if wanted.from_time is None:
        return f"{records.LOG} from {wanted.from_offset}"
    at = datetime.fromtimestamp(moment_ms(wanted.from_time, "--from-time") / 1000, UTC)
    return f"{records.LOG} from {at.isoformat()}"


def _told(source: str, span: Span) -> str:
    """A source as people tell two apart: of a day with its begin."""
    is_day = source.startswith((records.ARCHIVE, records.DAY))
    return f"{source} from {span.since.isoformat()}" if is_day else source


def _of_drives(wanted: Wanted, drives: Path, settings: Settings, folder: Path, lead_ms: int) -> Source:
    """Recorded drives as a day of the run's own, received as they were recorded."""
    convoy = recordings.convoy(drives, wanted.mapping, float("inf"), recordings.parse_start(wanted.start))
    shutil.rmtree(folder / records.INPUT, ignore_errors=True)
    recordings.make(convoy, settings, records.INPUT, folder)
    made = runs.drives_of(folder)
    span = Span(made["start_ms"] // 60_000 * 60_000, -(-made["end_ms"] // 60_000) * 60_000)
    received = records.received(span, clock_limits(settings), lead_ms)
    return Source(_asked(wanted), span, received, tuple(sorted(set(convoy.vehicle_ids))))


def _out_of_the_log(wanted: Wanted, settings: Settings, live: Endpoints, folder: Path, say: Say) -> Source:
    topic, bootstrap = kafka_topic(settings.kafka.prefix, TOPIC), live.kafka_bootstrap
    with Log(bootstrap) as log:
        partitions = log.partitions(topic)
        if wanted.from_time is not None:
            at_ms = moment_ms(wanted.from_time, "--from-time")
            begins = {partition: log.since(topic, partition, at_ms) for partition in range(partitions)}
        else:
            begins = records.offsets(wanted.from_offset or "", partitions)
        taken = records.stretch(log, topic, begins)
    say(f"taking {sum(end - begin for begin, end in taken.values())} records of {topic} out of the log")
    grid_ms = max(settings.jobs.road_window_s * 1000, 60_000)
    source = records.take(bootstrap, topic, taken, folder / records.INPUT, clock_limits(settings), grid_ms)
    begin, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (source.event.since, source.event.until))
    say(f"windows from {begin} to {end} UTC are whole in them")  # Kafka may keep less than was asked for
    return source._replace(name=_asked(wanted))


def settings_given(words: tuple[str, ...]) -> dict[str, str]:
    """``jobs.window_s=20`` as variables without their prefix; raises ConfigError."""
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        variable = name.replace(".", "_", 1).upper()
        if not equals or f"{PREFIX}{variable}" not in known_variables():
            raise ConfigError(
                f"--set {word!r}: a setting such as jobs.window_s=20; odograph config lists them"
            )
        if variable.split("_")[0] in ("PATHS", "KAFKA", "DB", "MQTT", "BRIDGE", "DASHBOARD", "DOWNLINK"):
            raise ConfigError(f"--set {word!r}: a run has services and places of its own")
        given[variable] = value
    runs.with_settings(given)  # a wrong value is named here, not by a job's log
    return given


def jobs_of(text: str) -> tuple[str, ...]:
    """Programs of a run; raises ConfigError."""
    found = tuple(dict.fromkeys(text.split(",")))
    if not set(found) <= set(JOBS) or "stream" not in found:
        raise ConfigError(f"--jobs {text!r}: stream, and of {', '.join(JOBS)} what else is wanted")
    return found


def _next_id(home: Path, into: str) -> str:
    if into == "live":
        return f"live_{os.getpid()}"  # no run: only what is taken out of the log lies there meanwhile
    base = datetime.now(UTC).strftime("r%m%d")
    taken = {run.run_id for run in runs.all_runs(home)}.union(runs.not_begun(home))
    return next(name for n in range(1, 10_000) if (name := f"{base}_{n}") not in taken)


def _into_live(
    run: Run, yes: bool, settings: Settings, live: Endpoints, stop: threading.Event, say: Say
) -> None:
    """The records into the live topic, received now (before: in a header), by consent only."""
    topic = kafka_topic(settings.kafka.prefix, TOPIC)
    source = shadow.stored(settings, run, 1)
    plan = source.plan(bounds_of(run.speed))
    count = sum(part.records for part in plan)
    meaning = (
        f"{count} records go into the live topic {topic}, received now. Each counts as late: the stream "
        "leaves its windows as they are, the batch layer restates those that lack it, and what was "
        "counted before is a duplicate in the ledger. Nothing takes them out again"
    )
    if not yes:
        raise ConfigError(
            f"--into live: {meaning}. With --yes it is done; --into shadow touches nothing that is live"
        )
    say(meaning)
    with Log(live.kafka_bootstrap) as log:
        source = replace(source, partitions=log.partitions(topic))
    writer = Writer(live.kafka_bootstrap, topic)
    try:
        with progress(count) as show:
            feed(
                plan, (0,), run.speed, source.read,
                lambda rows, skip: writer.rows(rows, skip, now_ms=time.time_ns() // 1_000_000),
                lambda: (writer.sent.total(),), show, stop,
            )  # fmt: skip
    except ServiceError as error:
        if not stop.is_set():
            raise
        raise ServiceError(
            f"stopped after {writer.sent.total()} records; sent again they count as duplicates"
        ) from error
    say(f"{writer.sent.total()} records sent")


def compared(run_id: str, wanted: Callable[[Table], bool], as_json: bool) -> bool:
    """Whether each table of ``wanted`` is equal in the run's and the live database: each is told at once."""
    verdicts = []
    with opened(run_id) as (run, live, own):
        for verdict in databases.compared(live, own, run, wanted):
            verdicts.append(verdict)
            if not as_json:
                typer.echo(databases.table_line(verdict))
    if as_json:
        typer.echo(json.dumps([asdict(v) | {"equal": v.equal} for v in verdicts], default=str))
    return all(verdict.equal for verdict in verdicts)


def listed(as_json: bool) -> str:
    """All runs: what of, how far, promoted or not; and what has not begun to be one."""
    home = load().paths.home
    found = runs.all_runs(home)
    names = (
        "run", "state", "read", "source", "since", "until", "records", "vehicles", "changed", "feed_s"
    )  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (
            run.run_id, run.state, read, run.source, run.span.since.isoformat(timespec="minutes"),
            run.span.until.isoformat(timespec="minutes"), run.records, whose(run, "all"), run.changed(),
            run.feed_s,
        )
        for run, read in zip(found, promotions(found), strict=True)
    ]  # fmt: skip
    rows += [(name, "not begun", *[None] * (len(names) - 2)) for name in runs.not_begun(home)]
    if as_json:
        return json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    return aligned(rows, names) if rows else "no run"


def whose(run: Run, everybody: str) -> str:
    """Of which vehicles it is."""
    return f"{len(run.vehicles)} vehicles" if run.vehicles else everybody


def promotions(found: Sequence[Run]) -> list[str]:
    """Whether serving reads them."""
    try:
        with databases.connected(endpoints(load()).db_owner_url) as live:
            return [promote.state_of(live, run.run_id) or "not promoted" for run in found]
    except OdographError:
        return ["not known"] * len(found)  # the database is away
