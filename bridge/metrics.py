"""What the lanes count, and its Prometheus form: plain integers of the lanes' threads, read at a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Latency:
    """A histogram: ``counts[i]`` observations up to ``LATENCY_BOUNDS_S[i]``, the last one above all, s."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        """Count one, or some that were alike."""
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += times
        self.total_s += seconds * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, with the bound as text."""
        bounds = [*(str(bound) for bound in LATENCY_BOUNDS_S), "+Inf"]
        running, found = 0, []
        for bound, count in zip(bounds, list(self.counts), strict=True):
            running += count
            found.append((bound, float(running)))
        return found


@dataclass(slots=True)
class LaneStats:
    """Counts since the start. ``received`` by Kafka topic, ``rejected`` by reason."""

    received: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    not_kept: Counter[str] = field(default_factory=Counter)
    """Of the rejected: counted in a dead letter, not kept as one; by reason."""
    lost: Counter[str] = field(default_factory=Counter)
    """Read and dropped, by cause: at-most-once only."""
    skipped: int = 0
    produced: int = 0
    acked: int = 0
    recoveries: int = 0
    stuck: int = 0
    latency: Latency = field(default_factory=Latency)


@dataclass(frozen=True, slots=True)
class LaneGauges:
    """How a lane stands now."""

    in_flight: int
    in_flight_bytes: int
    stale_acks: int
    reconnects: int
    sessions_lost: int
    taken_over: int
    forgotten: int
    connected: bool


class Watched(Protocol):
    """What the collector needs of a lane."""

    name: str
    stats: LaneStats

    def gauges(self) -> LaneGauges:
        """How it stands now."""


PREFIX: Final = "odograph_bridge"


class BridgeCollector(Collector):
    """Writes the lanes' counts in Prometheus' form."""

    def __init__(self, lanes: Iterable[Watched], kafka_prefix: str, kafka_reason: Callable[[], str | None]):
        self._lanes = tuple(lanes)
        self._kafka_prefix = kafka_prefix
        self._kafka_reason = kafka_reason

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield self._received()
        yield self._by("rejected", "Messages that could not be forwarded.", "reason", lambda s: s.rejected)
        yield self._by("not_kept", "Rejected, counted and not kept.", "reason", lambda s: s.not_kept)
        yield self._by("lost", "Messages read and dropped: at-most-once only.", "cause", lambda s: s.lost)
        yield from self._counters()
        yield from self._gauges()
        yield self._latency()

    def _received(self) -> Metric:
        family = CounterMetricFamily(
            f"{PREFIX}_messages_received", "MQTT messages received.", labels=["lane", "channel"]
        )
        for lane in self._lanes:
            for topic, count in sorted(lane.stats.received.copy().items()):
                channel = topic.removeprefix(self._kafka_prefix)
                name = "rejected" if channel == "dead-letter" else channel
                family.add_metric([lane.name, name], count)
            family.add_metric([lane.name, "skipped"], lane.stats.skipped)
        return family

    def _by(self, name: str, meaning: str, label: str, counts: Callable[[LaneStats], Counter[str]]) -> Metric:
        family = CounterMetricFamily(f"{PREFIX}_{name}", meaning, labels=["lane", label])
        for lane in self._lanes:
            for key, count in sorted(counts(lane.stats).copy().items()):
                family.add_metric([lane.name, key], count)
        return family

    def _counters(self) -> Iterator[Metric]:
        rows: Mapping[str, tuple[str, Callable[[Watched], int]]] = {
            "produced": ("Records that Kafka reported as stored.", lambda lane: lane.stats.produced),
            "acked": ("MQTT messages acknowledged.", lambda lane: lane.stats.acked),
            "stale_acks": ("Acks dropped: of a closed connection.", lambda lane: lane.gauges().stale_acks),
            "reconnects": ("MQTT connections after the first.", lambda lane: lane.gauges().reconnects),
            "sessions_lost": ("Sessions the broker forgot.", lambda lane: lane.gauges().sessions_lost),
            "taken_over": (
                "Disconnected: another client came with our id.",
                lambda lane: lane.gauges().taken_over,
            ),
            "routes_forgotten": (
                "Topics forgotten for newer ones: more vehicles than are remembered.",
                lambda lane: lane.gauges().forgotten,
            ),
            "producer_recoveries": ("Producers replaced.", lambda lane: lane.stats.recoveries),
            "stuck_heads": ("Reconnects by the watchdog.", lambda lane: lane.stats.stuck),
        }
        for name, (meaning, value) in rows.items():
            family = CounterMetricFamily(f"{PREFIX}_{name}", meaning, labels=["lane"])
            for lane in self._lanes:
                family.add_metric([lane.name], value(lane))
            yield family

    def _gauges(self) -> Iterator[Metric]:
        in_flight = GaugeMetricFamily(f"{PREFIX}_in_flight_messages", "Not stored yet.", labels=["lane"])
        in_flight_bytes = GaugeMetricFamily(f"{PREFIX}_in_flight_bytes", "Not stored yet.", labels=["lane"])
        connected = GaugeMetricFamily(f"{PREFIX}_mqtt_connected", "1 while connected.", labels=["lane"])
        for lane in self._lanes:
            now = lane.gauges()
            in_flight.add_metric([lane.name], now.in_flight)
            in_flight_bytes.add_metric([lane.name], now.in_flight_bytes)
            connected.add_metric([lane.name], now.connected)
        yield from (in_flight, in_flight_bytes, connected)
        kafka = GaugeMetricFamily(f"{PREFIX}_kafka_connected", "1 while Kafka answers.")
        kafka.add_metric([], self._kafka_reason() is None)
        yield kafka

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            f"{PREFIX}_delivery_seconds", "From receipt to Kafka's report.", labels=["lane"]
        )
        for lane in self._lanes:
            latency = lane.stats.latency
            family.add_metric([lane.name], buckets=latency.buckets(), sum_value=latency.total_s)
        return family
