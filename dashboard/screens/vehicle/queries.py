"""Queries about one vehicle: the span of time they are about, history, signals, trends, trips, quality."""

import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from dashboard.db import Query, queries_of
from dashboard.shared.queries import QUIET

SQL: Final = queries_of(__file__)

TRIP_LIMIT: Final = 200
_WHEELS: Final = {"fl": "front left", "fr": "front right", "rl": "rear left", "rr": "rear right"}
METRICS: Final[dict[str, str]] = {
    **{f"tyre_{k}": f"Tyre, {wheel}" for k, wheel in _WHEELS.items()},
    **{f"brake_pad_{k}": f"Brake pad, {wheel}" for k, wheel in _WHEELS.items()},
    "battery_rest": "12 V at rest",
    "dpf_soot": "Filter soot",
    "cell_spread_rest": "Cells apart at rest",
}
"""Metric of odograph.trend_metric as it ships -> what people call it; ``trend_hours`` has its column."""

vehicle_extent: Query[[str]] = SQL["vehicle_extent"]
WINDOWS_SPAN: Final = timedelta(days=7)  # of a longer span vehicle_trace and gaps read the windows of its end
vehicle_trace: Query[[str, datetime, datetime]] = SQL["vehicle_trace"]
signals: Query[[str, datetime]] = SQL["signals"]
trends: Query[[str]] = SQL["trends"]
trend_hours: Query[[str, str, datetime, datetime]] = SQL["trend_hours"]
trips: Query[[str, datetime, datetime]] = SQL["trips"]
codes: Query[[str]] = SQL["codes"]
gaps: Query[[str, datetime, datetime]] = SQL["gaps"]
quality: Query[[str, datetime, datetime]] = SQL["quality"]


_HOURS: Final = {"15 min": 0.25, "1 h": 1, "6 h": 6, "24 h": 24, "7 d": 168, "30 d": 720}
SPANS: Final[dict[str, timedelta | None]] = {k: timedelta(hours=h) for k, h in _HOURS.items()} | {"all": None}
FIRST: Final = "1 h"
OWN: Final = "own"  # a span from and to moments of the reader's
STEPS_S: Final = (10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
BUCKETS: Final = 360


class Span(NamedTuple):
    """From ``start`` to before ``end`` in steps; ``past``: it ends at the vehicle's last data, not now."""

    start: datetime
    end: datetime
    step_s: int
    past: bool

    def whole(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """Start and end on whole steps by the zone's clock, as roll-ups are: the same query within a step."""
        step = timedelta(seconds=self.step_s)

        def begin(at: datetime) -> datetime:
            there = datetime.fromtimestamp(at.timestamp(), zone)  # pandas' times do not go by the clock
            return (there - (there.replace(tzinfo=None) - datetime.min) % step).replace(fold=there.fold)

        last = begin(self.end)
        return begin(self.start).astimezone(UTC), (last + step).replace(fold=last.fold).astimezone(UTC)


def span(choice: str, first_event: datetime, last_event: datetime, now: datetime, window_s: int) -> Span:
    """The span chosen. A vehicle that is silent is shown up to its last data: now would show nothing."""
    past = now - last_event > QUIET
    end = last_event + timedelta(seconds=10) if past else now
    length = SPANS[choice]
    start = first_event - timedelta(seconds=10) if length is None else end - length
    return Span(start, end, step_of((end - start).total_seconds(), window_s), past)


def between(start: datetime, end: datetime, window_s: int) -> Span:
    """The span from one moment to another, in whichever order they come; a minute at least."""
    first, last = min(start, end), max(start, end)
    last = max(last, first + timedelta(minutes=1))
    return Span(first, last, step_of((last - first).total_seconds(), window_s), past=False)


def pace_s(choice: str, least_s: float, most_s: float) -> float:
    """How often a span is worth drawing anew, s: one in steps of minutes does not change each ten seconds."""
    length = SPANS.get(choice)
    return most_s if length is None else min(most_s, max(least_s, step_of(length.total_seconds())))


def step_of(length_s: float, window_s: int = 1) -> int:
    """The shortest step that makes at most BUCKETS of a length, a window at least: else all were gaps."""
    wanted = length_s / BUCKETS
    days = math.ceil(wanted / STEPS_S[-1]) * STEPS_S[-1]
    return max(window_s, next((step for step in STEPS_S if step >= wanted), days))


def history(step_s: int) -> Query[[str, datetime, datetime, int, str]]:
    """One vehicle from a start to before an end in such steps, a row a step with data: vehicle, start, end,
    step and zone, at whose hours and days long steps are cut.

    It reads the coarsest level that they can be made of. Charge, fuel level and speed limit are in windows
    only: null in steps of ten minutes and more. ``windows_restated`` counts rows of the level that was read.
    """
    levels = {86_400: "history_days", 3_600: "history_hours", 600: "history_minutes", 0: "history_windows"}
    found: Query[...] = SQL[next(name for from_s, name in levels.items() if step_s >= from_s)]
    return found
