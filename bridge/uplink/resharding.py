"""A change of the number of shards: new sessions are made before the old ones are emptied and ended."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from bridge.uplink.mqtt_source import MqttSource, SourceConfig, end_session
from bridge.uplink.service import LANES, health_port, lane_of
from bridge.uplink.wire import Publish
from infra.clients.health import Check, HealthServer, stopped_by_signals
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings

PREPARE_S: Final = 10.0
MARK_S: Final = 2.0
MARKER: Final = "odograph-retire"


class EmptiedSource(MqttSource):
    """A session to be emptied: ``stop`` is set when all that the broker held has come, or with ``ended``.

    The subscription is over, so behind the marker, which the broker queues like any message, nothing comes.
    """

    def __init__(self, config: SourceConfig, stop: threading.Event, ended: threading.Event) -> None:
        self.config = replace(config, marker=f"{MARKER}/{config.client_id}")
        super().__init__(self.config)
        self.emptied_epoch = -1
        self._stop, self._ended = stop, ended
        self._mark_s = time.monotonic() + MARK_S

    def poll(self, limit: int, wait_s: float) -> list[Publish]:
        """What came, the marker excepted."""
        found = super().poll(limit, wait_s)
        if self._ended.is_set():
            self._stop.set()
        marker = self.config.marker.encode()
        if any(publish[0] == marker for publish in found):
            self.emptied_epoch = self.epoch
            self._stop.set()
        elif time.monotonic() > self._mark_s:
            self._mark_s = time.monotonic() + MARK_S
            self.mark()
        return [publish for publish in found if publish[0] != marker]


def prepare(settings: Settings, endpoints: Endpoints) -> int:
    """Make a shard's sessions and leave: the broker keeps its messages from now on. Raises ServiceError."""
    for name in LANES:
        source = lane_of(name, settings, endpoints).source
        deadline_s = time.monotonic() + PREPARE_S
        while not source.subscribed:
            source.poll(1, 0.1)  # what comes is not acknowledged: it comes again
            if time.monotonic() > deadline_s:
                raise ServiceError(f"bridge: no session for {name}: {source.reason()}")
        source.close()
    structlog.get_logger().info("sessions made", shard=settings.bridge.shard)
    return 0


def retire(settings: Settings, endpoints: Endpoints) -> int:
    """Carry over what the broker holds for a stopped shard and end its sessions; 1: not all, run it again."""
    checks: dict[str, Check] = {"sessions": lambda: "they are being emptied and ended"}
    with (
        stopped_by_signals() as ended,
        HealthServer(health_port(settings, endpoints), checks, CollectorRegistry()),
    ):
        # crash records first; a list, so that the second session is emptied whatever became of the first
        return max([_empty(settings, endpoints, name, ended) for name in reversed(LANES)])


def _empty(settings: Settings, endpoints: Endpoints, name: str, ended: threading.Event) -> int:
    stop, sources = threading.Event(), list[EmptiedSource]()

    def make(config: SourceConfig) -> EmptiedSource:
        sources.append(EmptiedSource(config, stop, ended))
        return sources[0]

    lane = lane_of(name, settings, endpoints, make_source=make)
    log = structlog.get_logger().bind(lane=name, shard=settings.bridge.shard)
    left = lane.run(stop, settings.bridge.drain_s)
    # After a reconnect what was not acknowledged lies at the broker again.
    if left or sources[0].emptied_epoch != sources[0].epoch:
        log.error("session not emptied, it stays", not_stored=left, next_step="run it again")
        return 1
    end_session(sources[0].config)
    log.info("session ended", stored=lane.stats.produced, skipped=lane.stats.skipped)
    return 0
