"""How much one vehicle may send: a token bucket kept as one number, the moment when it would be full again.

``due_ms`` moves on by ``cost_ms`` with each message and never lies behind now; a message passes while it is
no more than ``slack_ms`` ahead. That is a bucket of ``burst`` tokens refilled at ``rate_per_s`` (the generic
cell rate algorithm, ITU-T I.371), without a clock that ticks for idle vehicles. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class VehicleLimit:
    """``rate_per_s`` messages for ever, ``burst`` at once; a rate of 0 is no limit."""

    rate_per_s: float = 0.0
    burst: int = 1
    cost_ms: float = field(init=False)
    slack_ms: float = field(init=False)

    def __post_init__(self) -> None:
        cost_ms = 1000 / self.rate_per_s if self.rate_per_s else 0.0
        object.__setattr__(self, "cost_ms", cost_ms)
        object.__setattr__(self, "slack_ms", (self.burst - 1) * cost_ms if cost_ms else inf)

    def steps_back(self, due_ms: float, now_ms: int) -> bool:
        """Whether the clock was set back: a bucket is never that empty."""
        return due_ms - now_ms > self.slack_ms + 2 * self.cost_ms

    def spend(self, due_ms: float, now_ms: int, tokens: int = 1) -> float | None:
        """``due_ms`` after so many tokens more, a full bucket at most; None where there are fewer."""
        begin_ms = now_ms if self.steps_back(due_ms, now_ms) else max(due_ms, now_ms)
        due_ms = begin_ms + min(tokens, self.burst) * self.cost_ms
        return None if due_ms - now_ms > self.slack_ms + self.cost_ms else due_ms

    def __str__(self) -> str:
        """As a rejection says it."""
        return f"more than {self.rate_per_s:g} messages/s after {self.burst} at once"


NO_LIMIT = VehicleLimit()
