"""The span of time that a vehicle's page shows, and its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

SPANS: Final[dict[str, timedelta | None]] = {
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
    "all": None,
}
FIRST: Final = "1 h"
OWN: Final = "own"
"""A span from and to moments of the reader's."""
STEPS_S: Final = (10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
BUCKETS: Final = 360
QUIET: Final = timedelta(minutes=2)
"""As serving.fleet_latest has it: who has not reported for so long is silent."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start`` to before ``end`` in steps of ``step_s``.

    ``past``: it ends at the vehicle's last data, not now.
    """

    start: datetime
    end: datetime
    step_s: int
    past: bool


def span(choice: str, first_event: datetime, last_event: datetime, now: datetime) -> Span:
    """The span chosen. A vehicle that is silent is shown up to its last data: now would show nothing."""
    past = now - last_event > QUIET
    end = last_event + timedelta(seconds=10) if past else now
    length = SPANS[choice]
    start = first_event - timedelta(seconds=10) if length is None else end - length
    return Span(start, end, step_of((end - start).total_seconds()), past)


def between(start: datetime, end: datetime) -> Span:
    """The span from one moment to another, in whichever order they come; a minute at least."""
    first, last = min(start, end), max(start, end)
    last = max(last, first + timedelta(minutes=1))
    return Span(first, last, step_of((last - first).total_seconds()), past=False)


def pace_s(choice: str, least_s: float, most_s: float) -> float:
    """How often a span is worth drawing anew, s: one in steps of minutes does not change each ten seconds."""
    length = SPANS.get(choice)
    return most_s if length is None else min(most_s, max(least_s, step_of(length.total_seconds())))


def step_of(length_s: float) -> int:
    """The shortest step that makes at most BUCKETS of a length."""
    wanted = length_s / BUCKETS
    days = math.ceil(wanted / STEPS_S[-1]) * STEPS_S[-1]
    return next((step for step in STEPS_S if step >= wanted), days)
