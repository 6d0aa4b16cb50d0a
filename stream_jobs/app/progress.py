"""How each query does: Spark's progress events into readiness, metrics and the table query_progress.

Spark tells of each finished batch, and now and then that a query waits for data. Both say up to when a query
has taken in everything: that moment closes windows for the repair of late ones.
"""

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge
from pyspark import SparkContext
from pyspark.sql.streaming import listener as spark_listener

from infra.clients.db import sql_of
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.app.schema import COUNTED
from stream_jobs.app.topic_writer import Message

BACKLOG = 10_000  # lines kept for the table while the database is away; the oldest go first
BREAK_MS = 10_000  # looks for records that lie further apart, and two triggers more: Kafka could not be asked


class Listener(spark_listener.StreamingQueryListener):
    """A listener that is given the progress of a batch as a mapping, in the words of Spark's JSON."""

    @abstractmethod
    def progressed(self, progress: Mapping[str, Any]) -> None:
        """A batch is done."""

    def onQueryProgress(self, event: spark_listener.QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """PySpark's own way in: dear, and the same."""
        self.progressed(orjson.loads(event.progress.json))

    @property
    def _jlistener(self) -> Any:
        """What PySpark registers in its place: Spark's wrapper around ``_Calls``."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_Calls(self))


class _Calls(spark_listener.JStreamingQueryListener):
    """The calls that come from Java."""

    pylistener: Listener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802  Spark's name
        """The text of the event, and nothing else, comes over."""
        self.pylistener.progressed(orjson.loads(jevent.progress().json()))


COUNTERS: Final = {
    "input_records": ("input_rows", "Records taken in"),
    "dropped_late": ("dropped_late", "Rows behind the watermark; frames of closed windows, repaired"),
    "duplicates": ("dropped_duplicates", "Copies of frames dropped"),
}
GAUGES: Final = {
    "lag_records": ("lag_records", "Records in Kafka not yet processed"),
    "state_rows": ("state_rows", "Rows kept in state"),
    "batch_seconds": ("batch_s", "Duration of the last batch"),
    "watermark_timestamp_seconds": ("watermark_s", "Watermark, seconds since 1970"),
    "degraded": ("", "1: a user's query has ended by an error"),
}
"""Metrics of a query: by name the value of its progress that they show, and their text."""


class Board(Listener):
    """What the queries last said; written by Spark's listener thread, read by the others."""

    def __init__(self, registry: CollectorRegistry, trigger_s: float) -> None:
        labels: Any = {"labelnames": ["query"], "registry": registry}
        self._counters = {k: Counter(f"odograph_query_{k}", v[1], **labels) for k, v in COUNTERS.items()}
        self._gauges = {k: Gauge(f"odograph_query_{k}", v[1], **labels) for k, v in GAUGES.items()}
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._complete_ms: dict[str, int] = {}
        self._break_ms = BREAK_MS + 2000 * trigger_s
        self._quiet_ms: dict[str, tuple[int, int]] = {}  # since when nothing came, and the last look
        self._lines: deque[dict[str, Any]] = deque(maxlen=BACKLOG)

    def onQueryStarted(self, event: spark_listener.QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        line = line_of(progress)
        at_ms = int(_seconds(progress["timestamp"]) * 1000)
        with self._lock:
            self._lines.append(line)
            self._look(line["query"], at_ms, came=line["input_rows"] > 0 or line["lag_records"] > 0)
            if line["lag_records"] == 0:
                self._complete_ms[line["query"]] = at_ms
        values = line | {"batch_s": line["batch_ms"] / 1000}
        if line["watermark"] is not None:
            values["watermark_s"] = _seconds(line["watermark"])
        for name, (value, _) in COUNTERS.items():
            self._counters[name].labels(line["query"]).inc(values[value])
        for name, (value, _) in GAUGES.items():
            if value in values:
                self._gauges[name].labels(line["query"]).set(values[value])

    def onQueryIdle(self, event: spark_listener.QueryIdleEvent) -> None:  # noqa: N802  Spark's name
        """A query found nothing to do: all that was there before is done."""
        with self._lock:
            name = self._names.get(str(event.id))
            if name is not None:
                self._complete_ms[name] = at_ms = int(_seconds(event.timestamp) * 1000)
                self._look(name, at_ms, came=False)

    def _look(self, query: str, at_ms: int, came: bool) -> None:
        """After a break in the looks (Kafka was away) what it kept from us may be on its way."""
        since_ms, last_ms = self._quiet_ms.get(query, (at_ms, at_ms))
        anew = came or at_ms - last_ms > self._break_ms
        self._quiet_ms[query] = (at_ms if anew else since_ms, at_ms)

    def quiet(self, query: str, for_ms: float) -> int | None:
        """The last look of a query that has found nothing for so long, ms since 1970; then it counts anew."""
        with self._lock:
            since_ms, at_ms = self._quiet_ms.get(query, (0, 0))
            if at_ms - since_ms < for_ms:
                return None
            self._quiet_ms[query] = (at_ms, at_ms)
            return at_ms

    def onQueryTerminated(self, event: spark_listener.QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """A query ended; the main loop sees it by itself."""

    def degraded(self, query: str) -> None:
        self._gauges["degraded"].labels(query).set(1)

    def take(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Since the last call: lines, and up to when queries have taken in every record, ms."""
        with self._lock:
            taken = list(self._lines), self._complete_ms
            self._lines.clear()
            self._complete_ms = {}
        return taken


def run_clock(board: Board, clock_s: float, write: Callable[[Sequence[tuple[Any, ...]]], None]) -> None:
    """While no record comes, tell the query telemetry up to when none did: its watermark goes on by that.

    Its timers hang on the watermark, which is the newest receipt: of a fleet that is silent as a whole none
    would run out before a vehicle sends again.
    """
    at_ms = board.quiet("telemetry", 1000 * clock_s)
    if at_ms is not None:
        write([Message(b"receipt", b"", at_ms=at_ms)])


def line_of(progress: Mapping[str, Any]) -> dict[str, Any]:
    """A line of odograph.query_progress, by column."""
    states = progress.get("stateOperators") or []
    event_time = progress.get("eventTime") or {}
    watermark = event_time.get("watermark")
    counted = (progress.get("observedMetrics") or {}).get(COUNTED) or {}
    copies = sum(s["customMetrics"].get("numDroppedDuplicateRows", 0) for s in states)
    return {
        "query": progress["name"],
        "at": progress["timestamp"],
        "query_id": progress["id"],
        "batch_id": progress["batchId"],
        "input_rows": progress["numInputRows"],
        "rows_per_s": progress.get("processedRowsPerSecond"),
        "batch_ms": progress["durationMs"].get("triggerExecution", 0),
        # Spark says 1970 for "no watermark yet".
        "watermark": None if watermark is None or watermark.startswith("1970-01-01") else watermark,
        "event_time_max": event_time.get("max"),
        "state_rows": sum(s["numRowsTotal"] for s in states),
        "state_bytes": sum(s["memoryUsedBytes"] for s in states),
        "dropped_late": sum(s["numRowsDroppedByWatermark"] for s in states) + (counted.get("missed") or 0),
        "dropped_duplicates": copies + (counted.get("copies") or 0),
        "lag_records": sum(map(lag_of, progress["sources"])),
    }


def lag_of(source: Mapping[str, Any]) -> int:
    """Records of a Kafka source that were there when the batch was planned and are not in it."""
    end, latest = source.get("endOffset") or {}, source.get("latestOffset") or {}
    return sum(
        offset - end.get(topic, {}).get(partition, 0)
        for topic, offsets in latest.items()
        for partition, offset in offsets.items()
    )


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


SQL: Final = sql_of(__file__)


def clock_ms(connection: Connection) -> int:
    """Now by the database's clock, which late frames are listed by (``noted_at``), ms since 1970."""
    return int(fetch(connection, SQL["clock"])[0][0])


def note(connection: Connection, moments: Mapping[str, int]) -> None:
    """By query, up to when it has taken in everything, ms since 1970 by this machine's clock; noted by the
    database's. It never goes back, unless that was set back.
    """
    # The other clock first: the time of its answer makes a moment earlier, never later than it was.
    behind_ms = clock_ms(connection) - time.time_ns() // 1_000_000
    there_ms = [at_ms + behind_ms for at_ms in moments.values()]
    execute(connection, SQL["note"], {"queries": [*moments], "moments": there_ms})


def complete_until_ms(database: Database, *queries: str) -> int | None:
    """Up to when all of ``queries`` have taken in every record of the log, ms; None before each has said so.

    A record may reach the log long after its receipt: a late frame is in the archive once this lies after the
    moment at which it was listed (``noted_at``).
    """
    found = database.run(lambda connection: fetch(connection, SQL["complete"], {"queries": [*queries]}))
    return int(found[0][0]) if found else None
