"""The bridge's uplink: two lanes, their threads, the health page, statistics, the orderly end."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from bridge.broker_metrics import BrokerCollector
from bridge.kafka_sink import KafkaProbe
from bridge.lanes import AnyLane, lanes
from bridge.metrics import BridgeCollector
from bridge.silence_thread import SilenceConfig, SilenceThread
from infra.clients.health import HealthServer
from infra.contract import topics
from infra.contract.shard import Shard
from infra.settings.settings import Endpoints, Settings
from infra.stack.broker_figures import BrokerWatch

STATISTICS_S: Final = 1.0
GC_ALLOCATIONS: Final = 50_000
"""Messages make no reference cycles: the collector's default of 700 costs 5 % of a core for nothing."""

SWITCH_S: Final = 0.0005
"""How long a thread may keep the interpreter while another one wants it. Python's 5 ms would hold a crash
record up several times on its way while the telemetry lane is at work; telemetry pays nothing measurable."""


def health_port(settings: Settings, endpoints: Endpoints) -> int:
    """The port of this shard's health page; 0, any free one, where the stack was not started for it."""
    return endpoints.http_ports.get(Shard.parse(settings.bridge.shard).process, 0)


@dataclass(slots=True)
class LaneThread:
    """A lane at work."""

    lane: AnyLane
    left: int | None = None
    error: BaseException | None = None
    thread: threading.Thread | None = field(default=None)

    def start(self, stop: threading.Event, drain_s: float) -> None:
        """Run the lane in a thread of its own."""
        self.thread = threading.Thread(target=self._run, args=(stop, drain_s), name=self.lane.name)
        self.thread.start()

    def _run(self, stop: threading.Event, drain_s: float) -> None:
        try:
            self.left = self.lane.run(stop, drain_s)
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            self.error = error
            stop.set()


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code: 0 when all that was read is stored, else 1."""
    log = structlog.get_logger()
    gc.set_threshold(GC_ALLOCATIONS)
    sys.setswitchinterval(SWITCH_S)
    threads = [LaneThread(lane) for lane in lanes(settings, endpoints)]
    wanted = frozenset(
        topics.kafka_topic(settings.kafka.prefix, name)
        for name in (*topics.KAFKA_TOPIC_OF.values(), "dead-letter")
    )
    stop = threading.Event()
    with (
        KafkaProbe(endpoints.kafka_bootstrap, wanted) as probe,
        BrokerWatch(endpoints.mqtt, patient=True) as broker,
        _stopping_on_signals(stop),
    ):
        registry = CollectorRegistry()
        registry.register(BrokerCollector(broker.newest))
        watched = [thread.lane for thread in threads]
        registry.register(BridgeCollector(watched, settings.kafka.prefix, probe.reason))
        checks: dict[str, Callable[[], str | None]] = {"kafka": probe.reason}
        checks |= {f"mqtt-{lane.name}": lane.source.reason for lane in watched}
        silence = SilenceConfig(
            endpoints.kafka_bootstrap,
            topics.kafka_topic(settings.kafka.prefix, "status"),
            settings.bridge.silent_s,
            owns=Shard.parse(settings.bridge.shard).owns,
        )
        with (
            HealthServer(health_port(settings, endpoints), checks, registry) as health,
            SilenceThread(silence, watched, registry),
        ):
            log.info(
                "bridge started",
                health_port=health.port,
                root=settings.mqtt.root,
                shard=settings.bridge.shard,
                guarantee=settings.bridge.guarantee,
            )
            for thread in threads:
                thread.start(stop, settings.bridge.drain_s)
            _tell(threads, stop)
            for thread in threads:
                _join(thread)
    return _verdict(threads)


def _join(thread: LaneThread) -> None:
    if thread.thread is not None:
        thread.thread.join()


def _verdict(threads: list[LaneThread]) -> int:
    log = structlog.get_logger()
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    left = {thread.lane.name: thread.left for thread in threads if thread.left}
    log.info("bridge stopped", not_stored=left or 0)
    return 1 if left else 0


@contextmanager
def _stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an orderly end; a second one ends at once."""

    def heard(number: int, _frame: object) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(threads: list[LaneThread], stop: threading.Event) -> None:
    """A line of statistics a second, until the end is asked for."""
    log = structlog.get_logger()
    last = {thread.lane.name: (0, 0, 0) for thread in threads}
    last_s = time.monotonic()
    while not stop.wait(STATISTICS_S):
        now_s = time.monotonic()
        for thread in threads:
            lane, stats = thread.lane, thread.lane.stats
            counts = (stats.received.total() + stats.skipped, stats.produced, stats.acked)
            rates = [
                round((new - old) / (now_s - last_s))
                for new, old in zip(counts, last[lane.name], strict=True)
            ]
            last[lane.name] = counts
            gauges = lane.gauges()
            if not any(rates) and not gauges.in_flight:
                continue
            log.info(
                "rates",
                lane=lane.name,
                received_per_s=rates[0],
                stored_per_s=rates[1],
                acked_per_s=rates[2],
                rejected=stats.rejected.total(),
                lost=stats.lost.total(),
                in_flight=gauges.in_flight,
                in_flight_bytes=gauges.in_flight_bytes,
            )
        last_s = now_s
