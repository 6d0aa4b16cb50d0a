"""The way to the highest rate with a flat lag: which rate to try next. Pure.

Upward by a factor until the lag grows. Then what the chain took in under overload says where its limit may
lie: one try there, if it is worth one, and the highest rate that held is confirmed. A confirmation that fails
is repeated at a lower rate while there is time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

STEP = 1.6
BELOW = 0.92
"""Of what the chain took in under overload: the share that is tried as a steady rate."""
WORTH = 1.08
"""A try between is worth its time if it is so much above what held."""
BACK = 0.88
"""After a failed confirmation."""
ROUND_TO = 50

Verdict = Literal["held", "grew", "void"]
"""``void``: the simulator could not keep the rate, so nothing is shown."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A stage that ran: its rate, what came of it, and frames/s whose results came in meanwhile."""

    rate: float
    verdict: Verdict
    taken_per_s: float


def next_rate(tried: Sequence[Tried], first: float, highest: float) -> float | None:
    """The next stage's rate; None when the search is over."""
    if not tried:
        return first
    held = best(tried)
    failed = [t for t in tried if t.verdict != "held"]
    if not failed:
        return None if held >= highest else min(highest, _even(held * STEP))
    ceiling = min(t.rate for t in failed)
    if len(failed) > 1 and held > 0:
        return None
    guess = failed[-1].taken_per_s * BELOW if failed[-1].verdict == "grew" else ceiling * BELOW
    lowest = 0.0 if held else ceiling / 2  # a cold start may take in next to nothing
    wanted = _even(max(lowest, min(ceiling * BELOW, guess)))
    return None if wanted >= ceiling or wanted < WORTH * held else wanted


def best(tried: Sequence[Tried]) -> float:
    """The highest rate that held; 0 for none."""
    return max((t.rate for t in tried if t.verdict == "held"), default=0.0)


def after_failed_confirmation(rate: float) -> float:
    """The rate to confirm next; 0 where there is no lower one."""
    lower = _even(rate * BACK)
    return lower if lower < rate else 0.0


def _even(rate: float) -> float:
    return max(ROUND_TO, float(int(rate // ROUND_TO) * ROUND_TO))
