"""Hours of the week: 0 is Monday 00:00 to 01:00 local time, 167 Sunday 23:00 to 24:00."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from infra.contract.errors import ConfigError

HOURS_A_DAY: Final = 24
WORKDAYS: Final = 5
DAYS: Final = 7


def off_peak_hours(weekday: str, weekend: str) -> list[int]:
    """Hours of the week in the spans of a weekday and of a day of the weekend, as 9-16,19-22.

    Raises ConfigError for a span that ends before it begins or after 24.
    """
    by_day = [_hours(weekday)] * WORKDAYS + [_hours(weekend)] * (DAYS - WORKDAYS)
    return [day * HOURS_A_DAY + hour for day, hours in enumerate(by_day) for hour in hours]


def hour_of_week(at: datetime, zone: ZoneInfo) -> int:
    """The hour of the local week in which ``at`` lies."""
    there = at.astimezone(zone)
    return there.weekday() * HOURS_A_DAY + there.hour


def _hours(spans: str) -> list[int]:
    found: set[int] = set()
    for span in spans.split(","):
        begin, end = (int(hour) for hour in span.split("-"))
        if not begin < end <= HOURS_A_DAY:
            raise ConfigError(f"roads.off_peak: {span} in {spans}: hours such as 9-16 are wanted, up to 24")
        found |= set(range(begin, end))
    return sorted(found)
