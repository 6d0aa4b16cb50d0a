"""A value that changes too fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_jobs.vehicles.beat import Beat, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.raising import Judged, Raising, beyond
from stream_jobs.vehicles.detect.series import PARTS, Series, add_point, slope


@dataclass(frozen=True, slots=True)
class SlopeDetector(Untimed):
    """The slope over ``span_ms``, judged whenever a tenth of it is complete; memory: (series, the rule's).

    It holds when the slope is beyond the limit by ``sure`` standard errors, and is over once the slope itself
    is back behind the clear level, or the limit. A longer gap than ``gap_ms`` begins a new series.
    """

    raising: Raising
    span_ms: int
    per_s: float
    sure: float
    clear_level: float | None
    gap_ms: int

    def mute(self, reading: Reading) -> bool:
        """See Detector."""
        return reading.value is None and not reading.clears

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        series: Series = memory[0] if memory else ()  # type: ignore[assignment]
        inside = memory[1] if memory else None
        held: Memory | None = inside if isinstance(inside, tuple) else None
        if reading.value is None:
            if reading.clears and memory is not None:
                after, found = self.raising.step(held, Judged(beat.end_ms, False, True, None, reading.limit))
                return (None if after is None else ((), after)), found
            return memory, ()
        if series and beat.end_ms - series[-1][0] * self.span_ms // PARTS > self.gap_ms:
            series = ()
        kept, complete = add_point(series, beat.end_ms, reading.value, self.span_ms)
        steep = slope(kept, self.span_ms) if complete else None
        if steep is None:
            return (kept, held), ()
        after, found = self.raising.step(held, self._judged(beat.end_ms, steep, reading))
        return (kept, after), found

    def _judged(self, at_ms: int, steep: tuple[float, float], reading: Reading) -> Judged:
        above, limit = self.raising.above, reading.limit
        value, error = steep[0] * self.per_s, self.sure * steep[1] * self.per_s
        least = value - error if above else value + error
        back = limit if self.clear_level is None else self.clear_level
        holds, clears = beyond(least, limit, above), not beyond(value, back, above)
        return Judged(at_ms, holds, clears, value, limit, reading.names)
