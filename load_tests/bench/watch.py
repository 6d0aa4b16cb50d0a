"""The chain's own figures while it runs: Kafka's ends, checkpoints, the broker, the bridge, the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from infra.clients.db import session
from infra.clients.kafka import LogEnds
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings
from infra.stack import probes, query_offsets
from infra.stack.mosquitto import BrokerWatch
from infra.stack.watch.samples import Metrics
from load_tests.bench.ticks import Load, Tick

_BATCHES = """
SELECT query, count(*) AS batches, sum(batch_ms) / 1000.0 AS busy_s, max(batch_ms) / 1000.0 AS longest_s,
       sum(input_rows) AS records, max(state_rows) AS state_rows, max(state_bytes) AS state_bytes
FROM odograph.query_progress
WHERE at >= to_timestamp(%s) AND at < to_timestamp(%s) AND input_rows > 0
GROUP BY query ORDER BY query
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Chain:
    """A running pipeline and the doors to its figures."""

    home: Path
    settings: Settings
    endpoints: Endpoints
    ends: LogEnds
    broker: BrokerWatch
    database: psycopg.Connection[tuple[Any, ...]]

    def tick(self, load: Load, memory_mb: Mapping[str, float] | None) -> Tick:
        """The state now."""
        broker = self.broker.figures()
        return Tick(
            at_s=time.monotonic(),
            committed=self.committed(),
            appended=self.ends.appended("telemetry"),
            queued=broker.queued,
            dropped=broker.dropped,
            in_flight=self.in_flight(),
            load=load,
            memory_mb=memory_mb,
        )

    def committed(self) -> dict[str, int]:
        """Telemetry records whose results are in, by query; 0 for one that has committed nothing yet."""
        topic = kafka_topic(self.settings.kafka.prefix, "telemetry")
        newest = query_offsets.committed_ends(self.database, topic)
        return {query: sum(ends.values()) for query, ends in newest.items()}

    def in_flight(self) -> int | None:
        """Messages inside the bridge's telemetry lane; None where its page does not answer in time."""
        page = Metrics(probes.metrics(self.endpoints.http_ports["bridge"]))
        lanes = page.by("odograph_bridge_in_flight_messages", "lane")
        return int(sum(count for lane, count in lanes.items() if lane != "crash")) if lanes else None

    def db_active_s(self) -> float:
        """Time that the database's connections spent in statements since its start, s."""
        sql = "SELECT active_time / 1000 FROM pg_stat_database WHERE datname = current_database()"
        row = self.database.execute(sql).fetchone()
        return float(row[0]) if row else 0.0

    def batches(self, from_s: float, to_s: float) -> list[dict[str, Any]]:
        """What the queries' batches between two wall-clock times took."""
        with self.database.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            return cursor.execute(_BATCHES, (from_s, to_s)).fetchall()


@contextmanager
def chain(home: Path, settings: Settings, endpoints: Endpoints) -> Iterator[Chain]:
    """The doors, open while the block runs."""
    with (
        LogEnds(endpoints.kafka_bootstrap, settings.kafka.prefix) as ends,
        BrokerWatch(endpoints.mqtt) as broker,
        session(endpoints.db_owner_url, autocommit=True) as database,
    ):
        yield Chain(home, settings, endpoints, ends, broker, database)
