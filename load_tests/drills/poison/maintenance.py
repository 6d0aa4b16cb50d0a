"""An error of a periodic task is reported and tried again, in maintenance and beside the queries of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace as changed
from typing import Any, Final

from infra.clients.db import session
from load_tests.drills.aggregates import JOBS_READY_S
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from stream_jobs.maintenance.task import PeriodicTask, TaskMetrics

SHORT: Final = {
    "ODOGRAPH_JOBS_TREND_INTERVAL_S": "1", "ODOGRAPH_JOBS_ROLLUP_INTERVAL_S": "1",
    "ODOGRAPH_RECOMPUTE_POLL_INTERVAL_S": "1", "ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2",
}  # fmt: skip
FLEET: Final = ("-c", "20", "--rate", "20", "--duration", "600s")
NEEDED: Final = {"maintenance": ("trends", "vehicle_baseline"), "jobs": ("recompute", "recompute_run")}
"""By process a task, and a table that no other task and no query needs."""
FAILURES: Final = 3
FAILS_S: Final = 60.0
FLOWS_S: Final = 180.0
"""A batch may take a minute on a machine with other work."""
_TASKS: Final = b"SELECT process, task, success_at, failures, error FROM serving.maintenance_task"
_FRAMES: Final = b"SELECT coalesce(sum(frames), 0) FROM odograph.vehicle_window"

Rows = dict[tuple[str, str], list[Any]]
Work = Callable[[], Any]


def row13(site: Site, mutant: str | None) -> Iterator[Promise]:
    """Two tables are away that a task each needs: all else goes on, and they come back by themselves."""
    quick = changed(site, env=site.env | SHORT)
    quick.bridge()
    programs = {"jobs": ("jobs", "stream"), "maintenance": ("maintenance",)}
    for name, words in programs.items():
        quick.start(name, program(mutant, *words))
    for name in programs:
        quick.wait_ready(name, JOBS_READY_S)
    quick.simulate(f"row13-{time.time_ns() // 1_000_000}", *FLEET)
    failing = [(process, task) for process, (task, _) in NEEDED.items()]
    wanted = [*failing, ("maintenance", "rollups")]
    until(lambda: all(_tasks(site).get(key, [None])[0] for key in wanted), FLOWS_S, "all tasks succeed")
    first = _frames(site)
    until(lambda: _frames(site) > first, FLOWS_S, "frames reach windows")
    pids, before = {name: site.pid(name) for name in programs}, _tasks(site)
    with _away(site):
        reported = _within(lambda: all(_tasks(site)[key][1] >= FAILURES for key in failing), FAILS_S)
        frames = _frames(site)
        flow = _within(lambda: _frames(site) > frames, FLOWS_S)
        told = _doctor(quick)
        metrics = [
            quick.metrics(name).get("odograph_maintenance_task_failures_total", 0) for name in programs
        ]
        now = _tasks(site)
    running = {name: site.pid(name) for name in programs} == pids
    yield Promise("both processes go on, and frames reach windows", running and flow,
                  f"same processes: {running}, windows grow: {flow}")  # fmt: skip
    named = all(f"{process}/{task}: UndefinedTable" in told for process, task in failing)
    yield Promise("view, doctor and metric name both tasks", reported and named and min(metrics) >= FAILURES,
                  f"failures by metric {metrics}; doctor: {told!r}")  # fmt: skip
    then, last = (found["maintenance", "rollups"][0] for found in (before, now))
    yield Promise("another task of the same process goes on", last > then,
                  f"roll-ups at {last:%H:%M:%S}, before at {then:%H:%M:%S}")  # fmt: skip
    again = _within(lambda: not any(_tasks(site)[key][2] for key in failing), FAILS_S)
    yield Promise("with the tables back both succeed again by themselves", again and not _doctor(quick),
                  f"errors left: {[_tasks(site)[key][2] for key in failing]}")  # fmt: skip


def _within(check: Callable[[], bool], deadline_s: float) -> bool:
    try:
        return until(check, deadline_s, "")
    except Exception:  # noqa: BLE001  a promise says so
        return False


@contextmanager
def _away(site: Site) -> Iterator[None]:
    """The tables have other names in the block."""
    with ExitStack() as back:
        for _, table in NEEDED.values():
            _sql(site, f"ALTER TABLE odograph.{table} RENAME TO {table}_away".encode())
            back.callback(_sql, site, f"ALTER TABLE odograph.{table}_away RENAME TO {table}".encode())
        yield


def _sql(site: Site, statement: bytes) -> list[tuple[Any, ...]]:
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def _tasks(site: Site) -> Rows:
    """By process and task: last success, failures, error."""
    return {(process, task): rest for process, task, *rest in _sql(site, _TASKS)}


def _frames(site: Site) -> int:
    return int(_sql(site, _FRAMES)[0][0])


def _doctor(site: Site) -> str:
    """What doctor finds wrong with the tasks; nothing where it finds nothing."""
    line = program(None, "doctor", "--json")
    done = subprocess.run(line, env=site.env, capture_output=True, text=True, timeout=60, check=False)
    (found,) = (each for each in json.loads(done.stdout) if each["name"] == "periodic tasks")
    return "" if found["fine"] else str(found["detail"])


def _working(make: Callable[[Work, threading.Event], Work]) -> None:
    """Every task does ``make(work, stop)`` in the place of its work."""

    def defective(honest: Any) -> Any:
        def run(task: PeriodicTask, stop: threading.Event, metrics: TaskMetrics) -> None:
            task.work = make(task.work, stop)
            honest(task, stop, metrics)

        return run

    replace(PeriodicTask, "run", defective)


def ends_the_process() -> None:
    """An error of a task ends its process."""

    def fatal(work: Work, _stop: threading.Event) -> Work:
        def once() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001  the defect
                os._exit(1)

        return once

    _working(fatal)


def swallows() -> None:
    """An error is neither counted nor told."""

    def silent(work: Work, _stop: threading.Event) -> Work:
        def once() -> None:
            with suppress(Exception):
                work()

        return once

    _working(silent)


def gives_up() -> None:
    """A task that has failed is not tried again."""

    def discouraged(work: Work, stop: threading.Event) -> Work:
        failed = False

        def once() -> None:
            nonlocal failed
            if failed:
                stop.wait()
            try:
                work()
            except Exception:
                failed = True
                raise

        return once

    _working(discouraged)


ATTACKS: Final = (
    Attack("row13", "periodic tasks raise", row13,
           {"row13-ends-the-process": ends_the_process, "row13-swallows": swallows,
            "row13-gives-up": gives_up}),
)  # fmt: skip
