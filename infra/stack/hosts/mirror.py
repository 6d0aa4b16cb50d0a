"""The other region's log copied into this region's Kafka, by MirrorMaker 2 from Kafka's own jars.

Topics keep their names, records their partition, order, key, headers and time; the copy is a log of its own,
in which offsets are other places. MirrorMaker notes in the copy how far it has read; it reads a record twice
after a kill, which readers know by its identity, and never leaves one out.

MirrorMaker knows nothing of the lease: it is killed when that ends, and starts again when it is renewed.
"""

import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import orjson
import structlog
from prometheus_client import CollectorRegistry, Gauge

from infra.clients.db import asked, connected, sql_of
from infra.clients.health import HealthServer, in_background, stopped_by_signals
from infra.clients.kafka import LogEnds, LogReader, java_access, topics_of
from infra.clients.leases import Lease, Term
from infra.clients.log import refused
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import COPIED, kafka_topic
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack.downloads import cache, fetch
from infra.stack.kafka import JVM_OPTIONS, LOG_CONFIG, TIMEOUT_S, copies_in, delete
from infra.stack.supervisor import MIRROR

SQL: Final = sql_of(__file__)
NAME: Final = MIRROR
IVY: Final = Path(__file__).with_name("mirror.xml")
TEMPLATE: Final = Path(__file__).with_name("mirror.conf")
CONNECTOR: Final = "MirrorSourceConnector"
HEAP_MB: Final = 256
FLUSH_MS: Final = 1000
LOOK_S: Final = 2.0
AGAIN_S: Final = 5.0
STOP_S: Final = 20.0
FENCE_S: Final = 0.2
GUARD: Final = Path(__file__).with_name("guard.sh").read_text()

Place = tuple[str, int]  # topic (short name) and partition
Span = tuple[int, int]  # the first offset, and the next one after the last
log = structlog.get_logger("infra.stack.hosts.mirror")


def config(source: tuple[str, str], target: tuple[str, str], prefix: str, copies: int) -> str:
    """MirrorMaker's settings; name and address of either region's Kafka, copies of what it notes."""
    topics = ",".join(re.escape(kafka_topic(prefix, name)).replace("\\", "\\\\") for name in COPIED)
    terms = {"old": source[0], "new": target[0], "topics": topics, "copies": copies, "flush_ms": FLUSH_MS}
    access = [
        f"{name}.{key.removeprefix('kafka.')}={value}\n"
        for name, address in (source, target)
        for key, value in java_access(address).items()
    ]
    return TEMPLATE.read_text().format(**terms) + "".join(access)


def copied(bootstrap: str, source: str, prefix: str) -> dict[Place, int]:
    """How far the copy in the Kafka at ``bootstrap`` is, in offsets of the source: the next one, at least.

    Empty before the first record; up to ``FLUSH_MS`` old. Raises ServiceError.
    """
    found: dict[Place, int] = {}
    for (name, place), value, _ in _noted(bootstrap, f"mm2-offsets.{source}.internal"):
        if name == CONNECTOR and place["topic"].startswith(prefix):
            at = place["topic"].removeprefix(prefix), int(place["partition"])
            found.pop(at, None)
            if value is not None:
                found[at] = int(value["offset"]) + 1
    return found


def failed(bootstrap: str, source: str, since_ms: int) -> list[str]:
    """The parts of MirrorMaker that have given up since, with the first line of why. Raises ServiceError."""
    states = dict[str, str]()
    for key, value, at_ms in _noted(bootstrap, f"mm2-status.{source}.internal"):
        states[str(key)] = ""
        if value is not None and value.get("state") == "FAILED" and at_ms >= since_ms:
            states[str(key)] = f"{key}: {(value.get('trace') or '').partition(chr(10))[0]}"
    return [why for why in states.values() if why]


def _noted(bootstrap: str, topic: str) -> Iterator[tuple[Any, Any, int]]:
    """Keys, values and times of one of MirrorMaker's own topics, in order; none before it has made that."""
    if topic not in topics_of(bootstrap, TIMEOUT_S):
        return
    with LogReader(bootstrap, "odograph-mirror", TIMEOUT_S) as reader:
        for partition, span in reader.spans(topic).items():
            for record in reader.records(topic, partition, *span):
                key: Any = record.key or ""
                key = orjson.loads(key) if key.startswith("[") else key
                yield key, orjson.loads(record.value) if record.value else None, record.received_ms


def spans_of(bootstrap: str, prefix: str) -> dict[Place, Span]:
    """What the copied topics of a region's log hold. Raises ServiceError."""
    with LogEnds(bootstrap, prefix) as log:
        return {(n, p): span for n in COPIED for p, span in log.spans(log.topic(n)).items()}


def behind(spans: Mapping[Place, Span], to: Mapping[Place, int]) -> dict[Place, Span]:
    """What a copy lacks of what the log holds; pure."""
    lacking = {place: (max(low, to.get(place, 0)), end) for place, (low, end) in spans.items()}
    return {place: (begin, end) for place, (begin, end) in lacking.items() if begin < end}


def forget(bootstrap: str, source: str) -> None:
    """Remove MirrorMaker's notes on a source, so that it copies from the beginning. Raises ServiceError."""
    there = topics_of(bootstrap, TIMEOUT_S)
    delete(bootstrap, [n for n in there if n.startswith("mm2-") and n.endswith(f".{source}.internal")])


def run(settings: Settings) -> None:
    """Copy while the database says that this region's log is the copy, until SIGTERM or SIGINT."""
    if not settings.region.other:
        raise ConfigError("ODOGRAPH_REGION_OTHER names no other region: there is nothing to copy")
    where = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"), NAME)
    with stopped_by_signals() as stop:
        mirror = Mirror(settings, where)
        lease = Lease(settings, where.db_ingest_url, NAME, stop)
        checks = {"mirrormaker": lambda: mirror.problem}
        remarks = {"other region": lambda: mirror.remark}
        with HealthServer(where.health(NAME), checks, mirror.registry, remarks, lease=lease) as page:
            log.info("serving", port=page.port)
            lease.run(mirror.serve)


@contextmanager
def fenced(command: Sequence[str], term: Term) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command that knows nothing of the lease: it is killed when that ends, also where this process
    stands still, and ends with this process.
    """
    guard = ("setpriv", "--pdeathsig", "KILL", "bash", "-c", GUARD, "guard", f"{term.left_s:.3f}")
    with subprocess.Popen((*guard, *command), stdin=subprocess.PIPE, bufsize=0) as child:

        def allow(ended: threading.Event) -> None:
            assert child.stdin is not None
            while not ended.wait(FENCE_S) and (left_s := term.left_s) > 0:
                with suppress(BrokenPipeError):
                    child.stdin.write(b"%.3f\n" % left_s)
            child.kill()

        with in_background("fence", allow):
            try:
                yield child
            finally:
                child.terminate()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(STOP_S)


class Mirror:
    """Runs MirrorMaker. ``problem``: why it does not copy; ``remark``: why it has nothing to copy from."""

    def __init__(self, settings: Settings, where: Endpoints) -> None:
        self._settings, self._where = settings, where
        self._other, self._address = settings.region.other_name, settings.region.other_kafka
        self.problem: str | None = "starting"
        self.remark: str | None = None
        self.registry = CollectorRegistry()
        self._lag = Gauge(
            "odograph_mirror_lag_records", "Records of the other region's log that are not here", ["topic"],
            registry=self.registry,
        )  # fmt: skip

    def serve(self, term: Term) -> None:
        """Until ``term`` is over, or this region's log is to be no copy any more."""
        while not term.is_set() and (wanted := self._wanted()) is not False:
            if wanted is None or term.left_s <= 0:
                term.wait(LOOK_S)
                continue
            begun_ms = time.time_ns() // 1_000_000
            with fenced(self._mirrormaker(), term) as child:
                while not term.wait(LOOK_S) and self._wanted() is not False:
                    if child.poll() is not None or self._has_failed(begun_ms):
                        code = child.returncode
                        log.warning("MirrorMaker begins anew", reason=self.problem, ended_with=code)
                        term.wait(AGAIN_S)
                        break

    def _mirrormaker(self) -> Sequence[str]:
        """The command, with what it needs in place."""
        own, folder = self._settings.paths.home.resolve() / "run", self._settings.paths.cache
        fetch.fetch_jars(folder, NAME, IVY)
        cache.verify(cache.jar_dir(folder, NAME), note=refused)
        region = self._settings.region
        own.mkdir(exist_ok=True)
        copies, _ = copies_in(self._where.kafka_bootstrap, self._settings.kafka)
        ends = ((self._other, self._address), (region.name, self._where.kafka_bootstrap))
        (own / "mm2.properties").write_text(config(*ends, self._settings.kafka.prefix, copies))
        return (
            "java", "-cp", str(cache.jar_dir(folder, NAME) / "*"), f"-Xmx{HEAP_MB}m", *JVM_OPTIONS,
            f"-Dlog4j2.configurationFile={LOG_CONFIG}", "org.apache.kafka.connect.mirror.MirrorMaker",
            str(own / "mm2.properties"),
        )  # fmt: skip

    def _wanted(self) -> bool | None:
        """Whether this region's log is the copy; None while the database is away."""
        try:
            return asked(self._where.db_ingest_url, SQL["copies_to"]) == [(self._settings.region.name,)]
        except ServiceError:
            return None

    def _has_failed(self, since_ms: int) -> bool:
        """Look how far the copy is; whether a part of MirrorMaker has given up."""
        bootstrap, prefix = self._where.kafka_bootstrap, self._settings.kafka.prefix
        try:
            to, broken = copied(bootstrap, self._other, prefix), failed(bootstrap, self._other, since_ms)
        except ServiceError as error:
            self.problem = str(error)
            return False
        self.problem = "; ".join(broken) or None
        try:
            spans = spans_of(self._address, prefix)
        except ServiceError as error:
            self.remark = f"region {self._other} gives no answer: {error}"
            return bool(broken)
        self.remark, lacking = None, behind(spans, to)
        for name in COPIED:
            lag = sum(end - begin for (topic, _), (begin, end) in lacking.items() if topic == name)
            self._lag.labels(name).set(lag)
        if not lacking:
            rows = [(self._other, *place, end) for place, (_, end) in spans.items()]
            with suppress(ServiceError), connected(self._where.db_ingest_url) as database:
                database.cursor().executemany(SQL["came"], rows)
        return bool(broken)
