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
    """A name: last there, last found (None: never), and its last beginnings, oldest first."""

    name: str
    last_ms: int
    found_ms: int | None
    begun_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CountDetector(Untimed):
    """Found when ``times`` beginnings lie within ``span_ms``, and again while it goes on being there.

    Memory: one ``Seen`` a name, the condition itself where the rule names nothing.
    """

    times: int
    span_ms: int
    absent_ms: int
    clear_for_ms: int
    apart: bool

    @property
    def always(self) -> bool:
        """Nothing is remembered before the first time."""
        return False

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        if not reading.holds:
            return memory, ()
        seen = {entry[0]: Seen(*entry) for entry in memory or ()}  # type: ignore[index,misc]
        found: list[Found] = []
        for name in dict.fromkeys(reading.names) if reading.names else (UNNAMED,):
            after, more = self._there(seen.pop(name, None), name, beat.end_ms)
            seen[name] = after
            found.extend(more)
        kept = sorted(seen.values(), key=lambda each: (each.last_ms, each.name))[-NAMES_MAX:]
        return tuple(kept), found

    def _there(self, before: Seen | None, name: str, now_ms: int) -> tuple[Seen, Sequence[Found]]:
        """The name is there now."""
        seen = before or Seen(name, now_ms, None, ())
        if now_ms < seen.last_ms:
            return seen, ()
        if before is None or now_ms - seen.last_ms > self.absent_ms:
            seen = seen._replace(begun_ms=(*seen.begun_ms, now_ms)[-self.times :])
        seen = seen._replace(last_ms=now_ms)
        begun = seen.begun_ms
        if len(begun) < self.times or begun[-1] - begun[0] > self.span_ms:
            return seen, ()
        since = seen.found_ms is None or begun[-1] > seen.found_ms
        if not since and now_ms - (seen.found_ms or 0) < AGAIN * self.clear_for_ms:
            return seen, ()
        value = float(len(begun))
        apart = name if self.apart and name else None
        found = Found(now_ms, begun[0], value, float(self.times), None, name or None, apart)
        return seen._replace(found_ms=now_ms), (found,)
