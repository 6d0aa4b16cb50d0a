"""A destination: a thread that delivers from its own place in the log, and begins anew after any trouble.

All state but the committed offset is thrown away then: what was not settled is read again, in order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from bridge.downlink.metrics import DownlinkMetrics
from infra.clients.kafka import LOST
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import topics
from infra.contract.downlink import silence_file
from infra.settings.settings import Endpoints, Settings

BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GOOD_S: Final = 10.0
"""After a stretch of this the pauses begin small again."""


@dataclass(frozen=True, slots=True)
class Where:
    """Names and addresses that every destination needs."""

    bootstrap: str
    mqtt: MqttBroker
    mqtt_root: str
    client_id: str
    alerts: str
    dead: str
    group: str
    """First part of the consumer groups' names; a destination's own name follows."""
    silences: Path
    """What nobody is to be told of: see infra.contract.downlink."""


def where(settings: Settings, endpoints: Endpoints) -> Where:
    """The names in force."""
    prefix = settings.kafka.prefix
    return Where(
        endpoints.kafka_bootstrap, endpoints.mqtt, settings.mqtt.root,
        f"{settings.bridge.client_id}-downlink", topics.kafka_topic(prefix, "alerts"),
        topics.kafka_topic(prefix, "dead-delivery"), f"{prefix}downlink", silence_file(settings.paths.home),
    )  # fmt: skip


class Delivery(Protocol):
    """How one destination is served until trouble or ``stop``."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def serve(self, stop: threading.Event, ready: Callable[[], None]) -> None:
        """Deliver; call ``ready`` once everything is connected."""


class Destination:
    """A delivery's thread. ``reason`` says why it cannot deliver, None when it can."""

    def __init__(self, delivery: Delivery, metrics: DownlinkMetrics, stop: threading.Event) -> None:
        self.name = delivery.name
        self.reason: str | None = "not connected yet"
        self._delivery = delivery
        self._metrics = metrics
        self._stop = stop
        self._log = structlog.get_logger().bind(destination=self.name)
        self._thread = threading.Thread(target=self._run, name=f"to-{self.name}")

    def start(self) -> None:
        """Begin."""
        self._metrics.ready.labels(self.name).set(0)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end, which ``stop`` asks for."""
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            begun_s = time.monotonic()
            try:
                self._delivery.serve(self._stop, self._ready)
            except LOST as error:
                self._lost(str(error))
            except Exception as error:  # noqa: BLE001  one destination's defect must not stop the others
                self._log.error("defect", exc_info=True)
                self._lost(f"{type(error).__name__}: {error}")
            failures = 0 if time.monotonic() - begun_s > GOOD_S else failures
            self._stop.wait(0 if self._stop.is_set() else BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            failures += 1

    def _ready(self) -> None:
        if self.reason is not None:
            self._log.info("ready")
        self.reason = None
        self._metrics.ready.labels(self.name).set(1)

    def _lost(self, why: str) -> None:
        if self.reason != why:
            self._log.warning("waiting", reason=why)
        self.reason = why
        self._metrics.ready.labels(self.name).set(0)
        self._metrics.restarts.labels(self.name).inc()
