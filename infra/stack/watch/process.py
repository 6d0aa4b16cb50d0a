"""The watch: looks at every part each few seconds and writes what it saw, until it is stopped.

It runs beside the pipeline and needs none of it but the database: where that is away nothing is written, and
the page says that nothing is known. A gap stays a gap.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from typing import Any, Final

import psycopg
import structlog
from prometheus_client import CollectorRegistry, Counter

from infra.clients.db import Connection, open_connection, service_errors
from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack import processes, query_offsets, status
from infra.stack.mosquitto import BrokerWatch
from infra.stack.probes import metrics, readyz
from infra.stack.service import Runner
from infra.stack.stack import SERVICES
from infra.stack.status import REAL_TIME
from infra.stack.supervisor import read_state
from infra.stack.watch import samples
from infra.stack.watch.samples import NOTHING, Ends, Figures, Place, Reading, Sample, places, sample

NAME: Final = "watch"
GOOD: Final = 3
"""A sample counts as measured for so many intervals, and for as long as parts may take to answer."""
ANSWER_S: Final = 10.0
EVENT_TOPICS: Final = ("alerts", "crash", "status", "dead-letter")

log = structlog.get_logger("infra.stack.watch")


def run(settings: Settings) -> None:
    """Watch until SIGTERM or SIGINT."""
    found = endpoints(settings)
    with stopped_by_signals() as stop, ExitStack() as parts:
        broker = BrokerWatch(found.mqtt, reconnect=True)
        ends = parts.enter_context(LogEnds(found.kafka_bootstrap, settings.kafka.prefix))
        watch = Watch(settings, found, parts.enter_context(broker), ends)
        checks = {"database": watch.problem}
        parts.enter_context(HealthServer(found.http_ports.get(NAME, 0), checks, watch.registry))
        parts.callback(watch.close)
        watch.run(stop)


class Watch:
    """Looks, and remembers the look before."""

    def __init__(self, settings: Settings, found: Endpoints, broker: BrokerWatch, ends: LogEnds) -> None:
        self.registry = CollectorRegistry()
        self._looks = Counter("odograph_watch_looks", "Looks at all parts, stored", registry=self.registry)
        self._settings, self._found, self._broker, self._ends = settings, found, broker, ends
        self._home = settings.paths.home.resolve()
        self._ports = {name: port for name, port in found.http_ports.items() if name != NAME}
        self._runner = Runner(self._home)
        self._connection: Connection | None = None
        self._before: dict[str, Reading] = {}
        self._log_before: tuple[float, Mapping[str, Ends]] | None = None
        self._memory: dict[str, float] = {}
        self._slow_due_s = 0.0
        self._problem: str | None = "nothing measured yet"

    def problem(self) -> str | None:
        """Why nothing is written; None when all is well."""
        return self._problem

    def run(self, stop: threading.Event) -> None:
        """Look each ``interval_s``; a look that takes longer is followed by the next one."""
        while True:
            begun_s = time.monotonic()
            self._once()
            if stop.wait(max(0.0, self._settings.watch.interval_s - (time.monotonic() - begun_s))):
                return

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _once(self) -> None:
        """A look; where the database is away, the next one tries again."""
        try:
            if self._connection is None:
                self._connection = connect(self._found.db_ingest_url)
            self.look(self._connection)
            self._slowly(self._connection)
        except ServiceError as error:
            if self._problem != str(error):
                log.warning("not written: trying again", reason=str(error))
            self._problem = str(error)
            self.close()
            self._connection = None
            return
        self._problem = None
        self._looks.inc()

    def look(self, connection: Connection) -> None:
        """All parts once, into the database; raises ServiceError where that is away."""
        own, read_to = ask(connection)
        cpu_s = {name: processes.cpu_s(pid) for name, pid in self._pids().items()}
        log_ends, trouble = self._log_ends()
        appended = sum(sum(ends.values()) for ends in log_ends.values())
        kafka = NOTHING if trouble else Figures(passed=appended)
        counts = self._broker.newest()
        silent = None if counts else f"{self._found.mqtt_host} publishes nothing under $SYS"
        broker = samples.broker(counts, self._settings) if counts else NOTHING
        readings = [
            self._reading("postgres", None, own, cpu_s),
            self._reading("mosquitto", silent, broker, cpu_s),
            self._reading("kafka", trouble, kafka, cpu_s),
            *self._processes(cpu_s),
        ]
        rows = [sample(now, self._before.get(now.stage)) for now in readings]
        good_s = GOOD * self._settings.watch.interval_s + ANSWER_S
        put(connection, rows, self._places(log_ends, read_to), good_s)
        self._before = {now.stage: now for now in readings}
        self._log_before = (time.monotonic(), log_ends)

    def _reading(
        self, stage: str, trouble: str | None, found: Figures, cpu_s: Mapping[str, float],
        restarts: int | None = None,
    ) -> Reading:  # fmt: skip
        memory_mb = self._memory.get(stage)
        return Reading(stage, time.monotonic(), trouble, found, cpu_s.get(stage), memory_mb, restarts)

    def _processes(self, cpu_s: Mapping[str, float]) -> list[Reading]:
        """Those with a health page, all at the same time: one that hangs holds up no other."""
        restarts = {name: kept.get("restarts") for name, kept in read_state(self._home).items()}

        def one(name: str) -> Reading:
            port = self._ports[name]
            trouble = readyz(port)
            found = samples.of_process(name, metrics(port), self._settings)
            return self._reading(name, trouble, found, cpu_s, restarts.get(name))

        with ThreadPoolExecutor(max_workers=max(1, len(self._ports))) as pool:
            return list(pool.map(one, self._ports))

    def _pids(self) -> dict[str, int]:
        """Process ids of the parts that run in this home, services too."""
        found = {name: self._runner.find(name) for name in (*self._ports, *SERVICES)}
        return {name: running.pid for name, running in found.items() if running is not None}

    def _log_ends(self) -> tuple[Mapping[str, Ends], str | None]:
        """End offsets by topic; none and the reason where Kafka does not answer."""
        try:
            return {topic: self._ends.ends(topic) for topic in ("telemetry", *EVENT_TOPICS)}, None
        except ServiceError as error:
            return {}, str(error)

    def _places(self, ends: Mapping[str, Ends], read_to: Mapping[str, Ends]) -> list[Place]:
        """How far each reader is in each partition: streaming queries by their checkpoints."""
        at_s, before = self._log_before or (0.0, {})
        seconds = time.monotonic() - at_s if before else None
        found: list[Place] = []
        for query, read in self._committed().items():
            if "telemetry" in ends:
                found += places(query, "telemetry", ends["telemetry"], read, before.get("telemetry"), seconds)
        for topic, read in read_to.items():
            if topic in ends:
                found += places("events", topic, ends[topic], read, before.get(topic), seconds)
        return found

    def _committed(self) -> dict[str, Ends]:
        """Where the newest committed batch of each query ends in the live topic."""
        topic = self._ends.topic("telemetry")
        newest = {
            query: query_offsets.committed(self._home, query)
            for query in query_offsets.queries(self._home)
            if query not in REAL_TIME
        }
        return {query: done.ends[topic] for query, done in newest.items() if done and topic in done.ends}

    def _slowly(self, connection: Connection) -> None:
        """What costs a walk through files: memory of each part, sizes of folders and tables."""
        if time.monotonic() < self._slow_due_s:
            return
        self._slow_due_s = time.monotonic() + self._settings.watch.slow_interval_s
        self._memory = {name: processes.memory_mb(pid) for name, pid in self._pids().items()}
        found = status.folder_sizes(self._home)
        put_storage(connection, found, dict.fromkeys(found, shutil.disk_usage(self._home).free))


PUT_SAMPLE: Final = """
INSERT INTO odograph.stage_sample
    (stage, at, good_until, ready, reason, rate_per_s, errors, lag, saturation, cores, memory_mb, restarts)
VALUES (%s, now(), now() + make_interval(secs => %s), %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
PUT_PLACE: Final = """
INSERT INTO odograph.partition_lag
    (reader, topic, partition, log_end, read_to, rate_per_s, at, good_until)
VALUES (%s, %s, %s, %s, %s, %s, now(), now() + make_interval(secs => %s))
ON CONFLICT (reader, topic, partition) DO UPDATE SET log_end = excluded.log_end, read_to = excluded.read_to,
    rate_per_s = excluded.rate_per_s, at = excluded.at, good_until = excluded.good_until
"""
PUT_STORAGE: Final = """
INSERT INTO odograph.storage_sample (place, at, bytes, free_bytes) VALUES (%s, now(), %s, %s)
ON CONFLICT DO NOTHING
"""
READ_TO: Final = (
    "SELECT topic, partition, next_offset FROM odograph.consumer_offset WHERE consumer = 'events'"
)
OWN: Final = """
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
       (SELECT xact_rollback + deadlocks FROM pg_stat_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::integer
"""


def connect(url: str) -> Connection:
    """A connection of the watch; raises ServiceError."""
    with service_errors():
        return open_connection(
            url, Connection, statement_timeout_s=5, session={"timezone": "UTC"}, autocommit=True,
            application_name="odograph-watch", tcp_user_timeout=5000,
        )  # fmt: skip


def ask(connection: Connection) -> tuple[Figures, dict[str, dict[int, int]]]:
    """The database's own figures, and the event store's next offset by topic and partition.

    Raises ServiceError.
    """
    with service_errors():
        commits, failures, clients, most = connection.execute(OWN).fetchone() or (None,) * 4
        read: dict[str, dict[int, int]] = {}
        for topic, partition, offset in connection.execute(READ_TO):
            read.setdefault(topic, {})[partition] = offset
    return Figures(passed=commits, errors=failures, saturation=samples.share(clients, most or 0)), read


def put(connection: Connection, samples: Sequence[Sample], found: Sequence[Place], good_s: float) -> None:
    """A look's rows; they count as measured for ``good_s``. Raises ServiceError."""
    rows = [(s[0], good_s, *s[1:]) for s in map(astuple, samples)]
    with _transaction(connection) as cursor:
        cursor.executemany(PUT_SAMPLE, rows)
        if found:
            cursor.executemany(PUT_PLACE, [(*astuple(place), good_s) for place in found])


def put_storage(connection: Connection, bytes_by_place: Mapping[str, int], free: Mapping[str, int]) -> None:
    """How big each place is, and how much its disk has left; raises ServiceError."""
    with _transaction(connection) as cursor:
        cursor.executemany(
            PUT_STORAGE, [(place, size, free.get(place)) for place, size in bytes_by_place.items()]
        )


@contextmanager
def _transaction(connection: Connection) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
    """A cursor within a transaction; the driver's errors as ServiceError."""
    with service_errors(), connection.transaction(), connection.cursor() as cursor:
        yield cursor
