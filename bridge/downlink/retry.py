"""When a webhook's answer is final, and how long to wait before the next attempt. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal

FIRST_S: Final = 0.5
MOST_S: Final = 60.0
ASKED_MOST_S: Final = 86_400.0
"""The longest wait that a receiver may ask for; a webhook's ``give_up_s`` is no longer."""
AGAIN: Final = frozenset({408, 425, 429})
"""Of the 4xx only these may be better next time."""

Outcome = Literal["accepted", "again", "refused"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an attempt gave: an HTTP ``status``, or 0 and the ``trouble`` where there was none."""

    status: int
    retry_after: str | None = None
    trouble: str = ""

    @property
    def outcome(self) -> Outcome:
        """Accepted (2xx), to be tried again, or refused for good (other 4xx; redirects are not followed)."""
        if 200 <= self.status < 300:
            return "accepted"
        return "again" if self.status == 0 or self.status >= 500 or self.status in AGAIN else "refused"

    def __str__(self) -> str:
        return f"HTTP {self.status}" if self.status else self.trouble


def pause_s(attempt: int, answer: Answer, now: datetime, chance: random.Random) -> float:
    """The pause after attempt number ``attempt`` (from 1), s: doubling from 0.5 to 60 s, half of it drawn.

    Never shorter than the receiver's Retry-After, never longer than a day, whatever the header says.
    """
    whole = min(MOST_S, FIRST_S * 2.0 ** min(attempt - 1, 20))
    return max(whole * chance.uniform(0.5, 1.0), min(_asked_s(answer.retry_after, now), ASKED_MOST_S))


def _asked_s(text: str | None, now: datetime) -> float:
    """Retry-After in seconds, given as such or as a date (RFC 9110, 10.2.3); 0 where it is neither."""
    asked = "" if text is None else text.strip()
    if asked.isascii() and asked.isdigit():
        return float(asked)
    try:
        then = parsedate_to_datetime(asked)
        return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds())
    except (ValueError, OverflowError):  # no date, or a zone or year beyond what can be reckoned
        return 0.0
