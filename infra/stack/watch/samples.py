"""From two readings of a part to a sample: what came in between. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from infra.settings.settings import Settings
from infra.stack.mosquitto import BrokerFigures


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one part at one moment."""

    passed: float | None = None
    errors: float | None = None
    lag: float | None = None
    saturation: float | None = None
    rate_per_s: float | None = None
    """Where the part tells a rate and no counter."""


TASK_FAILURES: Final = "odograph_maintenance_task_failures_total"
NOTHING: Final = Figures()
"""Of a part that tells nothing."""


class Metrics:
    """A part's metrics, read from Prometheus' text."""

    def __init__(self, text: str) -> None:
        self._samples: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples[sample.name].append((sample.labels, sample.value))

    def total(self, *names: str) -> float | None:
        """The sum over all labels; None where none of the names is told."""
        told = [value for name in names for _, value in self._samples.get(name, ())]
        return sum(told) if told else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """Values by the value of one label."""
        return {labels[label]: value for labels, value in self._samples.get(name, ()) if label in labels}


def bridge(told: Metrics, settings: Settings) -> Figures:
    """Messages; how full the way between MQTT and Kafka is."""
    own = "odograph_bridge_"
    held, held_bytes = told.total(f"{own}in_flight_messages"), told.total(f"{own}in_flight_bytes")
    shares = (
        share(held, settings.bridge.max_in_flight),
        share(held_bytes, settings.bridge.max_in_flight_bytes),
    )
    return Figures(
        passed=told.total(f"{own}produced_total"),
        errors=told.total(f"{own}rejected_total", f"{own}lost_total") or 0.0,
        lag=held,
        saturation=max((s for s in shares if s is not None), default=None),
    )


def jobs(told: Metrics, settings: Settings) -> Figures:
    """Frames of the query ``telemetry``; what waits for the slowest against what a batch takes at most."""
    own = "odograph_query_"
    lag = max(told.by(f"{own}lag_records", "query").values(), default=None)
    return Figures(
        passed=told.by(f"{own}input_records_total", "query").get("telemetry"),
        errors=told.total(f"{own}dropped_late_total", f"{own}degraded", TASK_FAILURES),
        lag=lag,
        saturation=share(lag, settings.jobs.max_offsets),
    )


def instant(told: Metrics, settings: Settings) -> Figures:  # noqa: ARG001  as the others
    """Records of the last checkpoint interval: between two, real-time mode tells nothing."""
    return Figures(rate_per_s=told.total("odograph_instant_records_per_second"))


def events(told: Metrics, settings: Settings) -> Figures:  # noqa: ARG001
    """Records stored: alerts, crash records, statuses, dead letters."""
    own = "odograph_events_"
    return Figures(
        passed=told.total(f"{own}records_total") or 0.0,
        errors=told.total(f"{own}rejected_total", f"{own}retries_total"),
        lag=told.total(f"{own}lag_records"),
    )


def downlink(told: Metrics, settings: Settings) -> Figures:  # noqa: ARG001
    """Alerts delivered."""
    own = "odograph_downlink_"
    return Figures(
        passed=told.total(f"{own}delivered_total") or 0.0,
        errors=told.total(f"{own}undelivered_total") or 0.0,
        lag=told.total(f"{own}lag_records"),
    )


def maintenance(told: Metrics, settings: Settings) -> Figures:  # noqa: ARG001
    """Runs of periodic tasks that succeeded, and that failed."""
    own = "odograph_maintenance_task_"
    return Figures(passed=told.total(f"{own}runs_total") or 0.0, errors=told.total(TASK_FAILURES))


def dashboard(told: Metrics, settings: Settings) -> Figures:  # noqa: ARG001
    """Questions to the database."""
    return Figures(passed=told.total("odograph_dashboard_question_seconds_count") or 0.0)


def broker(told: BrokerFigures, settings: Settings) -> Figures:
    """Messages received; those that wait for somebody; how full the queue of one who is away is."""
    return Figures(
        passed=told.received,
        errors=told.dropped,
        lag=told.queued,
        saturation=share(told.queued, settings.mqtt.max_queued_messages),
    )


BY_PART: Final[Mapping[str, Callable[[Metrics, Settings], Figures]]] = {
    "bridge": bridge,
    "jobs": jobs,
    "instant": instant,
    "events": events,
    "downlink": downlink,
    "maintenance": maintenance,
    "dashboard": dashboard,
}


def of_process(name: str, text: str, settings: Settings) -> Figures:
    """Figures by a process's name (``bridge-2`` is a bridge); none of one not known or without an answer."""
    read = BY_PART.get(name.partition("-")[0])
    return read(Metrics(text), settings) if read is not None and text else NOTHING


def share(part: float | None, whole: float) -> float | None:
    """Part of a whole; None of what is not known."""
    return None if part is None or whole <= 0 else part / whole


Ends = Mapping[int, int]
"""Next offset by partition."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A part at ``at_s`` of a clock that never goes back; ``trouble`` None: it is ready."""

    stage: str
    at_s: float
    trouble: str | None
    figures: Figures = NOTHING
    cpu_s: float | None = None
    memory_mb: float | None = None
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of odograph.stage_sample; ``errors`` are those since the reading before."""

    stage: str
    ready: bool
    reason: str | None
    rate_per_s: float | None
    errors: int | None
    lag: int | None
    saturation: float | None
    cores: float | None
    memory_mb: float | None
    restarts: int | None


REASON_MOST: Final = 500
"""A reason is cut after so many characters."""


def sample(now: Reading, before: Reading | None) -> Sample:
    """What a part did since it was read before; a rate needs two readings of one run of it."""
    seconds = None if before is None else now.at_s - before.at_s
    old = NOTHING if before is None else before.figures
    passed, errors = risen(now.figures.passed, old.passed), risen(now.figures.errors, old.errors)
    cpu_s = risen(now.cpu_s, None if before is None else before.cpu_s)
    return Sample(
        stage=now.stage,
        ready=now.trouble is None,
        reason=None if now.trouble is None else now.trouble[:REASON_MOST],
        rate_per_s=now.figures.rate_per_s if passed is None else per(passed, seconds),
        errors=None if errors is None else round(errors),
        lag=None if now.figures.lag is None else round(now.figures.lag),
        saturation=now.figures.saturation,
        cores=per(cpu_s, seconds),
        memory_mb=now.memory_mb,
        restarts=now.restarts,
    )


def risen(now: float | None, before: float | None) -> float | None:
    """How much a counter rose; None where it is not known, or began anew with its process."""
    if now is None or before is None or now < before:
        return None
    return now - before


def per(amount: float | None, seconds: float | None) -> float | None:
    """An amount by time; None of what is not known."""
    return None if amount is None or not seconds or seconds <= 0 else amount / seconds


@dataclass(frozen=True, slots=True)
class Place:
    """A row of odograph.partition_lag: how far a reader is in a partition."""

    reader: str
    topic: str
    partition: int
    log_end: int
    read_to: int
    rate_per_s: float | None
    """Records appended, per s."""


def places(
    reader: str, topic: str, ends: Ends, read: Ends, before: Ends | None, seconds: float | None
) -> list[Place]:
    """A reader's places in a topic; a partition that it never read stands at its beginning, 0."""
    old = before or {}
    return [
        Place(
            reader,
            topic,
            number,
            end,
            min(end, read.get(number, 0)),
            per(risen(end, old.get(number)), seconds),
        )
        for number, end in sorted(ends.items())
    ]
