"""Something that comes again and again: trouble codes, regenerations given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from stream_jobs.frames.arrays import Flags
from stream_jobs.rules.detect.base import Detection, Detections, Detector, Memory
from stream_jobs.rules.detect.raising import AGAIN
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.vehicles.rounds import Round

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

    def found(self, name: str, begun_ms: Sequence[int], at_ms: int, apart: bool) -> Detection | None:
        """What the last beginnings of a name (at most ``times``) make."""
        if len(begun_ms) < self.times or begun_ms[-1] - begun_ms[0] > self.span_ms:
            return None
        own = name if apart and name else None
        return Detection(at_ms, begun_ms[0], float(len(begun_ms)), float(self.times), None, name or None, own)


@dataclass(frozen=True, slots=True)
class CountDetector(Detector):
    """Counts how often the condition, or each name, comes; found again while it goes on being there.

    Only frames that say that it is not there make it away: silence of the vehicle does not. Few vehicles have
    anything to count: ``rare`` has a tuple of ``Seen`` of each, a name each.
    """

    counting: Counting
    absent_ms: int
    clear_for_ms: int
    apart: bool

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        known: Flags = said.holds != 0
        return known

    def starts(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        holds: Flags = said.holds > 0
        return holds

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        found: Detections = []
        end_ms = frames["end_ms"]
        for lane, place in enumerate(frames.places.tolist()):
            there = (said.names_of(lane) or (UNNAMED,)) if said.holds[lane] > 0 else ()
            seen = [Seen(*each) for each in memory.rare.get(place, ())]
            memory.rare[place], more = self._after(seen, there, int(end_ms[lane]))
            found += [(lane, each) for each in more]
        memory.on[frames.places] = True
        return found

    def _after(
        self, before: Sequence[Seen], there: Sequence[str], now_ms: int
    ) -> tuple[tuple[Seen, ...], list[Detection]]:
        seen = {each.name: each for each in before}
        for name in seen.keys() - set(there):
            gone = now_ms - seen[name].last_ms >= self.absent_ms
            seen[name] = seen[name]._replace(away=seen[name].away or gone)
        found: list[Detection] = []
        for name in dict.fromkeys(there):
            seen[name], more = self._there(seen.get(name), name, now_ms)
            found.extend(more)
        return tuple(sorted(seen.values(), key=lambda each: (each.last_ms, each.name))[-NAMES_MAX:]), found

    def _there(self, before: Seen | None, name: str, now_ms: int) -> tuple[Seen, Sequence[Detection]]:
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


COURSE: Final = np.dtype([("turning", "f8"), ("falls", "?")])
"""A value's last turning value, and whether it falls; ``rare``: when it turned up before, ms."""


@dataclass(frozen=True, slots=True)
class ReversalDetector(Detector):
    """Counts each time that a value, having fallen by ``size``, has risen by ``size`` from its lowest."""

    counting: Counting
    size: float

    @property
    def dtype(self) -> np.dtype[Any]:
        """See Detector."""
        return COURSE

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """See Detector."""
        course, value = memory.rows[frames.places], said.value
        course["turning"] = np.where(memory.on[frames.places], course["turning"], value)
        sign = np.where(course["falls"], -1, 1)
        further = sign * (value - course["turning"]) > 0
        turns = ~further & (np.abs(value - course["turning"]) >= self.size)
        counts = np.flatnonzero(turns & course["falls"] & (said.holds > 0))
        course["turning"] = np.where(further | turns, value, course["turning"])
        course["falls"] ^= turns
        memory.rows[frames.places], memory.on[frames.places] = course, True
        found: Detections = []
        for lane in counts.tolist():
            place, now_ms = int(frames.places[lane]), int(frames["end_ms"][lane])
            begun = memory.rare[place] = (*memory.rare.get(place, ()), now_ms)[-self.counting.times :]
            each = self.counting.found(UNNAMED, begun, now_ms, False)
            found += [] if each is None else [(lane, each)]
        return found
