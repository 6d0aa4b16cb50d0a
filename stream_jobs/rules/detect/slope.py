"""A value that changes too fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stream_jobs.frames.arrays import Flags
from stream_jobs.rules.detect.base import Detections, Detector, Memory
from stream_jobs.rules.detect.raising import HELD, Judged, Raising, answers, beyond
from stream_jobs.rules.detect.series import PARTS, SERIES, add, slope
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.vehicles.rounds import Round

COURSE: Final = np.dtype([("held", HELD), ("series", SERIES)])
LEAST: Final = 2
"""Complete buckets that stay however old they are: frames may be rarer than the span is long."""


@dataclass(frozen=True, slots=True)
class SlopeDetector(Detector):
    """The slope over ``span_ms``, judged whenever a tenth of it is complete.

    It holds when the slope is beyond the limit by ``sure`` standard errors, and is over once the slope itself
    is back behind the clear level, or the limit. A longer gap than ``gap_ms`` begins a new series.
    """

    raising: Raising
    span_ms: int
    per_s: float
    sure: float
    clear_level: float | None
    gap_ms: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return COURSE

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value) | (said.clears > 0)

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        return ~np.isnan(said.value)

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        kept, known, now_ms = memory.rows[frames.places], ~np.isnan(said.value), frames["end_ms"]
        series, held = kept["series"], kept["held"]
        last = series["number"][np.arange(len(kept)), np.maximum(series["count"] - 1, 0)]
        gap = known & (series["count"] > 0) & (now_ms - last * self.span_ms // PARTS > self.gap_ms)
        series[gap] = np.zeros((), SERIES)
        complete = add(series, known, now_ms, said.value, self.span_ms, LEAST)
        memory.rows[frames.places] = kept
        memory.on[frames.places] |= known
        if known.all() and not complete.any():
            return []
        steep, error = np.full(len(kept), np.nan), np.full(len(kept), np.nan)
        steep[complete], error[complete] = slope(series[complete], self.span_ms)
        value, off = steep * self.per_s, self.sure * error * self.per_s
        above, limit = self.raising.above, said.limit
        back = limit if self.clear_level is None else np.full(len(limit), self.clear_level)
        judged = ~np.isnan(steep)
        holds = beyond(value - off if above else value + off, limit, above)
        # A rule that is not looked at comes to its end, and its course begins anew.
        ends = ~known & memory.on[frames.places]
        now = Judged(
            now_ms,
            np.where(judged, answers(holds), -ends.astype(np.int8)).astype(np.int8),
            np.where(judged, answers(~beyond(value, back, above)), ends).astype(np.int8),
            value, limit, said.names_of,
        )  # fmt: skip
        found = self.raising.step(held, now)
        series[ends] = np.zeros((), SERIES)
        memory.rows[frames.places] = kept
        memory.on[frames.places[ends]] = held["on"][ends]
        return found
