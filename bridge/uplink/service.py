"""The bridge's uplink: two lanes, their threads, the health page, statistics, the orderly end."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from bridge.uplink.kafka_sink import KafkaProbe
from bridge.uplink.lanes import AnyLane, health_port, lanes
from bridge.uplink.metrics import BridgeCollector, BrokerCollector
from bridge.uplink.silence import SilenceThread
from infra.clients.health import HealthServer
from infra.contract import topics
from infra.contract.shard import Shard
from infra.settings.settings import Endpoints, Settings
from infra.stack.mosquitto import BrokerWatch

STATISTICS_S: Final = 1.0
GC_ALLOCATIONS: Final = 50_000
"""Messages make no reference cycles: the collector's default of 700 costs 5 % of a core for nothing."""

SWITCH_S: Final = 0.0005
"""How long a thread may keep the interpreter while another one wants it. Python's 5 ms would hold a crash
record up several times while the telemetry lane is at work; telemetry pays nothing measurable."""


class LaneThread(threading.Thread):
    """A lane at work; ``left`` messages were not stored at its end, or it ended with ``error``."""

    def __init__(self, lane: AnyLane, stop: threading.Event, drain_s: float) -> None:
        super().__init__(name=lane.name)
        self.lane = lane
        self.left = 0
        self.error: BaseException | None = None
        self._stop_asked, self._drain_s = stop, drain_s

    def run(self) -> None:
        """Serve; an error asks all lanes to end."""
        try:
            self.left = self.lane.run(self._stop_asked, self._drain_s)
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            self.error = error
            self._stop_asked.set()


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code: 0 when all that was read is stored, else 1."""
    log = structlog.get_logger()
    gc.set_threshold(GC_ALLOCATIONS)
    sys.setswitchinterval(SWITCH_S)
    ours, prefix, stop = lanes(settings, endpoints), settings.kafka.prefix, threading.Event()
    wanted = frozenset(
        topics.kafka_topic(prefix, n) for n in (*topics.KAFKA_TOPIC_OF.values(), "dead-letter")
    )
    threads = [LaneThread(lane, stop, settings.bridge.drain_s) for lane in ours]
    with (
        KafkaProbe(endpoints.kafka_bootstrap, wanted) as probe,
        BrokerWatch(endpoints.mqtt, reconnect=True) as broker,
        _stopping_on_signals(stop),
    ):
        registry = CollectorRegistry()
        registry.register(BrokerCollector(broker.newest))
        registry.register(BridgeCollector(ours, prefix, probe.reason))
        checks: dict[str, Callable[[], str | None]] = {"kafka": probe.reason}
        checks |= {f"mqtt-{lane.name}": lane.source.reason for lane in ours}
        owns, silent_s = Shard.parse(settings.bridge.shard).owns, settings.bridge.silent_s
        status = topics.kafka_topic(prefix, "status")
        with (
            HealthServer(health_port(settings, endpoints), checks, registry) as health,
            SilenceThread(endpoints.kafka_bootstrap, status, silent_s, owns, ours, registry),
        ):
            log.info(
                "bridge started",
                health_port=health.port,
                root=settings.mqtt.root,
                shard=settings.bridge.shard,
                guarantee=settings.bridge.guarantee,
            )
            for thread in threads:
                thread.start()
            _log_rates(ours, stop)
            for thread in threads:
                thread.join()
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    left = {thread.name: thread.left for thread in threads if thread.left}
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


def _log_rates(ours: list[AnyLane], stop: threading.Event) -> None:
    """A line of statistics a second for each lane at work, until the end is asked for."""
    log = structlog.get_logger()
    last = {lane.name: (0, 0, 0) for lane in ours}
    last_s = time.monotonic()
    while not stop.wait(STATISTICS_S):
        now_s = time.monotonic()
        for lane in ours:
            stats, gauges = lane.stats, lane.gauges()
            counts = (stats.received.total() + stats.skipped, stats.produced, stats.acked)
            received, stored, acked = (
                round((new - old) / (now_s - last_s))
                for new, old in zip(counts, last[lane.name], strict=True)
            )
            last[lane.name] = counts
            if received or stored or acked or gauges.in_flight:
                log.info(
                    "rates",
                    lane=lane.name,
                    received_per_s=received,
                    stored_per_s=stored,
                    acked_per_s=acked,
                    rejected=stats.rejected.total(),
                    lost=stats.lost.total(),
                    in_flight=gauges.in_flight,
                    in_flight_bytes=gauges.in_flight_bytes,
                )
        last_s = now_s
