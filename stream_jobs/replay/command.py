"""What ``odograph replay`` does, from the options of the command line on."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import infra
from infra.clients.health import stopped_by_signals
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import PREFIX, Endpoints, Settings, endpoints, known_variables, load
from infra.settings.values import duration_ms, moment_ms
from stream_jobs.replay import compare, databases, runs, shadow, sources
from stream_jobs.replay.feed import bounds_of
from stream_jobs.replay.log import Log, partitions_of
from stream_jobs.replay.runs import Run, folder_of
from stream_jobs.replay.shadow import JOBS, TOPIC, Say
from stream_jobs.replay.sources import Reach, offsets, speed_of, vehicles

LIVE_SPEED: Final = "60"
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
ROOT: Final = Path(infra.__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Wanted:
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


def replay(wanted: Wanted, say: Say, *, as_json: bool) -> bool:
    """Do what is wanted; False where --verify finds a difference. Raises ConfigError, ServiceError."""
    given = [w for w in (wanted.day, wanted.from_offset, wanted.from_time) if w is not None]
    if len(given) != 1:
        raise ConfigError("one of --day, --from-offset, --from-time or --drives is wanted; see --help")
    if wanted.into == "live" and (wanted.verify or wanted.settings or wanted.run):
        raise ConfigError(
            "--verify, --set and --run belong to --into shadow: the live jobs are compared, not changed"
        )
    settings = load()
    live = endpoints(settings)
    with _space_wanted(settings.paths.home), stopped_by_signals() as stop:
        if wanted.into == "live":
            return _into_live(wanted, settings, live, stop, say)
        run = _run_of(wanted, settings, live, say)
        with runs.held(settings.paths.home, run.run_id):
            run, dropped, left_out = shadow.run_shadow(settings, live, run, stop, say)
    rate = run.records / run.feed_s if run.feed_s else 0.0
    took = f"{run.feed_s:.0f} s ({rate:.0f}/s), {run.total_s:.0f} s in all"
    say(f"run {run.run_id}: {run.records} records in {took}")
    if dropped:
        raise ServiceError(
            f"run {run.run_id}: Spark dropped {dropped} rows behind its watermark: its windows "
            "lack them and it must not be promoted; drop it and report this"
        )
    for line in left_out[: shadow.NAMED]:
        say(f"run {run.run_id}: dead-lettered: {line}")
    return _verified(settings, live, run, say, as_json) if wanted.verify else True


@contextmanager
def _space_wanted(home: Path) -> Iterator[None]:
    """A full disk becomes a ServiceError that says where, and how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise ServiceError(
            f"replay: {error} (runs lie in {home.absolute() / 'replays'}). "
            "With space the same command again goes on from here"
        ) from error


def _run_of(wanted: Wanted, settings: Settings, live: Endpoints, say: Say) -> Run:
    """The run that is begun, or the kept one that goes on; raises ConfigError where they do not fit."""
    home = settings.paths.home.absolute()
    given, some = settings_given(wanted.settings), vehicles(wanted.vehicles)
    limits = clock_limits(settings)
    reach = Reach(limits.ahead_ms, limits.lateness_ms, duration_ms(wanted.lead, "--lead"))
    run_id = runs.check_id(wanted.run) if wanted.run else _next_id(home, wanted.into)
    kept = runs.load(home, run_id) if (folder_of(home, run_id) / runs.FILE).exists() else None
    at = datetime.now(UTC)
    now_ms = int(at.timestamp() * 1000)
    if wanted.day is not None:
        source = sources.of_day(home, wanted.day, settings.tz, reach, now_ms)
    elif kept is None:
        with runs.held(home, run_id):
            source, partial = _out_of_the_log(wanted, settings, live, folder_of(home, run_id), reach, say)
        some = some or partial
    if kept is not None:
        if wanted.day is None or (source.name, source.event.since_ms) == (kept.source, kept.since_ms):
            source = sources.Source(kept.source, kept.span, kept.received)  # today has grown meanwhile
        some = some or kept.vehicles
    speed = wanted.speed or (LIVE_SPEED if wanted.into == "live" else "max")
    now = Run(
        run_id, source.name, source.event.since_ms, source.event.until_ms, source.received.since_ms,
        source.received.until_ms, now_ms - sources.ARCHIVED_MS, some, speed_of(speed), jobs_of(wanted.jobs),
        given, runs.code_digest(ROOT, runs.with_settings(given)), begun_at=at.isoformat(timespec="seconds"),
    )  # fmt: skip
    if kept is None:
        return now
    runs.same_jobs(kept, now)
    say(f"run {run_id} goes on: it was {kept.state}")
    return kept


def _out_of_the_log(
    wanted: Wanted, settings: Settings, live: Endpoints, folder: Path, reach: Reach, say: Say
) -> tuple[sources.Source, tuple[str, ...]]:
    topic = kafka_topic(settings.kafka.prefix, TOPIC)
    with Log(live.kafka_bootstrap) as log:
        if wanted.from_time is not None:
            at_ms = moment_ms(wanted.from_time, "--from-time")
            taken = sources.since_time(log, topic, at_ms)
        else:
            assert wanted.from_offset is not None
            asked = offsets(wanted.from_offset, partitions_of(TOPIC))
            taken = sources.since_offsets(log, topic, asked)
    say(f"taking {sum(end - begin for begin, end in taken.values())} records of {topic} out of the log")
    grid_ms = max(settings.jobs.road_window_s * 1000, 60_000)
    return sources.take(
        live.kafka_bootstrap, topic, taken, folder / "input", reach, grid_ms, clock_limits(settings)
    )


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
    taken = {run.run_id for run in runs.all_runs(home)}
    return next(name for n in range(1, 10_000) if (name := f"{base}_{n}") not in taken)


def _into_live(wanted: Wanted, settings: Settings, live: Endpoints, stop: threading.Event, say: Say) -> bool:
    """The records into the live topic, by consent only."""
    run = _run_of(wanted, settings, live, say)
    try:
        source = shadow.stored(settings, run)
        count = sum(p.records for p in source.plan(bounds_of(run.speed)))
        topic = kafka_topic(settings.kafka.prefix, TOPIC)
        meaning = (
            f"{count} records go into the live topic {topic}, received now. Each counts as late: the stream "
            "leaves its windows as they are, the batch layer restates those that lack it, and what was "
            "counted before is a duplicate in the ledger. Nothing takes them out again"
        )
        if not wanted.yes:
            raise ConfigError(
                f"--into live: {meaning}. With --yes it is done; --into shadow touches nothing that is live"
            )
        say(meaning)
        sent = shadow.into_live(settings, live, source, run.speed, stop)
        say(f"{sent} records sent")
        return True
    finally:
        shutil.rmtree(folder_of(settings.paths.home, run.run_id), ignore_errors=True)


def _verified(settings: Settings, live: Endpoints, run: Run, say: Say, as_json: bool) -> bool:
    span = {"since_ms": run.since_ms, "until_ms": run.until_ms}
    late = databases.number(live.db_owner_url, databases.LATE_OPEN, span)
    if late:
        say(f"live: {late} late frames of this span wait for their repair; the run has them already")
    verdicts = shadow.compared(live, run, lambda table: table.windows, compare.printer(as_json=as_json))
    if as_json:
        sys.stdout.write(compare.as_json(verdicts))
    equal = all(verdict.equal for verdict in verdicts)
    runs.save(settings.paths.home, replace(run, state="verified" if equal else "different"))
    say(f"run {run.run_id}: {'every window is equal' if equal else 'different from live'}")
    return equal
