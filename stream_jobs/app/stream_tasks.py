"""Periodic tasks of the stream application: what needs Spark, and the progress of its queries.

All others run in a process of their own (``odograph maintenance``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession

from infra.settings.settings import Settings
from stream_jobs.app import completeness
from stream_jobs.app import statements as sql
from stream_jobs.app.database import Connection, Database
from stream_jobs.app.hadoop_store import HadoopStore
from stream_jobs.app.progress import Board
from stream_jobs.app.sinks import insert_progress
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.mirror import Mirror
from stream_jobs.archive.upkeep import Rules
from stream_jobs.maintenance.task import PeriodicTask
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.work import Nightly, Tools

PROGRESS_S: Final = 1.0


def stream_tasks(
    spark: SparkSession,
    settings: Settings,
    board: Board,
    database: Callable[[str], Database],
    owner_url: str,
    stop: threading.Event,
) -> list[PeriodicTask]:
    """The tasks; ``database`` makes a connection of a task's own. Each has a scheduler pool of its name."""
    nightly_db = database("recompute")
    closed = completeness.completeness(nightly_db, "telemetry", "archive")

    def session() -> SparkSession:
        own = spark.newSession()
        own.conf.set("spark.sql.shuffle.partitions", str(settings.recompute.parts))
        return own

    feeder = Feeder(settings, session, warm=True)
    nightly = Nightly(Tools(settings, nightly_db, owner_url, stop, feeder), closed)
    tasks: list[tuple[str, float, Callable[[], Any]]] = [
        (
            "progress",
            PROGRESS_S,
            partial(write_progress, board, database("progress"), settings.jobs.unwritten_ms),
        ),
        ("recompute", settings.recompute.poll_interval_s, nightly),
    ]
    if settings.archive.url:
        store = partial(HadoopStore, spark, settings.archive.url)
        mirror = Mirror(archive_of(settings.paths.home), Rules.of(settings.archive).grace_ms, store)
        tasks.append(("mirror", settings.archive.upkeep_s, mirror))
    return [PeriodicTask(name, every_s, _in_pool(spark, name, work)) for name, every_s, work in tasks]


def write_progress(board: Board, database: Database, unwritten_ms: int) -> None:
    """Lines of progress since the last call, and up to when each query is complete, into their tables."""
    lines, moments = board.take()
    moments = {query: at_ms - unwritten_ms * (query == "telemetry") for query, at_ms in moments.items()}

    def write(connection: Connection) -> None:
        insert_progress(connection, [[line[column] for column in sql.PROGRESS_COLUMNS] for line in lines])
        completeness.note(connection, moments)

    if lines or moments:
        database.run(write)


def _in_pool(spark: SparkSession, name: str, work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        return work()

    return run
