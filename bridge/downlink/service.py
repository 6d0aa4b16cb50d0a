"""The process ``odograph downlink``: a thread for each destination, the health page, the orderly end."""

from __future__ import annotations

from typing import Final

import structlog

from bridge.downlink import webhooks
from bridge.downlink.feed import Destination, DownlinkMetrics, Process
from bridge.downlink.vehicles import Vehicles
from bridge.uplink.kafka_sink import kafka_probe
from infra.clients.health import Check, HealthServer, stopped_by_signals
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings

PART: Final = "downlink"


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises ConfigError: wrong webhooks or key."""
    hooks = webhooks.load(settings.downlink.webhooks)
    metrics, log = DownlinkMetrics(), structlog.get_logger()
    wanted = [kafka_topic(settings.kafka.prefix, name) for name in ("alerts", "incidents", "dead-delivery")]
    with stopped_by_signals() as stop, kafka_probe(endpoints.kafka_bootstrap, wanted) as kafka:
        process = Process(stop, settings, endpoints, metrics)
        to_hooks = [webhooks.HookDelivery(hook, process) for hook in hooks]
        destinations: list[Destination] = [Vehicles(process), *to_hooks]
        # A webhook's server that does not answer is not in here: it is not ours, and the metrics show it.
        checks: dict[str, Check] = {d.name: (lambda d=d: d.reason) for d in destinations}  # type: ignore[misc]
        checks["kafka"] = kafka
        with HealthServer(endpoints.health(PART), checks, metrics.registry) as page:
            log.info("downlink started", health_port=page.port, webhooks=[hook.name for hook in hooks])
            for destination in destinations:
                destination.start()
            stop.wait()
            for destination in destinations:
                destination.join()
    log.info("downlink stopped")
    return 0
