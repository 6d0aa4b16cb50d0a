"""What the lanes count, and its Prometheus form: plain integers of the lanes' threads, read at a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from infra.stack.mosquitto import BrokerFigures

if TYPE_CHECKING:
    from bridge.uplink.lane import BaseLane

LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Latency:
    """A histogram: ``counts[i]`` observations up to ``LATENCY_BOUNDS_S[i]``, the last one above all, s."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += times
        self.total_s += seconds * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, with the bound as text."""
        bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
        return list(zip(bounds, map(float, accumulate(list(self.counts))), strict=True))


@dataclass(slots=True)
class LaneStats:
    """Counts since the start: ``received`` by Kafka topic, ``rejected`` by reason, ``not_kept``: of these,
    those only counted in a dead letter, ``lost`` by cause (at-most-once only).
    """

    received: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    not_kept: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    produced: int = 0
    acked: int = 0
    recoveries: int = 0
    stuck: int = 0
    latency: Latency = field(default_factory=Latency)


PREFIX: Final = "odograph_bridge"
BY_LABEL: Final = (
    ("rejected", "Messages that could not be forwarded.", "reason"),
    ("not_kept", "Rejected, counted and not kept.", "reason"),
    ("lost", "Messages read and dropped: at-most-once only.", "cause"),
)
"""Name of the family and field of LaneStats, meaning, label."""
BY_LANE: Final = (
    (CounterMetricFamily, "produced", "Records that Kafka reported as stored."),
    (CounterMetricFamily, "acked", "MQTT messages acknowledged."),
    (CounterMetricFamily, "stale_acks", "Acks dropped: of a closed connection."),
    (CounterMetricFamily, "reconnects", "MQTT connections after the first."),
    (CounterMetricFamily, "sessions_lost", "Sessions the broker forgot."),
    (CounterMetricFamily, "taken_over", "Disconnected: another client came with our id."),
    (CounterMetricFamily, "routes_forgotten", "Topics forgotten: too many vehicles."),
    (CounterMetricFamily, "producer_recoveries", "Producers replaced."),
    (CounterMetricFamily, "stuck_heads", "Reconnects by the watchdog."),
    (GaugeMetricFamily, "in_flight_messages", "Not stored yet."),
    (GaugeMetricFamily, "in_flight_bytes", "Not stored yet."),
    (GaugeMetricFamily, "mqtt_connected", "MQTT connections that stand."),
    (GaugeMetricFamily, "slots", "Slots served; 1 of a bridge that is alone."),
)
"""Kind and name of the family, key of ``figures``; meaning."""


class BridgeCollector(Collector):
    """Writes the lanes' counts in Prometheus' form."""

    def __init__(self, lanes: Iterable[BaseLane], kafka_prefix: str, kafka_reason: Callable[[], str | None]):
        self._lanes = tuple(lanes)
        self._kafka_prefix = kafka_prefix
        self._kafka_reason = kafka_reason

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            f"{PREFIX}_messages_received", "MQTT messages received.", labels=["lane", "channel"]
        )
        for lane in self._lanes:
            for topic, count in sorted(lane.stats.received.copy().items()):
                channel = topic.removeprefix(self._kafka_prefix)
                family.add_metric([lane.name, "rejected" if channel == "dead-letter" else channel], count)
            family.add_metric([lane.name, "skipped"], lane.stats.skipped)
        yield family
        for name, meaning, label in BY_LABEL:
            family = CounterMetricFamily(f"{PREFIX}_{name}", meaning, labels=["lane", label])
            for lane in self._lanes:
                for key, count in sorted(getattr(lane.stats, name).copy().items()):
                    family.add_metric([lane.name, key], count)
            yield family
        figures = {lane.name: lane.figures() for lane in self._lanes}
        for kind, name, meaning in BY_LANE:
            single = kind(f"{PREFIX}_{name}", meaning, labels=["lane"])
            for lane_name, values in figures.items():
                single.add_metric([lane_name], values[name])
            yield single
        connected = self._kafka_reason() is None
        yield GaugeMetricFamily(f"{PREFIX}_kafka_connected", "1 while Kafka answers.", value=connected)
        meaning = "From receipt to Kafka's report."
        latencies = HistogramMetricFamily(f"{PREFIX}_delivery_seconds", meaning, labels=["lane"])
        for lane in self._lanes:
            latency = lane.stats.latency
            latencies.add_metric([lane.name], buckets=latency.buckets(), sum_value=latency.total_s)
        yield latencies


class BrokerCollector(Collector):
    """Writes the broker's own figures; nothing while the broker says nothing: not every one does."""

    def __init__(self, newest: Callable[[], BrokerFigures | None]) -> None:
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        found = self._newest()
        if found is None:
            return
        for family, name, meaning, value in (
            (GaugeMetricFamily, "queued_messages", "Acknowledged, not yet by all receivers.", found.queued),
            (GaugeMetricFamily, "clients_connected", "Clients of the broker.", found.clients),
            (CounterMetricFamily, "messages_dropped", "Lost: a queue was full. Must stay 0.", found.dropped),
            (CounterMetricFamily, "messages_received", "PUBLISH packets received.", found.received),
            (CounterMetricFamily, "messages_sent", "PUBLISH packets sent.", found.sent),
        ):
            yield family(f"odograph_broker_{name}", meaning, value=value)
