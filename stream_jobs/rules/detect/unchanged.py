"""A value that does not change at all while it should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stream_jobs.rules.detect.base import Detections, Detector, Memory
from stream_jobs.rules.detect.raising import HELD, Judged, Raising, answers
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.vehicles.rounds import Round

SAME: Final = np.dtype([("held", HELD), ("value", "f8"), ("frames", "i8"), ("since", "f8"), ("seen", "f8")])
"""The value, its frames on end, since when, the last of them."""


@dataclass(frozen=True, slots=True)
class UnchangedDetector(Detector):
    """The same value in ``frames`` frames on end and for ``unchanged_ms``; a longer gap begins anew."""

    raising: Raising
    frames: int
    unchanged_ms: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return SAME

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        same, now_ms = memory.rows[frames.places], frames["end_ms"]
        other = ~memory.on[frames.places] | (said.value != same["value"])
        other |= now_ms - same["seen"] > self.raising.gap_ms
        same["value"], same["seen"] = said.value, now_ms
        same["since"] = np.where(other, now_ms, same["since"])
        same["frames"] = np.where(other, 1, same["frames"] + 1)
        holds = (same["frames"] >= self.frames) & (now_ms - same["since"] >= self.unchanged_ms)
        held = same["held"]
        now = Judged(
            now_ms, answers(holds), answers(same["frames"] == 1), said.value,
            np.full(len(same), np.nan), said.names_of,
        )  # fmt: skip
        found = self.raising.step(held, now)
        memory.rows[frames.places], memory.on[frames.places] = same, True
        return found
