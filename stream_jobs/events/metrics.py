"""What the event store tells Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_jobs.alerts.derive import Finding
from stream_jobs.events.rows import Record
from stream_jobs.events.writes import Batch

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60, 600)


class EventMetrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        self.records = Counter("odograph_events_records", "Records stored", ["topic"], registry=registry)
        self.rejected = Counter(
            "odograph_events_rejected", "Records dead-lettered", ["topic"], registry=registry
        )
        self.findings = Counter("odograph_events_findings", "New findings", ["severity"], registry=registry)
        self.repeated = Counter("odograph_events_repeated", "Findings that were known", registry=registry)
        self.cleared = Counter("odograph_events_alerts_cleared", "Alerts cleared by time", registry=registry)
        self.verdicts = Counter(
            "odograph_events_crash_verdicts", "Verdicts on crash records", ["verdict"], registry=registry
        )
        self.retries = Counter(
            "odograph_events_retries", "Starts after a service was away", registry=registry
        )
        self.lag = Gauge("odograph_events_lag_records", "Records not read yet", ["topic"], registry=registry)
        self.batch_s = Histogram(
            "odograph_events_batch_seconds", "One transaction", buckets=_SECONDS, registry=registry
        )
        self.visible_s = Histogram(
            "odograph_events_alert_visible_seconds",
            "From the alerts topic to the database",
            buckets=_SECONDS,
            registry=registry,
        )

    def stored(self, records: Sequence[Record], batch: Batch, fresh: Sequence[Finding]) -> None:
        """Count a batch that was committed; ``fresh`` are its new findings."""
        for record in records:
            self.records.labels(record.topic).inc()
        for record, _ in batch.rejected:
            self.rejected.labels(record.topic).inc()
        self.repeated.inc(len(batch.findings) - len(fresh))
        now_ms = time.time() * 1000
        for found in fresh:
            self.findings.labels(found.severity).inc()
            self.visible_s.observe(max(0.0, now_ms - found.alerted_ms) / 1000)
