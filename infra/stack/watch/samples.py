"""From two readings of a part to a sample: what came in between. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.stack.watch.figures import NOTHING, Figures

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
