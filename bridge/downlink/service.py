"""The process ``odograph downlink``: a thread for each destination, the health page, the orderly end."""

from __future__ import annotations

import signal
import threading
from typing import Final

import structlog

from bridge.downlink import webhooks
from bridge.downlink.destination import Destination, where
from bridge.downlink.hook import HookDelivery
from bridge.downlink.metrics import DownlinkMetrics
from bridge.downlink.vehicles import VehicleDelivery
from bridge.kafka_sink import KafkaProbe
from infra.clients.health import Check, HealthServer
from infra.contract.downlink import signer as downlink_signer
from infra.settings.settings import Endpoints, Settings

PART: Final = "downlink"


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises ConfigError: wrong webhooks or key."""
    hooks = webhooks.load(settings.downlink.webhooks)
    signer = downlink_signer(settings)
    at, metrics, stop = where(settings, endpoints), DownlinkMetrics(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    vehicles = Destination(VehicleDelivery(at, metrics, signer), metrics, stop)
    destinations = [vehicles, *(Destination(HookDelivery(h, at, metrics), metrics, stop) for h in hooks)]
    # An HTTP server that does not answer is not in here: it is not ours, and the metrics show it.
    checks: dict[str, Check] = {d.name: (lambda d=d: d.reason) for d in destinations}  # type: ignore[misc]
    log = structlog.get_logger()
    with KafkaProbe(at.bootstrap, frozenset({at.alerts, at.dead})) as probe:
        checks["kafka"] = probe.reason
        with HealthServer(endpoints.http_ports.get(PART, 0), checks, metrics.registry) as page:
            log.info("downlink started", health_port=page.port, webhooks=[hook.name for hook in hooks])
            for destination in destinations:
                destination.start()
            stop.wait()
            for destination in destinations:
                destination.join()
    log.info("downlink stopped")
    return 0
