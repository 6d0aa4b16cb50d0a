"""The process ``odograph downlink``: a thread for each destination, the health page, the orderly end."""

from functools import partial
from typing import Final

import structlog

from bridge.downlink import vehicles, webhooks
from bridge.downlink.feed import Destination, DownlinkMetrics, Process
from bridge.uplink.kafka_sink import kafka_probe
from infra.clients.health import Check, HealthServer, stopped_by_signals
from infra.clients.leases import Lease, Term
from infra.contract.downlink import signer
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings

PART: Final = "downlink"


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises ConfigError: wrong webhooks or key."""
    hooks = webhooks.load(settings.downlink.webhooks)
    names = [hook.name for hook in hooks]
    signer(settings)
    metrics, log = DownlinkMetrics(), structlog.get_logger()
    wanted = [kafka_topic(settings.kafka.prefix, name) for name in ("alerts", "incidents", "dead-delivery")]
    destinations: dict[str, Destination] = {}

    def deliver(term: Term) -> None:
        process = Process(term, settings, endpoints, metrics)
        made = vehicles.Vehicles(process), *(webhooks.HookDelivery(hook, process) for hook in hooks)
        destinations.update((each.name, each) for each in made)
        for each in made:
            each.start()
        for each in made:
            each.join()

    def reason(name: str) -> str | None:
        return destinations[name].reason if name in destinations else "not started yet"

    with stopped_by_signals() as stop, kafka_probe(endpoints.kafka_bootstrap, wanted) as kafka:
        lease = Lease(settings, endpoints.db_ingest_url, PART, stop, optional=True)
        # A webhook's server that does not answer is not in here: it is not ours, and the metrics show it.
        checks: dict[str, Check] = {name: partial(reason, name) for name in (vehicles.NAME, *names)}
        page = HealthServer(endpoints.health(PART), checks | {"kafka": kafka}, metrics.registry, lease=lease)
        with page:
            log.info("downlink started", health_port=page.port, webhooks=names)
            lease.run(deliver)
    log.info("downlink stopped")
    return 0
