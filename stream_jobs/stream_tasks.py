"""What runs beside the queries, each in its own thread: progress, latest states, repair, roads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from infra.archive.layout import archive_of
from infra.archive.mirror import Mirror
from infra.archive.upkeep import Rules, upkeep
from infra.contract.errors import ArchiveError
from infra.contract.settings import Endpoints, Settings
from stream_jobs import statements as sql
from stream_jobs.batch import Repair
from stream_jobs.cohort.update import CohortKeeper
from stream_jobs.database import Database, execute
from stream_jobs.hadoop_store import HadoopStore
from stream_jobs.maintenance.evidence import EvidenceKeeper
from stream_jobs.maintenance.history import HistoryKeeper
from stream_jobs.maintenance.latest import LatestPublisher
from stream_jobs.maintenance.ledger import LedgerKeeper
from stream_jobs.maintenance.retention import RetentionKeeper
from stream_jobs.maintenance.vehicle_lookup import LookupKeeper
from stream_jobs.progress import Board
from stream_jobs.recompute.nightly import Nightly
from stream_jobs.roads.update import EtaKeeper, NetworkKeeper, RoadKeeper, StopKeeper
from stream_jobs.rollups.update import RollUps
from stream_jobs.sinks import insert_progress
from stream_jobs.trends.update import Trends
from stream_jobs.vehicles.alert_log import AlertLog
from stream_jobs.vehicles.repair import JourneyRepair

PROGRESS_S: Final = 1.0
LATEST_S: Final = 5.0
LEDGER_S: Final = 60.0
ROADS_S: Final = 30.0
NETWORK_S: Final = 5.0
STOPS_S: Final = 60.0
LOOKUPS_S: Final = 3.0
CLOSERS: Final = ("windows", "archive")
"""Queries that must have taken in everything before a window is restated."""

log = structlog.get_logger("stream_jobs.stream_tasks")


@dataclass(frozen=True, slots=True)
class Context:
    """What keepers work with; ``database`` makes a connection of a keeper's own."""

    spark: SparkSession
    settings: Settings
    addresses: Endpoints
    board: Board
    database: Callable[[str], Database]


class Keeper:
    """Calls ``work`` every ``interval_s`` until ``stop``.

    An error ends it and stands in ``failure``: the application then ends too.
    """

    def __init__(
        self,
        name: str,
        interval_s: float,
        work: Callable[[], Any],
        stop: threading.Event,
        pool: Callable[[], None],
    ) -> None:
        self.name = name
        self.failure: str | None = None
        self._interval_s = interval_s
        self._work = work
        self._stop = stop
        self._pool = pool
        self._thread = InheritableThread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for its last call."""
        self._thread.join(timeout=30)

    def _once(self) -> None:
        try:
            self._work()
        except ArchiveError as error:
            # Nothing is lost while it waits, and live windows need no file of the past.
            log.error("the archive is not as it should be: trying again", keeper=self.name, error=str(error))

    def _run(self) -> None:
        self._pool()
        try:
            while not self._stop.wait(self._interval_s):
                self._once()
        except Exception as error:  # noqa: BLE001  the main thread ends the application with this reason
            if not self._stop.is_set():
                self.failure = f"{type(error).__name__}: {error}"
                log.error("keeper failed", keeper=self.name, error=self.failure)


Work = tuple[str, float, Callable[[], Any]]
"""Name, seconds between two calls, what is called."""


def start(context: Context, stop: threading.Event) -> list[Keeper]:
    """Start them all."""
    works = (*restating(context, stop), *deriving(context, stop), *keeping(context))
    return [Keeper(*work, stop, _pool(context.spark, work[0])) for work in works]


def restating(context: Context, stop: threading.Event) -> tuple[Work, ...]:
    """Those that put right what late frames have touched."""
    spark, settings, board, database = context.spark, context.settings, context.board, context.database
    every_s = settings.jobs.repair_interval_s
    repair = Repair(spark, settings, database("repair"), lambda: board.closed_ms(CLOSERS))
    journeys = JourneyRepair(settings, database("journeys"), lambda: board.closed_ms(("vehicles", "archive")))
    everything = (*CLOSERS, "vehicles")
    nightly = Nightly(spark, settings, database("recompute"), lambda: board.closed_ms(everything), stop)
    return (
        ("repair", every_s, repair),
        ("journeys", every_s, journeys),
        ("recompute", settings.recompute.look_s, nightly),
    )


def deriving(context: Context, stop: threading.Event) -> tuple[Work, ...]:
    """Those that make of the tables what is slower than a batch: roll-ups, trends, cohorts, roads."""
    spark, settings, board, database = context.spark, context.settings, context.board, context.database
    alerts = AlertLog(context.addresses.kafka_bootstrap, settings.kafka.prefix, stop)
    latest = LatestPublisher(spark, settings, context.addresses, database("latest"))
    evidence = EvidenceKeeper(settings, database("evidence"), lambda: board.closed_ms(("archive",)))
    return (
        ("latest", LATEST_S, latest),
        ("rollups", settings.jobs.rollup_interval_s, RollUps(database("rollups"), settings.tz)),
        ("trends", settings.jobs.trend_interval_s, Trends(database("trends"))),
        (
            "cohort",
            settings.cohort.interval_s,
            CohortKeeper(settings.cohort, database("cohort"), alerts.write),
        ),
        ("evidence", settings.jobs.evidence_interval_s, evidence),
        ("roads", ROADS_S, RoadKeeper(settings, database("roads"))),
        ("stops", STOPS_S, StopKeeper(database("stops"))),
        ("eta", settings.roads.eta_s, EtaKeeper(settings, database("eta"))),
    )


def keeping(context: Context) -> tuple[Work, ...]:
    """Those that keep the house: progress, look-ups, ledgers, archive, retention."""
    settings, board, database = context.settings, context.board, context.database
    home, archive_s, rules = settings.paths.home, settings.archive.upkeep_s, Rules.of(settings.archive)
    progress_db, ledger_db = database("progress"), database("ledger")
    audits = LedgerKeeper(settings, context.addresses, database("audit"), lambda: board.closed_ms(CLOSERS))
    works: tuple[Work, ...] = (
        ("progress", PROGRESS_S, lambda: write_progress(board, progress_db)),
        ("lookups", LOOKUPS_S, LookupKeeper(home, database("lookups"))),
        ("history", settings.recompute.history_s, HistoryKeeper(settings, database("history"))),
        ("network", NETWORK_S, NetworkKeeper(settings, database("network"))),
        ("upkeep", archive_s, lambda: upkeep(archive_of(home), rules)),
        ("ledger", LEDGER_S, lambda: maintain(ledger_db)),
        ("audit", settings.ledger.interval_s, audits),
        (
            "retention",
            settings.retention.interval_s,
            RetentionKeeper(settings.retention, database("retention")),
        ),
    )
    if not settings.archive.url:
        return works
    store = Mirror(archive_of(home), rules.grace_ms, lambda: HadoopStore(context.spark, settings.archive.url))
    return (*works, ("mirror", archive_s, store))


def write_progress(board: Board, database: Database) -> None:
    """Lines of progress since the last call into the table."""
    lines = [[line[column] for column in sql.PROGRESS_COLUMNS] for line in board.take_lines()]
    if lines:
        database.run(lambda connection: insert_progress(connection, lines))


def maintain(database: Database) -> None:
    """Ledger lines that no replay can ask for any more go."""
    database.run(lambda connection: execute(connection, sql.FORGET_BATCHES))


def _pool(spark: SparkSession, name: str) -> Callable[[], None]:
    return lambda: spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
