"""What a replay is about: a span of receive time, and the vehicles in it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID

_OFFSETS: Final = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until) in ms since 1970, of event time."""

    since_ms: int
    until_ms: int

    @property
    def since(self) -> datetime:
        """Its begin, UTC."""
        return datetime.fromtimestamp(self.since_ms / 1000, UTC)

    @property
    def until(self) -> datetime:
        """Its end, UTC."""
        return datetime.fromtimestamp(self.until_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far receive times lie around event times, ms: limits of the verdict, and a run-up of the jobs."""

    ahead_ms: int
    lateness_ms: int
    lead_ms: int

    def received(self, span: Span) -> Span:
        """Receive times of all frames that are not late and have a sample in ``span``, and of the run-up."""
        begin = span.since_ms - max(self.ahead_ms, self.lead_ms)
        return Span(begin, span.until_ms + self.lateness_ms + 1)


def day_span(day: str, tz: str) -> Span:
    """The day ``YYYY-MM-DD`` from midnight to midnight in zone ``tz``; raises ConfigError."""
    try:
        begin = date.fromisoformat(day)
    except ValueError as error:
        raise ConfigError(f"--day {day!r}: a day such as 2026-11-20 is wanted") from error
    zone = ZoneInfo(tz)
    ends = (datetime.combine(at, time(), zone) for at in (begin, begin + timedelta(days=1)))
    since, until = (int(at.timestamp() * 1000) for at in ends)
    return Span(since, until)


def offsets(text: str, partitions: int) -> dict[int, int]:
    """``1200`` (every partition) or ``0:1200,3:77`` (others: none) by partition; raises ConfigError."""
    if text.isdecimal():
        return dict.fromkeys(range(partitions), int(text))
    found = [_OFFSETS.fullmatch(part) for part in text.split(",")]
    wanted = {int(match[1]): int(match[2]) for match in found if match}
    if not all(found) or len(wanted) < len(found) or not set(wanted) <= set(range(partitions)):
        raise ConfigError(
            f"--from-offset {text!r}: an offset, or partition:offset pairs such as 0:1200,3:77 "
            f"(partitions 0 to {partitions - 1}) are wanted"
        )
    return wanted


def vehicles(wanted: list[str]) -> tuple[str, ...]:
    """The vehicles of ``--vehicle``, each once, in order; raises ConfigError where one is no VIN."""
    wrong = [vehicle for vehicle in wanted if VEHICLE_ID.fullmatch(vehicle) is None]
    if wrong:
        raise ConfigError(f"--vehicle {wrong[0]!r} is not a 17-character VIN")
    return tuple(sorted(set(wanted)))


def speed_of(text: str) -> float | None:
    """Times as fast as it was received; None for ``max``. Raises ConfigError."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < 1e6:
        raise ConfigError(f"--speed {text!r}: a factor such as 60, or max, is wanted")
    return speed
