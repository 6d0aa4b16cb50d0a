"""A value beyond its limit for some time; the frame's own or its mean over a longer time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_jobs.vehicles.beat import Beat, Detector, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed, armed_since
from stream_jobs.vehicles.detect.raising import Judged, Raising, beyond
from stream_jobs.vehicles.detect.series import add, mean


@dataclass(frozen=True, slots=True)
class LevelDetector(Untimed):
    """Each frame's own value."""

    raising: Raising

    @property
    def always(self) -> bool:
        """Nothing is remembered while nothing holds."""
        return False

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        now = Judged(beat.end_ms, reading.holds, reading.clears, reading.value, reading.limit, reading.names)
        return self.raising.step(memory, now)


@dataclass(frozen=True, slots=True)
class ArmedDetector(Untimed):
    """Looked at only after something (`while`) has held for so long; without it the rule is over.

    Memory: (armed since, last seen, the memory of what is looked at).
    """

    armed_for_ms: int
    gap_ms: int
    inner: Detector

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        since, seen, inside = memory or (None, None, None)
        if reading.armed is None:
            return memory, ()
        now_ms = beat.end_ms
        since = armed_since(since, seen, reading, now_ms, self.gap_ms)
        if since is None or now_ms - since < self.armed_for_ms:
            reading = Reading(False, True, None, reading.limit)
        held: Memory | None = inside if isinstance(inside, tuple) else None
        after, found = self.inner.step(held, beat, reading)
        if since is None and after is None:
            return None, found
        return (since, now_ms, after), found


@dataclass(frozen=True, slots=True)
class MeanDetector(Untimed):
    """The mean over ``mean_ms``, judged whenever a tenth of it is complete.

    Memory: (buckets, the memory of the rule). A mean needs its whole time, and frames in half of its tenths.
    """

    raising: Raising
    mean_ms: int
    clear_level: float | None

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        if reading.value is None:
            return self._without(memory, beat, reading)
        buckets, inside = memory or ((), None)
        kept, closed = add(buckets, beat.end_ms, reading.value, self.mean_ms)  # type: ignore[arg-type]
        held: Memory | None = inside if isinstance(inside, tuple) else None
        average = mean(kept) if closed else None
        if average is None:
            return (kept, held), ()
        after, found = self.raising.step(held, self._judged(beat.end_ms, average, reading))
        return (kept, after), found

    def _without(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """A frame that does not count; where the rule is not looked at at all, it comes to its end."""
        if memory is None or not reading.clears:
            return memory, ()
        buckets, inside = memory
        held: Memory | None = inside if isinstance(inside, tuple) else None
        after, found = self.raising.step(held, Judged(beat.end_ms, False, True, None, reading.limit))
        return (buckets, after), found

    def _judged(self, at_ms: int, average: float, reading: Reading) -> Judged:
        above, limit = self.raising.above, reading.limit
        back = limit if self.clear_level is None else self.clear_level
        clears = not beyond(average, back, above)
        return Judged(at_ms, beyond(average, limit, above), clears, average, limit, reading.names)
