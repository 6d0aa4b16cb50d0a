"""What is matched: what really happened, what was found, and how one detector did; pure.

Times are ms since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Truth:
    """One thing that happened. ``to_ms`` None: it stays; ``full_ms`` None: that has no meaning."""

    what: str
    vehicle_id: str
    from_ms: int
    to_ms: int | None = None
    full_ms: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that was found: an alert, a trip, a harsh event. ``to_ms``: when it was last seen."""

    what: str
    vehicle_id: str
    from_ms: int
    to_ms: int
    label: str = ""
    """For people: its number, its value."""
    incident: int | None = None
    """Of an alert: the number of its incident, if it has one."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How one detector did.

    ``found`` pairs each thing that happened with its first claim; ``hits`` counts all claims that hit one, so
    hits beyond the found ones are repetitions. ``explained`` claims are neither right nor wrong: a symptom of
    another fault, or of one that is not counted. ``excluded`` counts by reason what nobody had to find.
    """

    detector: str
    found: Sequence[tuple[Truth, Claim]] = ()
    missed: Sequence[Truth] = ()
    hits: int = 0
    explained: int = 0
    false: Sequence[Claim] = ()
    excluded: Mapping[str, int] = field(default_factory=Counter)
    timed: bool = True
    """Whether its claims say when."""
    note: str = ""
    """Why it could not be judged in full, for people."""

    @property
    def truths(self) -> int:
        """Things that had to be found."""
        return len(self.found) + len(self.missed)

    @property
    def recall(self) -> float | None:
        """Share of what happened that was found; None where nothing had to be."""
        return len(self.found) / self.truths if self.truths else None

    @property
    def precision(self) -> float | None:
        """Share of what was claimed that is right; None where nothing was claimed."""
        claims = self.hits + len(self.false)
        return self.hits / claims if claims else None

    def delay_s(self, percent: float) -> float | None:
        """Percentile of the time from the begin to the first claim, s of event time."""
        if not self.found or not self.timed:
            return None
        delays = [max(0, claim.from_ms - truth.from_ms) / 1000 for truth, claim in self.found]
        return float(np.percentile(delays, percent))

    def passes(self, least: float) -> bool:
        """Whether recall and precision reach ``least``; what could not be judged does not fail."""
        return all(share is None or share >= least for share in (self.recall, self.precision))
