"""The streaming queries of the micro-batch application: what each reads, makes of it, and writes."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from infra.clients.kafka import admin, java_access, partition_counts
from infra.contract.errors import ServiceError
from infra.contract.topics import CLOCK, LIVE, kafka_topic
from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import Connection, Database
from stream_jobs.app.sinks import TelemetrySink
from stream_jobs.app.telemetry import telemetry_rows
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.archive.query import ArchiveSink, archived, note_again
from stream_jobs.archive.writer import RECORDS_AT_ONCE
from stream_jobs.recovery.files import HadoopStore
from stream_jobs.recovery.ledger import BatchClaims, Gap, recompute_begin, recompute_gap

TOPIC: Final = "telemetry"
ARCHIVE_BATCH_FACTOR: Final = 5  # so many times ``max_offsets`` a batch of the archive: its trigger is longer

Transform = Callable[[DataFrame, Settings], DataFrame]
Sink = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Query:
    """One streaming query: records -> ``transform`` -> sink, by its own checkpoint and scheduler pool.

    ``operators`` is the version of its stateful operators, None without any: a number, to be raised with each
    change, or a text, of which none is newer; ``buckets``: in how many its state lies. ``replaces`` are
    queries of older versions (see checkpoints.py). One that ``may_fail`` is a user's: its end is told, and
    ends nothing else. Of an ``interpreted`` one records go to Python as they are: code for that, made by each
    task, would cost more. Rows go ``at_once`` to a Python worker and from it: 10,000, Spark's own, are 70 MB
    on their way.
    """

    name: str
    transform: Transform
    sink: Callable[[Settings, Endpoints, Database, BatchClaims], Sink]
    operators: int | str | None = None
    replaces: tuple[str, ...] = ()
    trigger_s: Callable[[Settings], float] = lambda s: s.jobs.trigger_s
    max_offsets: Callable[[Settings], int] = lambda s: s.jobs.max_offsets
    output_mode: str = "update"
    buckets: Callable[[Settings], int | None] = lambda _settings: None
    may_fail: bool = False
    interpreted: bool = False
    at_once: int = 2_500
    again: Callable[[Settings, Endpoints, Connection, Gap], None] | None = None
    """Makes the rows of a gap between ledger and checkpoint again; None: Kafka is read again."""
    anew: Callable[[Settings, Endpoints, Connection], None] | None = None
    """Makes the rows again of which a new checkpoint has a part, where the log begins."""
    topics: tuple[str, ...] = (TOPIC,)


QUERIES: Final = (
    Query(
        name="telemetry",
        operators=7,
        replaces=("routing", "windows", "vehicles"),
        transform=telemetry_rows,
        sink=lambda s, where, database, claims: TelemetrySink(
            database,
            claims,
            TopicWriter(where.kafka_bootstrap, s.kafka.prefix, "alerts", database.stop),
            kafka_topic(s.kafka.prefix, TOPIC),
            s.jobs.road_window_s,
        ),
        output_mode="append",
        buckets=lambda s: s.jobs.vehicle_buckets,
        again=recompute_gap,
        anew=lambda s, where, c: recompute_begin(s, where, c, kafka_topic(s.kafka.prefix, TOPIC)),
        interpreted=True,
        topics=(TOPIC, CLOCK),
    ),
    Query(
        name="archive",
        trigger_s=lambda s: s.jobs.archive_trigger_s,
        max_offsets=lambda s: s.jobs.max_offsets * ARCHIVE_BATCH_FACTOR,
        transform=archived,
        sink=lambda s, _where, database, claims: ArchiveSink(database, claims, s),
        again=note_again,
        interpreted=True,
        at_once=RECORDS_AT_ONCE,
        topics=LIVE,
    ),
)


EARLIEST, LATEST = -2, -1  # Spark's words for offsets
REHEARSED: Final = 500  # records of a rehearsal's batch, at most
IDLE: Final = "Waiting for data to arrive"  # Spark's words
PROJECTIONS: Final = "spark.sql.codegen.factoryMode"
AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


def started(
    query: Query, records: DataFrame, settings: Settings, sink: Sink, checkpoint: str
) -> StreamingQuery:
    """Start a query over a stream of records."""
    spark = records.sparkSession
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", query.name)
    # Kept by what starts now.
    spark.conf.set(PROJECTIONS, "NO_CODEGEN" if query.interpreted else "FALLBACK")
    spark.conf.set(AT_ONCE, query.at_once)
    stream = query.transform(records, settings).writeStream.queryName(query.name)
    writer = stream.outputMode(query.output_mode).foreachBatch(sink)
    timed = writer.trigger(processingTime=f"{query.trigger_s(settings) * 1000:.0f} milliseconds")
    return timed.option("checkpointLocation", checkpoint).start()


def settled(query: StreamingQuery) -> bool:
    """Whether a query that was started has had a batch, finds nothing to do, or has ended."""
    return not query.isActive or query.lastProgress is not None or query.status["message"] == IDLE


def rehearsal(
    spark: SparkSession, settings: Settings, where: Endpoints, queries: Sequence[Query] = QUERIES
) -> Generator[None, None, None]:
    """Run the queries over the oldest records into nothing (see ``rehearsed``), and again: the second time
    they begin, as after a takeover, with what the first time left.
    """

    def start(query: Query, folder: str) -> StreamingQuery:
        most = min(REHEARSED, query.max_offsets(settings))
        records = kafka_stream(spark, settings, where, most, *query.topics)
        return started(query, records, settings, lambda rows, _: rows.toArrow(), f"{folder}/{query.name}")

    return rehearsed(spark, settings, [partial(start, query) for query in queries], times=2)


def rehearsed(
    spark: SparkSession, settings: Settings, starts: Iterable[Callable[[str], StreamingQuery]], times: int = 1
) -> Generator[None, None, None]:
    """Run queries until each has had a batch or this is closed: what Spark and Python load is then there.

    From the second time on it is enough that nothing is left to do. Raises ServiceError where one has ended.
    """
    folder = f"{settings.paths.place('checkpoints')}.scratch/{uuid4()}"
    try:
        for place in range(times):
            running = list[StreamingQuery]()
            try:
                running += (start(folder) for start in starts)
                while True:
                    for query in running:
                        if not query.isActive:
                            raise ServiceError(f"rehearsal: {query.name}: {query.exception()}")
                    if all(q.lastProgress is not None or (place and settled(q)) for q in running):
                        break
                    yield
            finally:
                for each in running:
                    each.stop()
    finally:
        HadoopStore(spark, folder, "ODOGRAPH_PATHS_CHECKPOINTS").remove("")


def kafka_stream(
    spark: SparkSession, settings: Settings, endpoints: Endpoints, max_offsets: int, *topics: str
) -> DataFrame:
    """Records of topics as they come, at most ``max_offsets`` in a batch; lost offsets are an error."""
    options = kafka_options(settings, endpoints, *topics)
    if CLOCK in topics:  # a new checkpoint reads telemetry again, not what was said when that had been read
        begins = {kafka_topic(settings.kafka.prefix, t): LATEST if t == CLOCK else EARLIEST for t in topics}
        counts = partition_counts(admin(endpoints.kafka_bootstrap), [*begins])
        offsets = {name: {str(p): begins[name] for p in range(count)} for name, count in counts.items()}
        options["startingOffsets"] = orjson.dumps(offsets).decode()
    reader = spark.readStream.format("kafka").options(**options)
    return record_columns(reader.option("maxOffsetsPerTrigger", max_offsets).load())


def kafka_options(settings: Settings, endpoints: Endpoints, *topics: str) -> dict[str, str]:
    """Options of Spark's Kafka source for topics of this installation."""
    return {
        **java_access(endpoints.kafka_bootstrap),
        "subscribe": ",".join(kafka_topic(settings.kafka.prefix, topic) for topic in topics),
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
    }


def record_columns(raw: DataFrame) -> DataFrame:
    """The record's columns out of Spark's Kafka columns; the Kafka timestamp is the bridge's receive time."""
    log_offset, received_ms = F.col("offset").alias("log_offset"), F.unix_millis("timestamp")
    return raw.select("topic", "partition", log_offset, "key", received_ms.alias("received_ms"), "value")
