"""The watch: looks at every part each few seconds and writes what it saw, until it is stopped.

Where the database is away, or another region acts, nothing is written, and the page says so: a gap stays a
gap.
"""

import shutil
import threading
import time
from collections import Counter as Keys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from infra.clients.db import Connection, open_connection, service_errors, sql_of
from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.contract.topics import EVENT_TOPICS
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack import processes, query_offsets, status
from infra.stack.mosquitto import BrokerFigures, watched
from infra.stack.probes import metrics, readyz
from infra.stack.stack import SERVICES
from infra.stack.supervisor import read_state
from infra.stack.watch import samples

SQL: Final = sql_of(__file__)
NAME: Final = "watch"
GOOD: Final = 3  # a sample counts for so many intervals, and for as long as parts may take to answer
ANSWER_S: Final = 10.0
KEYED: Final = "telemetry"  # its keys are counted, in the newest TAIL records of a partition; TOP are kept
TAIL: Final = 1000
TOP: Final = 10

log = structlog.get_logger("infra.stack.watch")


def run(settings: Settings) -> None:
    """Watch until SIGTERM or SIGINT."""
    found = endpoints(settings, ("mqtt_host", "kafka_bootstrap", "db_ingest_url"), NAME)
    with stopped_by_signals() as stop, ExitStack() as parts:
        newest = parts.enter_context(watched(found.brokers))
        ends = parts.enter_context(LogEnds(found.kafka_bootstrap, settings.kafka.prefix))
        watch = Watch(settings, found, newest, ends)
        checks = {"database": lambda: watch.problem}
        remarks = {"hot partitions": lambda: "; ".join(map(str, watch.hot.values())) or None}
        parts.enter_context(HealthServer(found.health(NAME), checks, watch.registry, remarks))
        parts.callback(watch.close)
        watch.run(stop)


class Watch:
    """Looks, and remembers the look before."""

    def __init__(
        self, settings: Settings, found: Endpoints, newest: Callable[[], BrokerFigures | None], ends: LogEnds
    ) -> None:
        self.registry = CollectorRegistry()
        self.problem: str | None = "nothing measured yet"
        """Why nothing is written; None when all is well."""
        self.hot: dict[tuple[str, str], samples.Skew] = {}
        """By reader and topic the partitions that are hot, since two looks."""
        self._skew = Gauge(
            "odograph_watch_partition_skew", "Records waiting in the worst partition over the median.",
            ["reader", "topic"], registry=self.registry,
        )  # fmt: skip
        self._looks = Counter("odograph_watch_looks", "Looks at all parts, stored", registry=self.registry)
        self._settings, self._found, self._newest, self._ends = settings, found, newest, ends
        self._home = settings.paths.home.resolve()
        own = {name: where for name, where in found.pages.items() if name != NAME}
        self._pages: Mapping[str, str] = settings.watch.places() or own
        self._connection: Connection | None = None
        self._before: dict[str, samples.Reading] = {}
        self._log_before: tuple[float, Mapping[str, samples.Ends]] = (0.0, {})
        self._memory: dict[str, float] = {}
        self._slow_due_s = 0.0
        self._rates: dict[int, float | None] = {}
        self._hot_before: dict[tuple[str, str], samples.Skew] = {}

    def run(self, stop: threading.Event) -> None:
        """Look each ``interval_s``; a look that takes longer is followed by the next one."""
        while True:
            begun_s = time.monotonic()
            try:
                with service_errors():
                    self._connection = self._connection or open_connection(
                        self._found.db_ingest_url, Connection, statement_timeout_s=5, autocommit=True,
                        application_name="odograph-watch", tcp_user_timeout=5000,
                    )  # fmt: skip
                    self._slowly(self._connection, self._look(self._connection))
                self._looks.inc()
                self.problem = None
            except ServiceError as error:  # the next look tries again
                if self.problem != str(error):
                    log.warning("not written: trying again", reason=str(error))
                self.problem = str(error)
                self.close()
            if stop.wait(max(0.0, self._settings.watch.interval_s - (time.monotonic() - begun_s))):
                return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _look(self, connection: Connection) -> str:
        """Store a sample of each part; the region that acts."""
        own, read_to, acting = _ask(connection)
        if acting not in ("", self._settings.region.name):  # what is measured here would stand among its own
            raise ServiceError(f"region {acting} acts")
        children = processes.all_children()
        cpu_s = {name: processes.cpu_s(pid, children) for name, pid in self._pids().items()}
        ends: dict[str, samples.Ends] = {}
        kafka_trouble = None
        try:
            ends = {topic: self._ends.ends(topic) for topic in ("telemetry", *EVENT_TOPICS)}
        except ServiceError as error:
            kafka_trouble = str(error)
        appended = samples.Figures(passed=sum(sum(end.values()) for end in ends.values()))
        counts = self._newest()
        silent = None if counts else f"{self._found.mqtt_host} publishes nothing under $SYS"
        told = samples.broker(counts, self._settings) if counts else samples.NOTHING
        at_s = time.monotonic()
        found = {
            "postgres": (at_s, None, own),
            "mosquitto": (at_s, silent, told),
            "kafka": (at_s, kafka_trouble, samples.NOTHING if kafka_trouble else appended),
        }
        with ThreadPoolExecutor(max_workers=max(1, len(self._pages))) as pool:  # none holds up another
            found |= dict(zip(self._pages, pool.map(self._asked, self._pages), strict=True))
        state = read_state(self._home)
        readings = {
            stage: samples.Reading(
                stage, at_s, trouble, figures, cpu_s.get(stage), self._memory.get(stage),
                state.get(stage, {}).get("restarts"),
            )
            for stage, (at_s, trouble, figures) in found.items()
        }  # fmt: skip
        rows = [samples.sample(now, self._before.get(stage)) for stage, now in readings.items()]
        good_s = GOOD * self._settings.watch.interval_s + ANSWER_S
        places_ = self._places(connection, ends, read_to)
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(SQL["sample"], [row | {"good_s": good_s} for row in rows])
            cursor.executemany(SQL["place"], [(*place, acting, good_s) for place in places_])
        self._before, self._log_before = readings, (time.monotonic(), ends)
        self._rates = {place.partition: place.rate_per_s for place in places_ if place.topic == KEYED}
        self._judge(connection)
        if self._hot_before.keys() - self.hot.keys():
            self._slow_due_s = 0.0  # which keys is it?
        return acting

    def _asked(self, name: str) -> tuple[float, str | None, samples.Figures]:
        where = self._pages[name]
        trouble, figures = readyz(where), samples.NOTHING
        try:
            figures = samples.of_process(name, metrics(where), self._settings)
        except ValueError as error:  # another program answers there
            trouble = trouble or f"no metrics of ours: {error}"
        return time.monotonic(), trouble, figures

    def _pids(self) -> dict[str, int]:
        found = {name: processes.find(self._home / "run", name) for name in (*self._pages, *SERVICES)}
        return {name: running.pid for name, running in found.items() if running is not None}

    def _places(
        self, connection: Connection, ends: Mapping[str, samples.Ends], read_to: Mapping[str, samples.Ends]
    ) -> list[samples.Place]:
        at_s, before = self._log_before
        seconds = time.monotonic() - at_s
        by_query = query_offsets.committed_ends(connection, self._ends.topic("telemetry"))
        readers = [(query, "telemetry", read) for query, read in by_query.items()]
        readers += [("events", topic, read) for topic, read in read_to.items()]
        found: list[samples.Place] = []
        for reader, topic, read in readers:
            if topic in ends:
                found += samples.places(reader, topic, ends[topic], read, before.get(topic, {}), seconds)
        return found

    def _judge(self, connection: Connection) -> None:
        """Which partitions are hot: seen so in two looks. That it begins and ends is logged."""
        skews = [samples.Skew(*row) for row in connection.execute(status.SQL["skews"])]
        for skew in skews:
            self._skew.labels(skew.reader, skew.topic).set(skew.ratio)
        now = {(skew.reader, skew.topic): skew for skew in skews if skew.hot(self._settings.watch)}
        hot = {place: skew for place, skew in now.items() if place in self._hot_before}
        for place in hot.keys() - self.hot.keys():
            log.warning("a partition is hot", what=str(hot[place]))
        for place in self.hot.keys() - hot.keys():
            log.info("the partition is hot no more", reader=place[0], topic=place[1])
        self._hot_before, self.hot = now, hot

    def _top_keys(self, connection: Connection, acting: str) -> None:
        """The keys that send most, among the newest records of each partition."""
        topic, tails = self._ends.topic(KEYED), dict[int, Keys[str]]()
        for partition, (low, end) in self._ends.spans(topic).items():
            newest = self._ends.messages(topic, partition, max(low, end - TAIL), end)
            tails[partition] = Keys((message.key() or b"").decode(errors="replace") for message in newest)
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM odograph.top_key")
            found = samples.top_keys(KEYED, tails, self._rates, TOP)
            cursor.executemany(SQL["key"], [(*key, acting) for key in found])

    def _slowly(self, connection: Connection, acting: str) -> None:
        if time.monotonic() < self._slow_due_s:
            return
        self._slow_due_s = time.monotonic() + self._settings.watch.slow_interval_s
        self._memory, folders = status.sizes(self._home, self._pids())
        free = shutil.disk_usage(self._home).free
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(SQL["storage"], [(place, size, free) for place, size in folders.items()])
        if self._log_before[1]:  # Kafka answers
            self._top_keys(connection, acting)


def _ask(connection: Connection) -> tuple[samples.Figures, dict[str, dict[int, int]], str]:
    """The database's own figures, the event store's next offset by topic and partition, and who acts."""
    *counts, acting = connection.execute(SQL["own"]).fetchone() or (None,) * 5
    read: dict[str, dict[int, int]] = {}
    for topic, partition, offset in connection.execute(SQL["read_to"]):
        read.setdefault(topic, {})[partition] = offset
    commits, failures, clients, most = counts
    share = samples.share(clients, most or 0)
    return samples.Figures(passed=commits, errors=failures, saturation=share), read, acting or ""
