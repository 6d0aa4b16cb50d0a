"""A value that does not change at all while it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_jobs.vehicles.beat import Beat, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.raising import Judged, Raising


class Same(NamedTuple):
    """A memory: the value, its frames on end, since when, the last of them, and the rule's own memory."""

    value: float
    frames: int
    since_ms: int
    seen_ms: int
    inside: Memory | None


@dataclass(frozen=True, slots=True)
class UnchangedDetector(Untimed):
    """The same value in ``frames`` frames on end and for ``unchanged_ms``; a longer gap begins anew."""

    raising: Raising
    frames: int
    unchanged_ms: int

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        same = None if memory is None else Same(*memory)  # type: ignore[arg-type]
        inside = None if same is None else same.inside
        value, now_ms = reading.value, beat.end_ms
        if value is None:
            return memory, ()
        if same is None or value != same.value or now_ms - same.seen_ms > self.raising.gap_ms:
            same = Same(value, 0, now_ms, now_ms, inside)
        frames = same.frames + 1
        holds = frames >= self.frames and now_ms - same.since_ms >= self.unchanged_ms
        if inside is None and not holds:
            return Same(value, frames, same.since_ms, now_ms, None), ()
        judged = Judged(now_ms, holds, frames == 1, value, None, reading.names)
        inside, found = self.raising.step(inside, judged)
        return Same(value, frames, same.since_ms, now_ms, inside), found
