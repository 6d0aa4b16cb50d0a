"""A value beyond its limit for some time; the frame's own or its mean over a longer time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from stream_jobs.vehicles.beat import Beat, Detector, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.raising import Judged, Raising, beyond
from stream_jobs.vehicles.detect.series import add, mean

NOTHING: Final[Sequence[Found]] = ()


@dataclass(frozen=True, slots=True)
class LevelDetector(Untimed):
    """Each frame's own value."""

    raising: Raising

    @property
    def always(self) -> bool:
        """Nothing is remembered while nothing holds."""
        return False

    def mute(self, reading: Reading) -> bool:
        """See Detector."""
        return reading.holds is None and reading.clears is not True

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        said = (reading.holds, reading.clears, reading.value, reading.limit, reading.names)
        now = Judged(beat.end_ms, *said, reading.armed is not False)
        return self.raising.step(memory, now)

    def after_pause(self, memory: Memory | None, pause_ms: int) -> Memory | None:
        """See Untimed."""
        if memory is None or not self.raising.waits(memory):
            return None
        return self.raising.later(memory, pause_ms)


class Arming(NamedTuple):
    """A memory: how long it has been armed, the last frame, since when it is not, the inner rule's own."""

    armed_ms: int
    seen_ms: int
    off_ms: int | None
    inside: Memory | None


@dataclass(frozen=True, slots=True)
class ArmedDetector(Untimed):
    """Raised only once something (`while`) has held for so long; where it does not hold, the rule is over.

    A pause of up to ``pause_ms`` does not begin that time anew, but does not count either; nor does a gap. So
    with the time that a level has to last: an engine that a hybrid needs for half a minute now and then would
    never be too cold for four minutes on end.
    """

    armed_for_ms: int
    pause_ms: int
    gap_ms: int
    inner: Detector

    def mute(self, reading: Reading) -> bool:
        """See Detector."""
        return reading.armed is None

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        was = None if memory is None else Arming(*memory)  # type: ignore[arg-type]
        if reading.armed is None or (was is not None and beat.end_ms < was.seen_ms):
            return memory, ()
        now = self._armed(was, beat.end_ms) if reading.armed else self._off(was, beat.end_ms)
        if not reading.armed:
            if now.armed_ms and self.inner.after_pause(now.inside, 0) is not None:
                return now, NOTHING
            reading = Reading(False, True, None, reading.limit)
        elif now.armed_ms < self.armed_for_ms:
            reading = replace(reading, armed=False)
        inside, found = now.inside, NOTHING
        if inside is not None or reading.holds or self.inner.always:
            inside, found = self.inner.step(inside, beat, reading)
        if inside is None and now.armed_ms == 0 and now.off_ms is not None:
            return None, found
        return Arming(now.armed_ms, now.seen_ms, now.off_ms, inside), found

    def _armed(self, was: Arming | None, now_ms: int) -> Arming:
        if was is None:
            return Arming(0, now_ms, None, None)
        passed_ms = now_ms - was.seen_ms
        away_ms = now_ms - was.off_ms if was.off_ms is not None else passed_ms
        whole = was.off_ms is None and passed_ms <= self.gap_ms
        waiting = None if was.off_ms is None else self.inner.after_pause(was.inside, away_ms)
        if not whole and away_ms > self.pause_ms:
            return Arming(0, now_ms, None, None if waiting is not None else was.inside)
        return Arming(was.armed_ms + whole * passed_ms, now_ms, None, waiting or was.inside)

    def _off(self, was: Arming | None, now_ms: int) -> Arming:
        if was is None:
            return Arming(0, now_ms, now_ms, None)
        off_ms = was.seen_ms if was.off_ms is None else was.off_ms
        kept_ms = was.armed_ms if now_ms - off_ms <= self.pause_ms else 0
        return Arming(kept_ms, now_ms, off_ms, was.inside)


@dataclass(frozen=True, slots=True)
class MeanDetector(Untimed):
    """The mean over ``mean_ms``, judged whenever a tenth of it is complete.

    Memory: (buckets, the memory of the rule). A mean needs its whole time, and frames in half of its tenths.
    """

    raising: Raising
    mean_ms: int
    clear_level: float | None

    def mute(self, reading: Reading) -> bool:
        """See Detector."""
        return reading.value is None and not reading.clears

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
        holds, ready = beyond(average, limit, above), reading.armed is not False
        return Judged(at_ms, holds, clears, average, limit, reading.names, ready)
