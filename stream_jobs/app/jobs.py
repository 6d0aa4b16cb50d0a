"""The micro-batch application: its queries and users', and the periodic tasks that need Spark."""

import gc
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

import structlog
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JError  # it comes with Spark, without stubs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.kafka import log_generations
from infra.clients.leases import Lease
from infra.contract.errors import ServiceError
from infra.contract.topics import CLOCK, kafka_topic
from infra.settings.settings import Endpoints, Settings, endpoints
from stream_jobs.app.database import Connection, Database, insert_row
from stream_jobs.app.progress import Board, Listener, complete_until_ms, note, run_clock
from stream_jobs.app.queries import QUERIES, Query, kafka_stream, rehearsal, settled, started
from stream_jobs.app.session import MemoryReturn, build_session, conf_of
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.mirror import Mirror
from stream_jobs.maintenance.task import PeriodicTask, TaskRunner
from stream_jobs.recovery.checkpoints import PARTITIONS, checkpoint_of, of_logs
from stream_jobs.recovery.files import HadoopStore, checkpoint_files
from stream_jobs.recovery.ledger import BatchClaims, enter, reconciled
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.queue import grid_of
from stream_jobs.reprocess.restate import Restater
from stream_jobs.reprocess.work import CLOSERS, nightly
from stream_jobs.user_sql.queries import user_queries

log = structlog.get_logger("stream_jobs.app.jobs")

NAME: Final = "jobs"
NOT_CONNECTED: Final = "Python worker failed to connect back"
STARTS: Final = 3
"""Of a query, while Spark says NOT_CONNECTED: it waits 10 s for a Python, too short on a starved machine."""
ALONE_S: Final = 10.0
KEEP_S: Final = 20.0  # Spark ends its Python workers when none of them has had a task for a minute
PROGRESS_S: Final = 1.0
STREAM_CONF: Final = conf_of(__file__)


def run(settings: Settings) -> None:
    """Run the application until SIGTERM or SIGINT; raises ServiceError when a part of it fails.

    Spark and the parents of its Python workers start first: services that are starting have time until then.
    On a cluster executors unpack their environment before: the queries are made ready meanwhile.
    """
    gc.callbacks.append(MemoryReturn())
    spark = _session(settings)
    first = threading.Thread(target=_first_workers, args=(spark,), daemon=True)
    first.start()
    if not settings.jobs.environment:
        first.join()
    addresses = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"), NAME)
    with stopped_by_signals() as stop:
        Application(settings, addresses, stop).run()


def _first_workers(spark: SparkSession) -> None:
    """A task a core: each executor that comes gets one while those before it start their Python."""
    cores = int(spark.sparkContext.getConf().get("spark.cores.max") or 1)
    with suppress(PySparkException, Py4JError):  # it ends meanwhile; what is wrong the queries find, too
        spark.range(cores, numPartitions=cores).mapInArrow(lambda batches: batches, "id long").collect()


def warmed(
    spark: SparkSession, settings: Settings, where: Endpoints, queries: Sequence[Query]
) -> Generator[bool | None, None, None]:
    """A rehearsal, then a small task now and then that keeps the Python workers: for ``Lease.held``."""
    yield from rehearsal(spark, settings, where, queries)
    while True:
        work = threading.Thread(target=_first_workers, args=(spark,), daemon=True)
        work.start()
        due_s = time.monotonic() + KEEP_S
        while time.monotonic() < due_s or work.is_alive():
            yield True


def _session(settings: Settings) -> SparkSession:
    jobs = settings.jobs
    conf = STREAM_CONF | {PARTITIONS: str(jobs.shuffle_partitions)}
    return build_session(settings, "odograph-jobs", jobs.driver_mb, jobs.master, conf)


class Application:
    """The session, the queries and the periodic tasks, from start to stop."""

    def __init__(
        self, settings: Settings, addresses: Endpoints, stop: threading.Event,
        queries: Sequence[Query] = QUERIES,
    ) -> None:  # fmt: skip
        grid_of(settings)
        self._settings = settings
        self._addresses = addresses
        self._stop = stop
        self._lease = Lease(settings, addresses.db_ingest_url, NAME, stop)
        self._wanted = {query.name: query for query in queries}
        self._running: dict[str, StreamingQuery] = {}
        self._locations: dict[str, str] = {}
        self._degraded: dict[str, str] = {}
        self._registry = CollectorRegistry()
        self._board = Board(self._registry, settings.jobs.trigger_s)
        self.listeners: list[Listener] = [self._board]
        self._runner = TaskRunner(NAME, settings, addresses, self._registry)

    def run(self) -> None:
        """Start everything when the lease is ours, then wait for the signal or a failure, as its loss is."""
        with ExitStack() as parts:
            checks = {"queries": self._queries_problem, "database": self._runner.database_problem}
            remarks = {
                "degraded": lambda: "; ".join(self._degraded.values()) or None,
                "tasks": self._runner.problem,
            }
            listen = self._addresses.health(NAME)
            page = HealthServer(listen, checks, self._registry, remarks, lease=self._lease)
            parts.enter_context(page)
            spark = SparkSession.getActiveSession() or _session(self._settings)
            parts.callback(spark.stop)
            warm_up = warmed(spark, self._settings, self._addresses, [*self._wanted.values()])
            term = parts.enter_context(self._lease.held(warm_up))
            warm_up.close()
            if term is None:
                return
            self._stop = term
            self._wanted |= {query.name: query for query in user_queries(self._settings, spark)}
            for listener in self.listeners:
                spark.streams.addListener(listener)
            parts.enter_context(self._runner.until(term))
            parts.callback(self._close, spark)
            self._start_next(spark, 1 if self._lease.succeeds else len(self._wanted))
            self._runner.start(self._tasks(spark))
            log.info("running", queries=[*self._running], port=page.port)
            self._watch(spark)

    def _start_next(self, spark: SparkSession, count: int) -> None:
        """So many of the queries that do not run yet."""
        for name, query in [*self._wanted.items()][len(self._running) :][:count]:
            self._running[name] = self._start_query(spark, query)

    def _start_query(self, spark: SparkSession, query: Query) -> StreamingQuery:
        s = self._settings
        files = checkpoint_files(s, lambda: spark)
        topics = [kafka_topic(s.kafka.prefix, topic) for topic in query.topics]
        logs = log_generations(self._addresses.kafka_bootstrap, topics)
        fit = files, query.name, query.operators, query.replaces, query.buckets(s)
        checkpoint = checkpoint_of(*fit)
        of_logs(checkpoint, logs)
        claims = BatchClaims(query.name, checkpoint, logs)
        database, where = self._runner.database(query.name), self._addresses
        again = query.again and partial(query.again, s, where)
        if reconciled(database, checkpoint, again, stateless=query.operators is None):
            of_logs(checkpoint_of(*fit), logs)
        fresh = checkpoint.query_id() is None
        if fresh and query.anew is not None:
            database.run(partial(query.anew, s, where))
        sink = query.sink(s, where, database, claims)
        records = kafka_stream(spark, s, where, query.max_offsets(s), *query.topics)
        self._locations[query.name] = checkpoint.location
        # The numbers of buckets follow from it: by another one the state would be nobody's.
        spark.conf.set(PARTITIONS, checkpoint.partitions() or s.jobs.shuffle_partitions)
        running = started(query, records, s, sink, checkpoint.location)
        if fresh:
            database.run(lambda connection: enter(connection, query.name, str(running.id)))
        return running

    def _tasks(self, spark: SparkSession) -> list[PeriodicTask]:
        """Each over a connection of its own; the one that needs Spark's tasks, in a pool of its name."""
        s, database = self._settings, self._runner.database
        nightly_db = database("recompute")

        def session() -> SparkSession:
            own = spark.newSession()
            own.conf.set(PARTITIONS, str(s.recompute.parts))
            own.sparkContext.setLocalProperty("spark.scheduler.pool", "recompute")  # of the task's thread
            return own

        restater = Restater(s, nightly_db, self._stop, Feeder(session, warm=True))
        progress = partial(write_progress, self._board, database("progress"), s.jobs.unwritten_ms)
        closed = partial(complete_until_ms, nightly_db, *CLOSERS)
        tasks = [
            PeriodicTask("progress", PROGRESS_S, progress),
            PeriodicTask("recompute", s.recompute.poll_interval_s, lambda: nightly(restater, closed())),
        ]
        if s.archive.url:
            store = partial(HadoopStore, spark, s.archive.url)
            mirror = Mirror(archive_of(s.paths.home), s.archive.grace_min * 60_000, store)
            tasks.append(PeriodicTask("mirror", s.archive.upkeep_s, mirror))
        if s.jobs.clock_s:
            write = TopicWriter(self._addresses.kafka_bootstrap, s.kafka.prefix, CLOCK, self._stop).write
            clock = partial(run_clock, self._board, s.jobs.clock_s, write)
            tasks.append(PeriodicTask("clock", PROGRESS_S, clock))
        return tasks

    def _watch(self, spark: SparkSession) -> None:
        """Until the term is over. A user's query may end; raises ServiceError where another one does.

        After a takeover the first query has the cores for itself until it is through with what has waited.
        """
        starts, begun_s = Counter(self._wanted.keys()), time.monotonic()
        while not self._stop.wait(0.2):
            if len(self._running) < len(self._wanted) and (
                all(map(settled, self._running.values())) or time.monotonic() > begun_s + ALONE_S
            ):
                self._start_next(spark, len(self._wanted))
            for name, query in self._running.items():
                if query.isActive or name in self._degraded:
                    continue
                if NOT_CONNECTED in str(query.exception()) and starts[name] < STARTS:
                    starts[name] += 1
                    log.warning("no Python worker within Spark's 10 s: the query starts again", query=name)
                    self._running[name] = self._start_query(spark, self._wanted[name])
                    continue
                reason = explained(name, self._locations[name], query.exception())
                if not self._wanted[name].may_fail:
                    raise ServiceError(f"stream jobs ended: {reason}")
                self._degraded[name] = reason
                self._board.degraded(name)
                log.error("a user's query ended; the others go on", query=name, error=reason)

    def _queries_problem(self) -> str | None:
        if len(self._running) < len(self._wanted):
            return "starting"
        down = [n for n, q in self._running.items() if not q.isActive and not self._wanted[n].may_fail]
        return f"not running: {', '.join(down)}" if down else None

    def _close(self, spark: SparkSession) -> None:
        """Each query at the end of what it does now; what a task has under way is given up."""
        self._stop.set()
        for query in self._running.values():
            query.stop()
        spark.sparkContext.cancelAllJobs()


CAUSED_BY: Final = "Caused by: "
NO_SPACE: Final = "No space left on device"
DROPPED: Final = "failOnDataLoss"  # Spark's own advice is this option, which nobody can set here
BROKEN: Final = ("CHECKSUM", "ChecksumException", "CANNOT_LOAD_STATE_STORE", "CANNOT_READ_STREAMING_STATE")
"""Words of Spark's and Hadoop's errors on files that are not as they were written."""


def explained(query: str, checkpoint: str, error: object) -> str:
    """The failure of a query in one line: the innermost cause where Java tells of causes, and what to do."""
    text = str(error).strip() if error else "ended without an error"
    lines = [line.strip() for line in text.splitlines()]
    causes = [line.removeprefix(CAUSED_BY) for line in lines if line.startswith(CAUSED_BY)]
    reason = (causes[-1] if causes else " / ".join(lines[:3]))[:1000]
    advice = ""
    if NO_SPACE in text:
        advice = (
            f"; free some space on the disks of {checkpoint} and of Spark's scratch files: nothing is lost, "
            "the query goes on behind its last whole batch"
        )
    elif DROPPED in text:
        advice = "; Kafka has dropped records, by its retention, that the query had not read; to go on: "
        advice += f"`odograph jobs reset {query}`, it then reads what Kafka keeps"
    elif any(sign in text for sign in BROKEN):
        advice = (
            f"; its checkpoint {checkpoint} cannot be read: bring the file back, or put the checkpoint aside "
            f"with `odograph jobs reset {query}`; the query then reads again what Kafka keeps, to equal rows"
        )
    return f"query {query}: {reason}{advice}"


def write_progress(board: Board, database: Database, unwritten_ms: int) -> None:
    """Lines of progress since the last call, and up to when each query is complete, into their tables."""
    lines, moments = board.take()
    moments = {query: at_ms - unwritten_ms * (query == "telemetry") for query, at_ms in moments.items()}

    def write(connection: Connection) -> None:
        for line in lines:
            insert_row(connection, "query_progress", line, "ON CONFLICT DO NOTHING")
        note(connection, moments)

    if lines or moments:
        database.run(write)
