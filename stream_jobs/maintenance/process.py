"""The process ``odograph maintenance``: periodic tasks beside the stream application, without Spark.

One at a time works on a database: it holds an advisory lock. A second one stands by, and goes on where the
first one ended or lost its connection.
"""

from __future__ import annotations

import threading
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from infra.clients.health import HealthServer
from infra.clients.stop_signals import stopped_by_signals
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings, endpoints
from stream_jobs.app.database import Database
from stream_jobs.app.topic_writer import dead_lettering
from stream_jobs.maintenance.task import TaskMetrics, TaskRunner
from stream_jobs.maintenance.tasks import Context, maintenance_tasks
from stream_jobs.reprocess.turn import MAINTENANCE, TurnLostError, hold, turn

NAME: Final = "maintenance"
LOOK_S: Final = 2.0
"""Between two looks at the lock."""

log = structlog.get_logger("stream_jobs.maintenance")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ConfigError."""
    addresses = endpoints(settings)
    with stopped_by_signals() as stop:
        process = Maintenance(settings, addresses, stop)
        checks, remarks = {"database": process.database_problem}, {"tasks": process.remark}
        port = addresses.http_ports.get(NAME, 0)
        with HealthServer(port, checks, process.registry, remarks):
            process.run()


class Maintenance:
    """Waits for its turn, then runs the tasks until it is told to stop or has lost the turn."""

    def __init__(self, settings: Settings, addresses: Endpoints, stop: threading.Event) -> None:
        self.registry = CollectorRegistry()
        self._metrics = TaskMetrics(self.registry)
        self._settings = settings
        self._addresses = addresses
        self._stop = stop
        self._databases: list[Database] = []
        self._runner: TaskRunner | None = None
        self._standby = False

    def database_problem(self) -> str | None:
        """Why the database cannot be reached at present, None where it can."""
        return next((d.problem() for d in self._databases if d.problem()), None)

    def remark(self) -> str | None:
        """Which tasks fail and since when, or that another process has the turn."""
        if self._standby:
            return "standby: another maintenance process works on this database"
        return None if self._runner is None else self._runner.problem()

    def run(self) -> None:
        """Until ``stop``."""
        lock = Database(self._addresses.db_ingest_url, NAME, self._stop)
        try:
            while not self._stop.is_set():
                self._databases = [lock]
                with turn(lock, MAINTENANCE) as ours:
                    self._standby = not ours
                    if ours:
                        self._work(lock)
                self._stop.wait(LOOK_S)
        except ServiceError:
            if not self._stop.is_set():  # else: asked to stop while the database was away
                raise
        finally:
            lock.close()

    def _work(self, lock: Database) -> None:
        """The tasks, as long as the turn is ours."""
        ended = threading.Event()
        opened: list[Database] = []

        def database(name: str) -> Database:
            opened.append(dead_lettering(self._settings, self._addresses, name, ended))
            return opened[-1]

        tasks = maintenance_tasks(Context(self._settings, self._addresses, database, ended))
        runner = TaskRunner(NAME, tasks, database("report"), ended, self._metrics)
        self._databases, self._runner = [lock, *opened], runner
        runner.start()
        log.info("running", tasks=[task.name for task in tasks])
        try:
            while not self._stop.wait(LOOK_S):
                lock.run(lambda connection: hold(connection, MAINTENANCE))
        except TurnLostError:
            log.warning("the connection with the lock was lost: waiting for the turn again")
        finally:
            ended.set()
            runner.join()
            self._runner = None
            for each in opened:
                each.close()
