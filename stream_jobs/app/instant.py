"""The queries ``instant`` and ``instant-crash``: frames and crash records to alerts within milliseconds.

They run in Spark's real-time mode: their tasks run without end, one for each partition read, and a record
passes through when it comes. The trigger is the interval of the checkpoints, not the latency; at each
checkpoint a query stands still for some tenths of a second, so crash records, which are few, have a query of
their own that makes one rarely. Sink and restarts are at-least-once: the ids of the alerts are
deterministic, and the event store keeps each once.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final

import orjson
import structlog
from prometheus_client import CollectorRegistry, Gauge
from py4j.protocol import Py4JError  # it comes with Spark, without stubs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.kafka import LOST, admin, java_access, log_generations, partition_counts
from infra.clients.leases import Lease
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import CLOCK, HEADER_AGAIN, kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack.hosts.regions import judged_to_ms
from stream_jobs.app.queries import kafka_options, record_columns, rehearsed
from stream_jobs.app.session import build_session, conf_of
from stream_jobs.recovery.checkpoints import checkpoint_of, of_logs
from stream_jobs.recovery.files import checkpoint_files
from stream_jobs.rules import instant as spark_rules
from stream_jobs.rules.model import INSTANT, SHIPPED, Rule, load_rules, of_query

PROGRAM: Final = "instant"
SOURCES: Final = {"instant": "frame", "instant-crash": "crash"}  # what each query reads, as rules name it
OPERATORS: Final = 1  # version of what a checkpoint of these queries fits
TOPICS: Final = {"frame": "telemetry", "crash": "crash"}  # the topic that a rule's source is read from
FINDINGS_OF: Final = {"frame": spark_rules.frame_findings, "crash": spark_rules.crash_findings}
GATHERING: Final = {
    "frame": {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "200"},
    "crash": {"includeHeaders": "true"},
}
"""How a topic is read: an answer of Kafka costs the same however few records it has, so frames may wait for
one another. A crash record waits for nothing, and comes with its headers.
"""
POLL_S: Final = 1
EXECUTORS_S: Final = 120.0
REHEARSAL_S: Final = 5.0  # length of a batch, the least that Spark takes
REGION_MS: Final = 600_000  # after a failover the log is judged from so long before the other region went
STALLED_INTERVALS: Final = 3  # so many checkpoint intervals and ``STALLED_S`` may pass without a batch's end
STALLED_S: Final = 60


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ServiceError with the reason where the query ends by itself."""
    rules = of_query(load_rules(settings.jobs.rules), INSTANT)
    state = State({query: _trigger_s(settings, query) for query in SOURCES})
    where = endpoints(settings, ("kafka_bootstrap",), PROGRAM)
    with stopped_by_signals() as stop, ExitStack() as parts:
        lease = Lease(settings, where.db_ingest_url, PROGRAM, stop, optional=True)
        page = HealthServer(where.health(PROGRAM), {"queries": state.reason}, state.registry, lease=lease)
        parts.enter_context(page)
        structlog.get_logger().info("serving", port=page.port, rules=len(rules))
        topics = [kafka_topic(settings.kafka.prefix, name) for name in TOPICS.values()]
        partitions = wait_for_partitions(where.kafka_bootstrap, topics, stop)
        if stop.is_set():
            return
        slots = sum(partitions.values())
        master = settings.jobs.instant_master or f"local[{slots}]"
        spark = build_session(settings, PROGRAM, settings.jobs.instant_mb, master, conf_of(__file__))
        parts.callback(spark.stop)
        require_slots(lambda: spark.sparkContext.defaultParallelism, partitions, stop)
        spark_rules.check_expressions(spark, settings.jobs.rules or SHIPPED, rules)
        made_of = partial(findings, spark, settings, where, rules)
        found = {query: made_of(query) for query in SOURCES}
        warm_up = rehearsal(spark, settings, where, rules)
        term = parts.enter_context(lease.held(warm_up))
        warm_up.close()
        if term is None:
            return
        judged_ms = None
        if settings.region.name and where.db_ingest_url:
            with suppress(ServiceError):  # away: a checkpoint says where to go on, without one all is judged
                judged_ms = judged_to_ms(where.db_ingest_url)
        if judged_ms is not None:
            found = {query: made_of(query, since_ms=judged_ms - REGION_MS) for query in SOURCES}
        watch([start(settings, where, query, rows) for query, rows in found.items()], state, term)


def wait_for_partitions(bootstrap: str, topics: Sequence[str], stop: threading.Event) -> dict[str, int]:
    """Number of partitions of each topic, as soon as Kafka answers and has them all; {} after ``stop``."""
    client = admin(bootstrap)
    while not stop.is_set():
        try:
            return partition_counts(client, topics)
        except LOST as error:
            structlog.get_logger().warning("waiting", service="kafka", reason=str(error))
        stop.wait(POLL_S)
    return {}


def rehearsal(
    spark: SparkSession, settings: Settings, where: Endpoints, rules: Sequence[Rule]
) -> Generator[None, None, None]:
    """Run the queries (see queries.rehearsed) over records without a vehicle: nothing is found in these."""

    def start(query: str, folder: str) -> StreamingQuery:
        rows = findings(spark, settings, where, rules, query, CLOCK)
        return started(settings, where, query, rows, f"{folder}/{query}", REHEARSAL_S)

    return rehearsed(spark, settings, [partial(start, query) for query in SOURCES])


def require_slots(slots: Callable[[], int], partitions: dict[str, int], stop: threading.Event) -> None:
    """Raise ConfigError unless every partition gets a task slot: one without would be stalled in silence.

    The executors of a cluster are waited for, for ``EXECUTORS_S`` at most.
    """
    needed, end = sum(partitions.values()), time.monotonic() + EXECUTORS_S
    while (found := slots()) < needed and time.monotonic() < end and not stop.wait(POLL_S):
        pass
    if found < needed:
        each = ", ".join(f"{topic} {count}" for topic, count in sorted(partitions.items()))
        raise ConfigError(
            f"{PROGRAM} has {found} task slots and needs {needed}, one for each partition ({each}); "
            f"give the Spark master at least {needed} cores, as local[{needed}]"
        )


def start(settings: Settings, where: Endpoints, query: str, rows: DataFrame) -> StreamingQuery:
    """Start one of the queries; what it left off at lies under ``checkpoints/<query>``."""
    checkpoint = checkpoint_of(checkpoint_files(settings, lambda: rows.sparkSession), query, OPERATORS)
    topic = kafka_topic(settings.kafka.prefix, TOPICS[SOURCES[query]])
    of_logs(checkpoint, log_generations(where.kafka_bootstrap, [topic]))
    return started(settings, where, query, rows, checkpoint.location, _trigger_s(settings, query))


def findings(
    spark: SparkSession, settings: Settings, where: Endpoints, rules: Sequence[Rule], query: str,
    topic: str | None = None, since_ms: int | None = None,
) -> DataFrame:  # fmt: skip
    """What a query makes of the records of its topic, or of another, for the topic ``alerts``.

    ``since_ms``: without a checkpoint, of those received since.
    """
    source = SOURCES[query]
    options = kafka_options(settings, where, topic or TOPICS[source]) | GATHERING[source]
    if since_ms is not None:
        options |= {"startingTimestamp": f"{since_ms}", "startingOffsetsByTimestampStrategy": "latest"}
    raw = spark.readStream.format("kafka").options(**options).load()
    if source == "crash":  # what was appended again was judged when it came
        raw = raw.where(~F.coalesce(F.exists("headers", lambda h: h["key"] == HEADER_AGAIN), F.lit(False)))
    records = record_columns(raw)
    own = [rule for rule in rules if rule.source == source]
    return spark_rules.kafka_records(FINDINGS_OF[source](records, own, clock_limits(settings)))


def started(
    settings: Settings, where: Endpoints, query: str, rows: DataFrame, checkpoint: str, trigger_s: float
) -> StreamingQuery:
    """Start a query that writes ``rows``."""
    sink = {"topic": kafka_topic(settings.kafka.prefix, "alerts"), "checkpointLocation": checkpoint}
    writer = rows.writeStream.format("kafka").options(**java_access(where.kafka_bootstrap), **sink)
    timed: Any = writer.outputMode("update").queryName(query)
    running: StreamingQuery = timed.trigger(realTime=f"{trigger_s:g} seconds").start()  # unknown to the stubs
    return running


def _trigger_s(settings: Settings, query: str) -> float:
    crash = SOURCES[query] == "crash"
    return settings.jobs.crash_trigger_s if crash else settings.jobs.instant_trigger_s


def watch(queries: Sequence[StreamingQuery], state: "State", stop: threading.Event) -> None:
    """Follow the queries until ``stop``; raises ServiceError where one ends before."""
    state.started()
    while not stop.wait(POLL_S):
        for query in queries:
            name = str(query.name)
            try:
                active, progress, error = query.isActive, query.lastProgress, query.exception()
            except (PySparkException, Py4JError, OSError) as problem:
                if stop.is_set():  # the signal reached Spark's own process too
                    break
                raise ServiceError(f"query {name} ended: {problem}") from problem
            state.progressed(name, progress)
            if not active and not stop.is_set():
                raise ServiceError(f"query {name} ended: {error or 'by itself, without an error'}")
    for query in queries:
        query.stop()


READ: Final = "records_read"
GAUGES: Final = {
    "batch": ("Number of the last batch", "batchId"),
    "batch_records": ("Records read in it", "numInputRows"),
    "records_per_second": ("Their rate", "processedRowsPerSecond"),
    "active": ("1 while the query runs", ""),
    READ: ("Records of its topic up to the end of the last batch", ""),
}
"""Metrics of a query by name: their text, and what of Spark's progress they show."""


class State:
    """What the health page says of the queries; written by the main thread, read by the page's.

    ``trigger_s`` is each query's checkpoint interval.
    """

    def __init__(self, trigger_s: Mapping[str, float]) -> None:
        self.registry = CollectorRegistry()
        self._trigger_s = trigger_s
        self._last: dict[str, tuple[int, float]] = {}  # by query its last batch, and when that was seen
        self._gauges = {
            name: Gauge(f"odograph_instant_{name}", text, ["query"], registry=self.registry)
            for name, (text, _) in GAUGES.items()
        }

    def started(self) -> None:
        for query in self._trigger_s:
            self._gauges["active"].labels(query).set(1)
        self._last = dict.fromkeys(self._trigger_s, (-1, time.monotonic()))

    def progressed(self, query: str, progress: Any) -> None:
        """Take over Spark's newest progress report, a StreamingQueryProgress or None."""
        if progress is None or progress["batchId"] == self._last[query][0]:
            return
        self._last[query] = progress["batchId"], time.monotonic()
        for name, (_, column) in GAUGES.items():
            if column:
                self._gauges[name].labels(query).set(progress[column])
        for source in progress["sources"]:
            ends = orjson.loads(source["endOffset"])
            count = sum(end for partitions in ends.values() for end in partitions.values())
            self._gauges[READ].labels(query).set(count)

    def reason(self) -> str | None:
        """Why a query is not ready, None when all are."""
        if not self._last:
            return "the queries are starting"
        for query, trigger_s in self._trigger_s.items():
            age_s = time.monotonic() - self._last[query][1]
            if age_s > STALLED_INTERVALS * trigger_s + STALLED_S:
                return f"{query}: no batch ended for {age_s:.0f} s: stalled"
        return None
