"""The broker's own figures on the bridge's page: what waits there, and what it dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from infra.stack.broker_figures import BrokerFigures

PREFIX = "odograph_broker"


class BrokerCollector(Collector):
    """Writes the figures in Prometheus' form; nothing while the broker says nothing: not every one does."""

    def __init__(self, newest: Callable[[], BrokerFigures | None]) -> None:
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        """All families."""
        found = self._newest()
        if found is None:
            return
        gauges = {
            "queued_messages": ("Acknowledged to the sender, not yet by all receivers.", found.queued),
            "clients_connected": ("Clients of the broker.", found.clients),
        }
        counters = {
            "messages_dropped": ("Lost: a queue was full. Must stay 0.", found.dropped),
            "messages_received": ("PUBLISH packets received.", found.received),
            "messages_sent": ("PUBLISH packets sent.", found.sent),
        }
        for name, (meaning, value) in gauges.items():
            yield GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value=value)
        for name, (meaning, value) in counters.items():
            yield CounterMetricFamily(f"{PREFIX}_{name}", meaning, value=value)
