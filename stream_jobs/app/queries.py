"""The streaming queries of the micro-batch application: what each reads, makes of it, and writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from infra.contract.topics import kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import Database
from stream_jobs.app.sinks import BatchClaims, TelemetrySink
from stream_jobs.app.telemetry import telemetry_rows
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.archive.manifest import telemetry_of
from stream_jobs.archive.query import ArchiveSink

TOPIC: Final = "telemetry"
ARCHIVE_BATCH_FACTOR: Final = 5
"""The archive takes so many times ``max_offsets`` a batch: its trigger is longer."""

Transform = Callable[[DataFrame, Settings], DataFrame]
Sink = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class SinkParts:
    """What sinks are made of."""

    settings: Settings
    addresses: Endpoints
    database: Database
    claims: BatchClaims
    stop: threading.Event


MakeSink = Callable[[SinkParts], Sink]


@dataclass(frozen=True, slots=True)
class Query:
    """One streaming query: records -> ``transform`` -> sink, by its own checkpoint and scheduler pool.

    ``operators`` is the version of its stateful operators, None without any: to be raised with each change of
    them; ``buckets``: in how many its state lies. ``replaces`` are queries of older versions (see
    checkpoints.py). One that ``may_fail`` is a user's: its end is told, and ends nothing else. Of an
    ``interpreted`` one records go to Python as they are: code for that, made by each task, would cost more.
    """

    name: str
    operators: int | None
    replaces: tuple[str, ...]
    trigger_s: Callable[[Settings], float]
    max_offsets: Callable[[Settings], int]
    transform: Transform
    sink: MakeSink
    output_mode: str = "update"
    buckets: Callable[[Settings], int | None] = lambda _settings: None
    may_fail: bool = False
    interpreted: bool = False


QUERIES: Final = (
    Query(
        name="telemetry",
        operators=2,
        replaces=("routing", "windows", "vehicles"),
        trigger_s=lambda s: s.jobs.trigger_s,
        max_offsets=lambda s: s.jobs.max_offsets,
        transform=telemetry_rows,
        sink=lambda p: TelemetrySink(
            p.database,
            p.claims,
            TopicWriter(p.addresses.kafka_bootstrap, p.settings.kafka.prefix, "alerts", p.stop),
            kafka_topic(p.settings.kafka.prefix, TOPIC),
            p.settings.jobs.road_window_s,
        ),
        output_mode="append",
        buckets=lambda s: s.jobs.vehicle_buckets,
        interpreted=True,
    ),
    Query(
        name="archive",
        operators=None,
        replaces=(),
        trigger_s=lambda s: s.jobs.archive_trigger_s,
        max_offsets=lambda s: s.jobs.max_offsets * ARCHIVE_BATCH_FACTOR,
        transform=lambda records, _s: records,
        sink=lambda p: ArchiveSink(
            p.database,
            p.claims,
            telemetry_of(p.settings.paths.home),
            clock_limits(p.settings),
        ),
        interpreted=True,
    ),
)
