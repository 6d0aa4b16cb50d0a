"""What the downlink counts, by destination: ``vehicles`` or a webhook's name."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0)


class DownlinkMetrics:
    """Counters of one process; the library's are safe between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by = ["destination"]
        self.read = self._counter("alerts_read", "Alerts read from Kafka.", by)
        self.delivered = self._counter("delivered", "Alerts acknowledged by PUBACK or 2xx.", by)
        self.skipped = self._counter("skipped", "Alerts that were not to be told.", [*by, "reason"])
        self.undelivered = self._counter("undelivered", "Alerts given up and recorded.", by)
        self.attempts = self._counter("attempts", "Attempts at a webhook.", [*by, "outcome"])
        self.restarts = self._counter("restarts", "Beginnings after trouble.", by)
        self.nobody = self._counter("no_subscriber", "Alerts for which the broker knows no session.", [])
        self.lag = Gauge("odograph_downlink_lag_records", "Not settled yet.", by, registry=self.registry)
        self.ready = Gauge("odograph_downlink_ready", "1 while it can deliver.", by, registry=self.registry)
        self.delay_s = Histogram(
            "odograph_downlink_delivery_seconds", "From Kafka's timestamp to the acknowledgement.", by,
            buckets=BOUNDS_S, registry=self.registry,
        )  # fmt: skip

    def _counter(self, name: str, meaning: str, labels: list[str]) -> Counter:
        return Counter(f"odograph_downlink_{name}", meaning, labels, registry=self.registry)

    def delivered_now(self, destination: str, found_ms: int, now_ms: int) -> None:
        """One more, and how long it took."""
        self.delivered.labels(destination).inc()
        self.delay_s.labels(destination).observe(max(0, now_ms - found_ms) / 1000)
