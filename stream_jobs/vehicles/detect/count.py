"""Something that comes again and again: trouble codes, regenerations given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stream_jobs.vehicles.beat import Beat, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.raising import AGAIN

NAMES_MAX: Final = 32
"""Names that a vehicle's memory keeps; the one seen longest ago gives way."""
UNNAMED: Final = ""


class Seen(NamedTuple):
    """A name: last there, last found (None: never), whether it was away since, its last beginnings."""

    name: str
    last_ms: int
    found_ms: int | None
    away: bool
    begun_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counting:
    """At least ``times`` beginnings within ``span_ms``; found again by each further one."""

    times: int
    span_ms: int

    def found(self, name: str, begun_ms: tuple[int, ...], at_ms: int, apart: bool) -> Found | None:
        """What the last beginnings of a name (at most ``times``) make."""
        if len(begun_ms) < self.times or begun_ms[-1] - begun_ms[0] > self.span_ms:
            return None
        own = name if apart and name else None
        return Found(at_ms, begun_ms[0], float(len(begun_ms)), float(self.times), None, name or None, own)


@dataclass(frozen=True, slots=True)
class CountDetector(Untimed):
    """Counts how often the condition, or each name, comes; found again while it goes on being there.

    Only frames that say that it is not there make it away: silence of the vehicle does not. Memory: one
    ``Seen`` a name, the condition itself where the rule names nothing.
    """

    counting: Counting
    absent_ms: int
    clear_for_ms: int
    apart: bool

    @property
    def always(self) -> bool:
        """Nothing is remembered before the first time."""
        return False

    def mute(self, reading: Reading) -> bool:
        """See Detector."""
        return reading.holds is None

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        if reading.holds is None or (memory is None and not reading.holds):
            return memory, ()
        there = (reading.names or (UNNAMED,)) if reading.holds else ()
        seen = {entry[0]: Seen(*entry) for entry in memory or ()}  # type: ignore[index,misc]
        for name in seen.keys() - set(there):
            gone = beat.end_ms - seen[name].last_ms >= self.absent_ms
            seen[name] = seen[name]._replace(away=seen[name].away or gone)
        found: list[Found] = []
        for name in dict.fromkeys(there):
            seen[name], more = self._there(seen.get(name), name, beat.end_ms)
            found.extend(more)
        kept = sorted(seen.values(), key=lambda each: (each.last_ms, each.name))[-NAMES_MAX:]
        return tuple(kept), found

    def _there(self, before: Seen | None, name: str, now_ms: int) -> tuple[Seen, Sequence[Found]]:
        """The name is there now."""
        seen = before or Seen(name, now_ms, None, True, ())
        if now_ms < seen.last_ms:
            return seen, ()
        if seen.away:
            seen = seen._replace(begun_ms=(*seen.begun_ms, now_ms)[-self.counting.times :])
        seen = seen._replace(last_ms=now_ms, away=False)
        found = self.counting.found(name, seen.begun_ms, now_ms, self.apart)
        since_ms = None if seen.found_ms is None else now_ms - seen.found_ms
        news = since_ms is None or seen.begun_ms[-1] == now_ms or since_ms >= AGAIN * self.clear_for_ms
        if found is None or not news:
            return seen, ()
        return seen._replace(found_ms=now_ms), (found,)


class Course(NamedTuple):
    """A value's course: its last turning value, whether it falls, and when it turned up before."""

    turning: float
    falls: bool
    begun_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReversalDetector(Untimed):
    """Counts each time that a value, having fallen by ``size``, has risen by ``size`` from its lowest."""

    counting: Counting
    size: float

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        value = reading.value
        if value is None:
            return memory, ()
        course = Course(value, False, ()) if memory is None else Course(*memory)  # type: ignore[arg-type]
        sign = -1 if course.falls else 1
        if sign * (value - course.turning) > 0:
            return course._replace(turning=value), ()
        if abs(value - course.turning) < self.size:
            return course, ()
        if not course.falls or not reading.holds:
            return course._replace(turning=value, falls=not course.falls), ()
        begun = (*course.begun_ms, beat.end_ms)[-self.counting.times :]
        found = self.counting.found(UNNAMED, begun, beat.end_ms, False)
        return Course(value, False, begun), () if found is None else (found,)
