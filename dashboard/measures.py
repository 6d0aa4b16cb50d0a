"""What the dashboard measures of itself: time of each question and of each live part, s."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 8.0)


class Measures:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.up = Gauge(
            "odograph_dashboard_database_up", "1 while the database answers", registry=self.registry
        )
        self.probe_s = self._histogram("probe", "Time of the readiness question to the database", [])
        self.question_s = self._histogram("question", "Time of a question to the database", ["question"])
        self.part_s = self._histogram("part", "Time to draw a live part, its questions among it", ["part"])

    def _histogram(self, name: str, text: str, labels: list[str]) -> Histogram:
        name = f"odograph_dashboard_{name}_seconds"
        return Histogram(name, text, labels, buckets=BOUNDS_S, registry=self.registry)
