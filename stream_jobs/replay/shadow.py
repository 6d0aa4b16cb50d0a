"""A shadow run: the same jobs in a home, topics and a database of their own, beside the live ones."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from infra.clients import database_url
from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic
from infra.settings.settings import ENDPOINTS_FILE, PREFIX, Endpoints, Settings
from infra.stack import kafka, postgres, processes, query_offsets
from infra.stack.probes import readyz
from infra.stack.processes import guarded
from infra.stack.service import free_port
from infra.stack.stack import with_database
from infra.stack.supervisor import Backoff, Program, Supervisor, odograph, read_state
from stream_jobs.replay import databases
from stream_jobs.replay.feed import Ends
from stream_jobs.replay.log import partitions_of
from stream_jobs.replay.runs import FILE, LOCK, Run, folder_of

TOPIC: Final = "telemetry"
JOBS: Final = {
    "stream": (Program("jobs", odograph("jobs", "stream")), Program("maintenance", odograph("maintenance"))),
    "instant": (Program("instant", odograph("jobs", "instant")),),
    "events": (Program("events", odograph("jobs", "events")),),
}
"""What can run beside the live jobs; downlink, bridge and dashboard never do."""
QUERIES: Final = {
    "stream": ("telemetry", "archive"),
    "instant": ("instant",),
    "events": (),
}
STATEFUL: Final = ("telemetry",)
"""Queries whose watermark must not be outrun."""
EVENT_TOPICS: Final = ("alerts", "crash", "status", "dead-letter")
RESTARTS: Final = 3
"""A program that ended so often will end again."""
TICK_S: Final = 0.2
ROOM_BYTES: Final = 1 << 20
"""Less than a program needs to begin: its disk is full."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A run and where it runs; ``overrides``: variables of its programs beside its settings."""

    run: Run
    settings: Settings
    live: Endpoints
    overrides: Mapping[str, str]

    @property
    def home(self) -> Path:
        """Its home, as that of any installation."""
        return folder_of(self.settings.paths.home, self.run.run_id)

    @property
    def prefix(self) -> str:
        """Of its topics."""
        return f"{self.settings.kafka.prefix}run-{self.run.run_id}."

    @property
    def topic(self) -> str:
        """Its telemetry topic."""
        return kafka_topic(self.prefix, TOPIC)

    @property
    def owner_url(self) -> str:
        """Its database, as its owner."""
        return database_url.with_name(self.live.db_owner_url, self.run.database)

    def prepare(self) -> None:
        """Database, topics, addresses and what jobs look up in files; what is there stays."""
        databases.create(self.live.db_owner_url, self.run.database)
        kafka.create_topics(self.live.kafka_bootstrap, self.prefix, for_ever=True)
        self._look_up()
        chosen: dict[str, int] = {}
        for program in chain.from_iterable(JOBS.values()):
            chosen[program.name] = free_port(chosen.values())
        own = replace(with_database(self.live, self.run.database), http_ports=chosen)
        postgres.write_private(self.home / ENDPOINTS_FILE, json.dumps(asdict(own), indent=1))

    def _look_up(self) -> None:
        """The live lookups as they are at the begin of the run, all of them or none."""
        given, own = self.settings.paths.home.absolute() / "lookups", self.home / "lookups"
        if given.exists() and not own.exists():
            half = self.home / ".lookups.new"
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(given, half)
            half.rename(own)

    @contextmanager
    def running(self) -> Iterator[Supervisor]:
        """Its programs while the block runs; ended however this process ends."""
        with (
            guarded(self.home),
            Supervisor(
                self.home, self._programs(), _quiet, Backoff(good_s=600.0), self._environment()
            ) as supervisor,
        ):
            yield supervisor

    def _programs(self) -> list[Program]:
        return [program for name in self.run.jobs for program in JOBS[name]]

    def _environment(self) -> dict[str, str]:
        own = {
            "PATHS_HOME": str(self.home),
            "PATHS_CACHE": str(self.settings.paths.cache.absolute()),
            "KAFKA_PREFIX": self.prefix,
        }
        variables = {f"{PREFIX}{name}": value for name, value in (own | dict(self.overrides)).items()}
        return {**os.environ, **variables, **{f"{PREFIX}{k}": v for k, v in self.run.settings.items()}}

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
                        "With space the same command again goes on from here"
                    )
                raise ServiceError(
                    f"run {self.run.run_id}: {name} ended with {kept.get('last_exit')} again and again; "
                    f"its log {log}:\n{processes.log_tail(log)}"
                )

    def wait_ready(self, supervisor: Supervisor, stop: threading.Event) -> None:
        """Wait until every program serves; raises ServiceError."""
        own = json.loads((self.home / ENDPOINTS_FILE).read_text())["http_ports"]
        waiting = {program.name for program in self._programs()}
        while waiting:
            self.watch(supervisor)
            waiting = {name for name in waiting if readyz(own[name]) is not None}
            if waiting and stop.wait(TICK_S):
                raise ServiceError("stopped; the same command again goes on from here")

    def taken(self) -> Ends | None:
        """By partition what all queries with state have taken in; None before they have begun."""
        if "stream" not in self.run.jobs:
            return None
        ends = [self._committed(query) for query in STATEFUL]
        return None if None in ends else tuple(map(min, zip(*(e for e in ends if e), strict=True)))

    def _committed(self, query: str) -> Ends | None:
        found = query_offsets.committed(self.home, query)
        if found is None:
            return None
        ends = found.ends.get(self.topic, {})
        return tuple(ends.get(p, 0) for p in range(partitions_of(TOPIC)))

    def behind(self, ends: Ends) -> list[str]:
        """What of the run's jobs has not taken in all that is in its topics; [] when they are through."""
        queries = [query for job in self.run.jobs for query in QUERIES[job]]
        left = {query: sum(ends) - sum(self._committed(query) or ()) for query in queries}
        told = [f"{query}: {count} records" for query, count in left.items() if count > 0]
        if "events" in self.run.jobs and not told:
            counts = kafka.records_by_topic(self.live.kafka_bootstrap, self.prefix)
            events = sum(counts[kafka_topic(self.prefix, name)] for name in EVENT_TOPICS)
            count = events - databases.event_offsets(self.owner_url)
            told += [f"events: {count} records"] if count > 0 else []
        return told or databases.open_work(self.owner_url)

    def drop(self) -> None:
        """Its programs, topics, database and folder. The run's own file goes last: as long as it is there the
        run is known, and one whose drop was killed can be dropped again.
        """
        processes.stop_all(self.home / "run", 30.0)
        kafka.delete_topics(self.live.kafka_bootstrap, self.prefix)
        databases.drop(self.live.db_owner_url, self.run.database)
        _empty(self.home)
        (self.home / FILE).unlink(missing_ok=True)
        shutil.rmtree(self.home, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Remove what lies in a run's folder, but the run's own file and its lock."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (FILE, LOCK):
            path.unlink()


def _quiet(_text: str) -> None:
    """Starts and ends of its programs stand in their logs."""
