"""What a part's metrics say of it, and what came in between two readings of it. Pure.

``passed`` and ``errors`` are counters since the part's start; ``saturation`` is the share of what it can hold
or do, 1: full. What a part does not publish is None, never 0.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from infra.settings.sections import Watch
from infra.settings.settings import Settings
from infra.stack.mosquitto import BrokerFigures

Ends = Mapping[int, int]  # next offset by partition
REASON_CHARS: Final = 500


class Figures(NamedTuple):
    """Of one part at one moment; ``rate_per_s`` where it publishes a rate and no counter."""

    passed: float | None = None
    errors: float | None = None
    lag: float | None = None
    saturation: float | None = None
    rate_per_s: float | None = None


NOTHING: Final = Figures()


class Metrics:
    """A part's metrics, read from Prometheus' text."""

    def __init__(self, text: str) -> None:
        self._samples: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples[sample.name].append((sample.labels, sample.value))

    def total(self, *names: str) -> float | None:
        """The sum over all labels; None where none of the names is published."""
        found = [value for name in names for _, value in self._samples.get(name, ())]
        return sum(found) if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sums over all other labels by the value of ``label``."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in self._samples.get(name, ()):
            if label in labels:
                found[labels[label]] += value
        return found


ZERO_IF_ABSENT: Final = "zero if absent"
_FAILURES: Final = ("maintenance_task_failures_total",)
_NAMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "bridge": {"passed": ("bridge_produced_total",), "errors": ("bridge_rejected_total", "bridge_lost_total"),
               "lag": ("bridge_in_flight_messages",), ZERO_IF_ABSENT: ("errors",)},
    "jobs": {"errors": ("query_dropped_late_total", "query_degraded", *_FAILURES)},
    "instant": {"rate_per_s": ("instant_records_per_second",)},  # of the last checkpoint interval
    "events": {"passed": ("events_records_total",), "lag": ("events_lag_records",),
               "errors": ("events_rejected_total", "events_retries_total"), ZERO_IF_ABSENT: ("passed",)},
    "downlink": {"passed": ("downlink_delivered_total",), "errors": ("downlink_undelivered_total",),
                 "lag": ("downlink_lag_records",), ZERO_IF_ABSENT: ("passed", "errors")},
    "maintenance": {"passed": ("maintenance_task_runs_total",), ZERO_IF_ABSENT: ("passed",),
                    "errors": _FAILURES},
    "mirror": {"lag": ("mirror_lag_records",)},
    "dashboard": {"passed": ("dashboard_question_seconds_count",), ZERO_IF_ABSENT: ("passed",)},
}  # fmt: skip
"""Metrics by kind of part and figure, after ``odograph_``; one with labels is absent until it counts."""


def of_process(name: str, text: str, settings: Settings) -> Figures:
    """Figures by a process's name (``bridge-2`` is a bridge); none of one not known or without an answer."""
    kind = name.partition("-")[0]
    if kind not in _NAMES or not text:
        return NOTHING
    names, metrics = _NAMES[kind], Metrics(text)
    found: dict[str, float | None] = {}
    for figure in ("passed", "errors", "lag", "rate_per_s"):
        value = metrics.total(*(f"odograph_{metric}" for metric in names.get(figure, ())))
        found[figure] = 0.0 if value is None and figure in names.get(ZERO_IF_ABSENT, ()) else value
    if kind == "bridge":  # the fuller of its two limits
        most, held_bytes = settings.bridge, metrics.total("odograph_bridge_in_flight_bytes")
        shares = [share(found["lag"], most.max_in_flight), share(held_bytes, most.max_in_flight_bytes)]
        found["saturation"] = max((s for s in shares if s is not None), default=None)
    if kind == "jobs":  # frames of the query telemetry; what waits for the slowest, against a batch's limit
        found["passed"] = metrics.by("odograph_query_input_records_total", "query").get("telemetry")
        found["lag"] = max(metrics.by("odograph_query_lag_records", "query").values(), default=None)
        found["saturation"] = share(found["lag"], settings.jobs.max_offsets)
    return Figures(**found)


def broker(counts: BrokerFigures, settings: Settings) -> Figures:
    """Messages received; those that wait for a subscriber; how full the queue of an absent one is."""
    saturation = share(counts.queued, settings.mqtt.max_queued_messages)
    return Figures(counts.received, counts.dropped, counts.queued, saturation)


def share(part: float | None, whole: float) -> float | None:
    """Part of a whole; None of what is not known."""
    return None if part is None or whole <= 0 else part / whole


class Reading(NamedTuple):
    """A part at ``at_s`` of a clock that never goes back; ``trouble`` None: it is ready."""

    stage: str
    at_s: float
    trouble: str | None
    figures: Figures = NOTHING
    cpu_s: float | None = None
    memory_mb: float | None = None
    restarts: int | None = None


def sample(now: Reading, before: Reading | None) -> dict[str, Any]:
    """What a part did since it was read before, by the columns of odograph.stage_sample.

    A rate needs two readings of one run of it; ``errors`` are those since the reading before.
    """
    old = before or Reading(now.stage, now.at_s, None)
    figures, seconds = now.figures, now.at_s - old.at_s
    passed, errors = _risen(figures.passed, old.figures.passed), _risen(figures.errors, old.figures.errors)
    return {
        "stage": now.stage, "ready": now.trouble is None,
        "reason": None if now.trouble is None else now.trouble[:REASON_CHARS],
        "rate_per_s": figures.rate_per_s if passed is None else _per(passed, seconds),
        "errors": None if errors is None else round(errors),
        "lag": None if figures.lag is None else round(figures.lag), "saturation": figures.saturation,
        "cores": _per(_risen(now.cpu_s, old.cpu_s), seconds), "memory_mb": now.memory_mb,
        "restarts": now.restarts,
    }  # fmt: skip


def _risen(now: float | None, before: float | None) -> float | None:
    """How much a counter rose; None where it is not known, or began anew with its process."""
    return None if now is None or before is None or now < before else now - before


def _per(amount: float | None, seconds: float) -> float | None:
    return None if amount is None or seconds <= 0 else amount / seconds


class Place(NamedTuple):
    """A row of odograph.partition_lag: how far a reader is in a partition; ``rate_per_s`` appended."""

    reader: str
    topic: str
    partition: int
    log_end: int
    read_to: int
    rate_per_s: float | None


def places(reader: str, topic: str, ends: Ends, read: Ends, before: Ends, seconds: float) -> list[Place]:
    """A reader's places in a topic; a partition that it never read stands at its beginning, 0."""
    return [
        Place(reader, topic, n, end, min(end, read.get(n, 0)), _per(_risen(end, before.get(n)), seconds))
        for n, end in sorted(ends.items())
    ]


class Skew(NamedTuple):
    """A row of serving.partition_skew: how far a reader is behind in the worst partition of a topic."""

    reader: str
    topic: str
    partitions: int
    most: int
    most_partition: int
    median: int
    ratio: float

    def hot(self, terms: Watch) -> bool:
        return self.ratio >= terms.hot_ratio and self.most >= terms.hot_records

    def __str__(self) -> str:
        return (
            f"{self.reader} is {self.most:,} records behind in partition {self.most_partition} of "
            f"{self.topic}, {self.ratio:,.1f} times the median of {self.partitions} partitions"
        )


class TopKey(NamedTuple):
    """A row of odograph.top_key; ``share`` of the records that are appended to the topic."""

    topic: str
    vehicle_id: str
    partition: int
    share: float
    rate_per_s: float | None


def top_keys(
    topic: str, tails: Mapping[int, Counter[str]], rates: Mapping[int, float | None], most: int
) -> list[TopKey]:
    """The ``most`` keys that appear most often, by partition, in ``tails``, the newest records of each.

    ``rates``: records appended to each, per s; where they are not known, all with records count alike.
    """
    known = all(rates.get(partition) is not None for partition in tails)
    weights = {p: (rates[p] or 0.0) if known else float(bool(counts)) for p, counts in tails.items()}
    whole = sum(weights.values()) or 1.0
    found = []
    for partition, counts in tails.items():
        share = weights[partition] / whole / (counts.total() or 1)
        rate = weights[partition] / (counts.total() or 1) if known else None
        found += [
            TopKey(topic, key, partition, n * share, None if rate is None else n * rate)
            for key, n in counts.most_common(most)
        ]
    return sorted(found, key=lambda key: (-key.share, key.vehicle_id))[:most]
