"""The verdict on a frame's clock: what may go into windows, what is late, what no clock can be right about.

It compares the payload with the receive time of its own record and nothing else, so it is the same in the
stream, in a batch, in a replay years later, and for a day that was generated in one go.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Final

from infra.settings.settings import Settings

OK: Final = "ok"
LATE: Final = "late"
UNREADABLE: Final = "unreadable"
CLOCK_UNSET: Final = "clock_unset"
CLOCK_AHEAD: Final = "clock_ahead"
QUARANTINED: Final = (CLOCK_UNSET, CLOCK_AHEAD, UNREADABLE)
ERASED: Final = "erased"  # of a record without a value: its key's earlier records are nobody's any more


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """What a device clock may do; all times in ms."""

    floor_ms: int
    ahead_ms: int
    lateness_ms: int


def clock_limits(settings: Settings) -> ClockLimits:
    """The limits in force."""
    jobs = settings.jobs
    floor = datetime.combine(jobs.clock_floor, time(), UTC)
    return ClockLimits(int(floor.timestamp() * 1000), jobs.ahead_s * 1000, jobs.lateness_s * 1000)


def exceptions(t0_ms: Any, span_ms: Any, received_ms: Any, limits: ClockLimits) -> list[tuple[Any, str]]:
    """Whether each verdict but OK fits a readable frame; the first that does stands.

    Of numbers, arrays, or Spark's columns; ``span_ms`` is from the first sample to the last.
    """
    return [
        (t0_ms < limits.floor_ms, CLOCK_UNSET),
        (t0_ms + span_ms - received_ms > limits.ahead_ms, CLOCK_AHEAD),
        (received_ms - t0_ms > limits.lateness_ms, LATE),
    ]


def verdict(t0_ms: int, span_ms: int, received_ms: int, limits: ClockLimits) -> str:
    """The verdict on one readable frame."""
    return next((word for fits, word in exceptions(t0_ms, span_ms, received_ms, limits) if fits), OK)
