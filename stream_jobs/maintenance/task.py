"""Periodic tasks, each in a thread of its own: an error of one is reported and touches no other."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import Connection, Database, execute, insert_row
from stream_jobs.app.statements import on_conflict
from stream_jobs.app.topic_writer import dead_lettering

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
REPORT_S: Final = 2.0
JOIN_S: Final = 30.0
ERROR_CHARS: Final = 500

_FORGET: Final = """
DELETE FROM odograph.maintenance_task WHERE process = %(process)s AND NOT task = ANY(%(tasks)s)
"""
_KEYS: Final = ("process", "task")
log = structlog.get_logger("stream_jobs.maintenance")


class TaskMetrics:
    """Prometheus metrics of periodic tasks, labelled by task."""

    def __init__(self, registry: CollectorRegistry) -> None:
        own, label = "odograph_maintenance_task_", ["task"]
        self.runs = Counter(f"{own}runs", "Runs that succeeded", label, registry=registry)
        self.failures = Counter(f"{own}failures", "Runs that ended by an error", label, registry=registry)
        self.failing = Gauge(f"{own}failing", "1 while the last run failed", label, registry=registry)
        success = "End of the last run that succeeded, s since 1970"
        self.success = Gauge(f"{own}last_success_seconds", success, label, registry=registry)
        self.duration = Gauge(f"{own}run_seconds", "Duration of the last run", label, registry=registry)


class TaskState(NamedTuple):
    """How a task does; columns of odograph.maintenance_task."""

    run_at: datetime | None = None
    run_s: float | None = None
    success_at: datetime | None = None
    failures: int = 0
    failing_since: datetime | None = None
    error: str | None = None


@dataclass(slots=True)
class PeriodicTask:
    """Calls ``work`` ``interval_s`` after its last end, again and again; after an error after a back-off."""

    name: str
    interval_s: float
    work: Callable[[], Any]
    state: TaskState = field(default_factory=TaskState)

    def run(self, stop: threading.Event, metrics: TaskMetrics) -> None:
        failures, pause_s = metrics.failures.labels(self.name), self.interval_s
        while not stop.wait(pause_s):
            began_s = time.monotonic()
            was = self.state = self.state._replace(run_at=datetime.now(UTC))
            try:
                self.work()
            except Exception as error:  # noqa: BLE001  of whatever kind, it ends neither the task nor another one
                if stop.is_set():  # what is under way is given up at the end
                    return
                pause_s = FIRST_PAUSE_S if was.error is None else min(LONGEST_PAUSE_S, 2 * pause_s)
                text = " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_CHARS]
                since = was.failing_since or datetime.now(UTC)
                self.state = was._replace(error=text, failures=was.failures + 1, failing_since=since)
                failures.inc()
                log.error("task failed, trying again", task=self.name, error=text, pause_s=pause_s)
            else:
                if was.error is not None:
                    log.info("task succeeds again", task=self.name, failures=was.failures)
                pause_s, now = self.interval_s, datetime.now(UTC)
                self.state = was._replace(success_at=now, failing_since=None, error=None)
                metrics.runs.labels(self.name).inc()
                metrics.success.labels(self.name).set(now.timestamp())
            took_s = time.monotonic() - began_s
            self.state = self.state._replace(run_s=round(took_s, 3))
            metrics.failing.labels(self.name).set(self.state.error is not None)
            metrics.duration.labels(self.name).set(took_s)

    def problem(self) -> str | None:
        """What is wrong with it, since when; None where its last run succeeded."""
        if self.state.failing_since is None:
            return None
        since = f"{self.state.failing_since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.name}: {self.state.error} (failing since {since}, {self.state.failures} failures)"


class TaskRunner:
    """The threads of a process that work on the database: its tasks, and a connection for each.

    Both live in the block of ``until``; the tasks report there how they do to the database.
    """

    def __init__(
        self, process: str, settings: Settings, addresses: Endpoints, registry: CollectorRegistry
    ) -> None:
        self._process, self._settings, self._addresses = process, settings, addresses
        self._metrics = TaskMetrics(registry)
        self._stop = threading.Event()
        self._databases: list[Database] = []
        self._tasks: list[PeriodicTask] = []
        self._threads: list[threading.Thread] = []
        self._reported: dict[str, TaskState] = {}

    @contextmanager
    def until(self, stop: threading.Event) -> Iterator[None]:
        """What is opened and started in the block works until ``stop`` is set, as it must be at the end.

        What a task does then is waited for, ``JOIN_S`` for all of them at most.
        """
        self._stop = stop
        try:
            yield
        finally:
            end = time.monotonic() + JOIN_S
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()))
            for database in self._databases:
                database.close()
            self._databases, self._tasks, self._threads, self._reported = [], [], [], {}

    def database(self, name: str) -> Database:
        """A connection for one thread."""
        database = dead_lettering(self._settings, self._addresses, name, self._stop)
        self._databases.append(database)
        return database

    def database_problem(self) -> str | None:
        """Why the database cannot be reached at present, None where it can."""
        return next((each.problem for each in self._databases if each.problem), None)

    def start(self, tasks: Sequence[PeriodicTask]) -> None:
        report = PeriodicTask("report", REPORT_S, partial(self._put_states, tasks, self.database("report")))
        self._tasks = [*tasks, report]
        for task in self._tasks:
            given = (self._stop, self._metrics)
            self._threads.append(threading.Thread(target=task.run, args=given, name=task.name, daemon=True))
            self._threads[-1].start()

    def problem(self) -> str | None:
        """The tasks whose last run failed, in a line; None where there is none."""
        return "; ".join(filter(None, (task.problem() for task in self._tasks))) or None

    def _put_states(self, tasks: Sequence[PeriodicTask], database: Database) -> None:
        """What changed since the last report; at the first one tasks that are no more are forgotten."""
        states = {task.name: task.state for task in tasks}
        rows = [
            {"process": self._process, "task": t.name, "interval_s": t.interval_s, **states[t.name]._asdict()}
            for t in tasks
            if self._reported.get(t.name) != states[t.name]
        ]

        def put(connection: Connection) -> None:
            if not self._reported:
                execute(connection, _FORGET, {"process": self._process, "tasks": [*states]})
            for row in rows:
                insert_row(connection, "maintenance_task", row, on_conflict(_KEYS, row))

        database.run(put)
        self._reported = states
