"""The process ``odograph downlink``: a thread for each destination, the health page, the orderly end."""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from bridge.downlink import webhooks
from bridge.downlink.feed import Delivery, DownlinkMetrics, Where
from bridge.downlink.vehicles import VehicleDelivery
from bridge.uplink.kafka_sink import KafkaProbe
from infra.clients.health import Check, HealthServer, stopped_by_signals
from infra.clients.kafka import LOST
from infra.contract.downlink import signer
from infra.settings.settings import Endpoints, Settings

PART: Final = "downlink"
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GOOD_S: Final = 10.0  # after a stretch of this the pauses begin small again


class Destination(threading.Thread):
    """A delivery's thread. ``reason`` says why it cannot deliver, None when it can."""

    def __init__(self, delivery: Delivery, stop: threading.Event) -> None:
        super().__init__(name=f"to-{delivery.name}")
        self.reason: str | None = "not connected yet"
        self._delivery = delivery
        self._metrics = delivery.metrics
        self._stop_asked = stop
        self._metrics.ready.labels(delivery.name).set(0)

    def run(self) -> None:
        """Deliver until the end is asked for."""
        delivery, stop = self._delivery, self._stop_asked
        failures = 0
        while not stop.is_set():
            begun_s = time.monotonic()
            try:
                delivery.serve(stop, self._ready)
            except LOST as error:
                self._lost(str(error))
            except Exception as error:
                delivery.log.error("defect", exc_info=True)
                self._lost(f"{type(error).__name__}: {error}")
            failures = 0 if time.monotonic() - begun_s > GOOD_S else failures
            stop.wait(0 if stop.is_set() else BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            failures += 1

    def _ready(self) -> None:
        if self.reason is not None:
            self._delivery.log.info("ready")
        self.reason = None
        self._metrics.ready.labels(self._delivery.name).set(1)

    def _lost(self, why: str) -> None:
        name = self._delivery.name
        if self.reason != why:
            self._delivery.log.warning("waiting", reason=why)
        self.reason = why
        self._metrics.ready.labels(name).set(0)
        self._metrics.restarts.labels(name).inc()


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises ConfigError: wrong webhooks or key."""
    hooks = webhooks.load(settings.downlink.webhooks)
    at, metrics, log = Where.of(settings, endpoints), DownlinkMetrics(), structlog.get_logger()
    to_vehicles = VehicleDelivery(at, metrics, signer(settings))
    to_hooks = [webhooks.HookDelivery(hook, at, metrics) for hook in hooks]
    with stopped_by_signals() as stop, KafkaProbe(at.bootstrap, frozenset({at.alerts, at.dead})) as probe:
        destinations = {d.name: Destination(d, stop) for d in (to_vehicles, *to_hooks)}
        # A webhook's server that does not answer is not in here: it is not ours, and the metrics show it.
        checks: dict[str, Check] = {n: (lambda d=d: d.reason) for n, d in destinations.items()}  # type: ignore[misc]
        checks["kafka"] = probe.reason
        with HealthServer(endpoints.http_ports.get(PART, 0), checks, metrics.registry) as page:
            log.info("downlink started", health_port=page.port, webhooks=[hook.name for hook in hooks])
            for destination in destinations.values():
                destination.start()
            stop.wait()
            for destination in destinations.values():
                destination.join()
    log.info("downlink stopped")
    return 0
