"""The query ``instant``: crash records and frames to alerts within milliseconds, in Spark's real-time mode.

Its tasks run without end, one for each partition it reads, and a record passes through when it comes. The
trigger is the interval of the checkpoints, not the latency. Sink and restarts are at-least-once: the ids of
the alerts are deterministic, and the event store keeps each once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Gauge
from py4j.protocol import Py4JError  # it comes with Spark, without stubs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from infra.contract.errors import ConfigError, ServiceError
from infra.contract.settings import Endpoints, Settings, endpoints
from infra.contract.topics import kafka_topic
from infra.contract.verdict import ClockLimits, clock_limits
from infra.health import HealthServer
from stream_jobs.event_kafka import wait_for_partitions
from stream_jobs.findings import crash_findings, frame_findings, kafka_records, rule_schemas
from stream_jobs.rule_check import check_expressions
from stream_jobs.rules import INSTANT, SHIPPED, Rule, load_rules, of_query
from stream_jobs.session import build_session
from stream_jobs.sources import kafka_options, record_columns

QUERY: Final = "instant"
TOPICS: Final = {"frame": "telemetry", "crash": "crash"}
"""The topic that a rule's source is read from."""
FINDINGS_OF: Final = {"frame": frame_findings, "crash": crash_findings}
POLL_S: Final = 1
_CONF: Final = {
    # An error in a rule's arithmetic gives null: it must never end the query that crash alerts pass through.
    "spark.sql.ansi.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m",
}


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ServiceError with the reason where the query ends by itself."""
    rules = of_query(load_rules(settings.jobs.rules), INSTANT)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state = State(settings.jobs.instant_trigger_s)
    where = endpoints(settings)
    port = where.http_ports.get(QUERY, 0)
    with HealthServer(port, {"query": state.reason}, state.registry) as page:
        structlog.get_logger().info("serving", port=page.port, rules=len(rules))
        _serve(settings, where, rules, state, stop)


def _serve(
    settings: Settings, where: Endpoints, rules: Sequence[Rule], state: State, stop: threading.Event
) -> None:
    topics = [kafka_topic(settings.kafka.prefix, name) for name in TOPICS.values()]
    partitions = wait_for_partitions(where.kafka_bootstrap, topics, stop)
    if stop.is_set():
        return
    slots = sum(partitions.values())
    spark = build_session(settings, QUERY, settings.jobs.instant_mb, f"local[{slots}]", _CONF)
    try:
        require_slots(spark.sparkContext.defaultParallelism, partitions)
        check_expressions(spark, settings.jobs.rules or SHIPPED, rules, rule_schemas())
        query = start(spark, settings, where, rules)
        watch(query, state, stop)
    finally:
        spark.stop()


def require_slots(slots: int, partitions: dict[str, int]) -> None:
    """Raise ConfigError unless every partition gets a task slot: one without would be stalled in silence."""
    needed = sum(partitions.values())
    if slots < needed:
        each = ", ".join(f"{topic} {count}" for topic, count in sorted(partitions.items()))
        raise ConfigError(
            f"query {QUERY} has {slots} task slots and needs {needed}, one for each partition ({each}); "
            f"give the Spark master at least {needed} cores, as local[{needed}]"
        )


def start(spark: SparkSession, settings: Settings, where: Endpoints, rules: Sequence[Rule]) -> StreamingQuery:
    """Start the query; what it left off at lies under ``<home>/checkpoints/instant``."""
    records = {
        source: record_columns(
            spark.readStream.format("kafka").options(**kafka_options(settings, where, topic)).load()
        )
        for source, topic in TOPICS.items()
    }
    checkpoint = settings.paths.home.absolute() / "checkpoints" / QUERY
    writer = kafka_records(findings(records, rules, clock_limits(settings))).writeStream.format("kafka")
    sink = {
        "kafka.bootstrap.servers": where.kafka_bootstrap,
        "topic": kafka_topic(settings.kafka.prefix, "alerts"),
        "checkpointLocation": str(checkpoint),
    }
    trigger = f"{settings.jobs.instant_trigger_s:g} seconds"
    timed: Any = writer.options(**sink).outputMode("update").queryName(QUERY)
    query: StreamingQuery = timed.trigger(realTime=trigger).start()  # a trigger the type stubs do not know
    return query


def findings(records: dict[str, DataFrame], rules: Sequence[Rule], limits: ClockLimits) -> DataFrame:
    """Findings of all sources; ``records`` by source. A source without rules is read all the same."""
    each = (
        FINDINGS_OF[source](rows, [r for r in rules if r.source == source], limits)
        for source, rows in records.items()
    )
    return reduce(DataFrame.unionByName, each)


def watch(query: StreamingQuery, state: State, stop: threading.Event) -> None:
    """Follow the query until ``stop``; raises ServiceError where it ends before."""
    state.started()
    while not stop.is_set():
        try:
            ended = query.awaitTermination(POLL_S)
            state.progressed(query.lastProgress)
        except (PySparkException, Py4JError, OSError) as error:
            if stop.is_set():  # the signal reached Spark's own process too
                return
            raise ServiceError(f"query {QUERY} ended: {error}") from error
        if ended and not stop.is_set():
            raise ServiceError(f"query {QUERY} ended by itself, without an error")
    query.stop()


class State:
    """What the health page says of the query; written by the main thread, read by the page's."""

    def __init__(self, trigger_s: float) -> None:
        self.registry = CollectorRegistry()
        self._patience_s = 3 * trigger_s + 60
        self._progress_at: float | None = None
        self._batch = -1
        self._started = False
        self._batches = Gauge("odograph_instant_batch", "Number of the last batch", registry=self.registry)
        self._rows = Gauge("odograph_instant_batch_records", "Records read in it", registry=self.registry)
        self._rate = Gauge("odograph_instant_records_per_second", "Their rate", registry=self.registry)
        self._active = Gauge("odograph_instant_active", "1 while the query runs", registry=self.registry)

    def started(self) -> None:
        """The query runs."""
        self._started = True
        self._progress_at = time.monotonic()
        self._active.set(1)

    def progressed(self, progress: Any) -> None:
        """Take over Spark's newest progress report, a StreamingQueryProgress or None."""
        if progress is None or progress["batchId"] == self._batch:
            return
        self._batch = progress["batchId"]
        self._progress_at = time.monotonic()
        self._batches.set(self._batch)
        self._rows.set(progress["numInputRows"])
        self._rate.set(progress["processedRowsPerSecond"])

    def reason(self) -> str | None:
        """Why the query is not ready, None when it is."""
        if not self._started or self._progress_at is None:
            return "the query is starting"
        age_s = time.monotonic() - self._progress_at
        if age_s > self._patience_s:
            return f"no batch ended for {age_s:.0f} s: stalled"
        return None
