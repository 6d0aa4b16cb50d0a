"""How each query does: Spark's progress events into readiness, metrics and the table query_progress.

Spark tells of each finished batch, and now and then that a query waits for data. Both say up to when a query
has taken in everything: that moment closes windows for the repair of late ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryStartedEvent, QueryTerminatedEvent

from stream_jobs.app.listening import Listener
from stream_jobs.app.schema import COUNTED

Row = tuple[Any, ...]
BACKLOG = 10_000
"""Lines kept for the table while the database is away; the oldest go first."""


class Metrics:
    """Prometheus metrics of the queries, labelled by query."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"odograph_query_{name}", text, ["query"], registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"odograph_query_{name}", text, ["query"], registry=registry)

        self.input = counter("input_records", "Records taken in")
        self.dropped_late = counter("dropped_late", "Rows dropped behind the watermark: must stay 0")
        self.duplicates = counter("duplicates", "Copies of frames dropped")
        self.lag = gauge("lag_records", "Records in Kafka not yet processed")
        self.state_rows = gauge("state_rows", "Rows kept in state")
        self.batch = gauge("batch_seconds", "Duration of the last batch")
        self.degraded = gauge("degraded", "1: a user's query has ended by an error")
        self.watermark = gauge("watermark_timestamp_seconds", "Watermark, seconds since 1970")

    def note(self, query: str, row: Mapping[str, Any]) -> None:
        """Take over one line of progress."""
        self.input.labels(query).inc(row["input_rows"])
        self.dropped_late.labels(query).inc(row["dropped_late"])
        self.duplicates.labels(query).inc(row["dropped_duplicates"])
        self.lag.labels(query).set(row["lag_records"])
        self.state_rows.labels(query).set(row["state_rows"])
        self.batch.labels(query).set(row["batch_ms"] / 1000)
        if row["watermark"] is not None:
            self.watermark.labels(query).set(datetime.fromisoformat(row["watermark"]).timestamp())


class Board(Listener):
    """What the queries last said; written by Spark's listener thread, read by the others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._complete_ms: dict[str, int] = {}
        self._lines: deque[dict[str, Any]] = deque(maxlen=BACKLOG)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        """A query runs."""
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """A batch is done."""
        line = line_of(progress)
        with self._lock:
            self._lines.append(line)
            if line["lag_records"] == 0:
                self._complete_ms[line["query"]] = _ms(progress["timestamp"])
        self._metrics.note(line["query"], line)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  Spark's name
        """A query found nothing to do: all that was there before is done."""
        with self._lock:
            name = self._names.get(str(event.id))
            if name is not None:
                self._complete_ms[name] = _ms(event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """A query ended; the main loop sees it by itself."""

    def degraded(self, query: str) -> None:
        """A user's query has ended."""
        self._metrics.degraded.labels(query).set(1)

    def take(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Since the last call: lines, and up to when queries have taken in every record, ms."""
        with self._lock:
            taken = list(self._lines), self._complete_ms
            self._lines.clear()
            self._complete_ms = {}
        return taken


def line_of(progress: Mapping[str, Any]) -> dict[str, Any]:
    """A line of odograph.query_progress, by column."""
    states = progress.get("stateOperators") or []
    event_time = progress.get("eventTime") or {}
    return {
        "query": progress["name"],
        "at": progress["timestamp"],
        "query_id": progress["id"],
        "batch_id": progress["batchId"],
        "input_rows": progress["numInputRows"],
        "rows_per_s": progress.get("processedRowsPerSecond"),
        "batch_ms": progress["durationMs"].get("triggerExecution", 0),
        "watermark": _after_1970(event_time.get("watermark")),
        "event_time_max": event_time.get("max"),
        "state_rows": sum(s["numRowsTotal"] for s in states),
        "state_bytes": sum(s["memoryUsedBytes"] for s in states),
        "dropped_late": sum(s["numRowsDroppedByWatermark"] for s in states) + _counted(progress, "missed"),
        "dropped_duplicates": sum(s["customMetrics"].get("numDroppedDuplicateRows", 0) for s in states)
        + _counted(progress, "copies"),
        "lag_records": sum(map(lag_of, progress["sources"])),
    }


def _counted(progress: Mapping[str, Any], name: str) -> int:
    """What the query counted itself."""
    counts = (progress.get("observedMetrics") or {}).get(COUNTED) or {}
    return int(counts.get(name) or 0)


def lag_of(source: Mapping[str, Any]) -> int:
    """Records of a Kafka source that were there when the batch was planned and are not in it."""
    end, latest = source.get("endOffset") or {}, source.get("latestOffset") or {}
    return sum(
        offset - end.get(topic, {}).get(partition, 0)
        for topic, offsets in latest.items()
        for partition, offset in offsets.items()
    )


def _after_1970(timestamp: str | None) -> str | None:
    """Spark says 1970 for "no watermark yet"."""
    return None if timestamp is None or timestamp.startswith("1970-01-01") else timestamp


def _ms(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
