"""A value against the vehicle's own history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stream_jobs.rule_kinds import Baseline
from stream_jobs.vehicles.beat import Beat, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.history import QUANTILES, Moving, Quantile, moved, noted, quantile
from stream_jobs.vehicles.detect.raising import Held, Judged, Raising, beyond
from stream_jobs.vehicles.detect.series import Series, add, mean

NAMES_MAX: Final = 24
UNNAMED: Final = ""


Histories = tuple[tuple[str, Memory], ...]


class Own(NamedTuple):
    """A memory: the name now and since when, histories by name, the mean's buckets, the rule's own memory."""

    name: str
    since_ms: int
    histories: Histories
    series: Series
    inside: Memory | None


@dataclass(frozen=True, slots=True)
class BaselineDetector(Untimed):
    """How far a value is from what this vehicle had before; silent until ``warm_up`` values were taken in.

    While the rule is raised nothing is learned: a fault must not become the history.
    """

    raising: Raising
    spec: Baseline
    clear_level: float | None

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        if reading.value is None:
            return memory, ()
        name, now_ms = ",".join(reading.names) or UNNAMED, beat.end_ms
        own = Own(name, now_ms, (), (), None) if memory is None else Own(*memory)  # type: ignore[arg-type]
        _, since_ms, histories, series, inside = own
        if name != own.name:
            since_ms, series = now_ms, ()
        steady = now_ms - since_ms >= 1000 * self.spec.steady_s
        value, series = self._value(series, now_ms, reading.value)
        if value is None or not steady:
            return Own(name, since_ms, histories, series, inside), ()
        history, others = _apart(histories, name)
        off = self._off(history, value) if reading.holds else None
        found: Sequence[Found] = ()
        if off is not None:
            judged = self._judged(now_ms, off, reading)
            if judged.holds or inside is not None:
                inside, found = self.raising.step(inside, judged)
        elif reading.holds is False:
            inside = self._unheld(inside, now_ms)
        if reading.learns and inside is None:
            learned = self._learned(history, value, now_ms)
            histories = (*others, (name, learned))[-NAMES_MAX:]
        return Own(name, since_ms, histories, series, inside), found

    def _value(self, series: Series, now_ms: int, value: float) -> tuple[float | None, Series]:
        """The frame's value, or the mean when a part of its time is complete."""
        if self.spec.mean_s == 0:
            return value, ()
        kept, complete = add(series, now_ms, value, round(1000 * self.spec.mean_s))
        return (mean(kept) if complete else None), kept

    def _unheld(self, inside: Memory | None, now_ms: int) -> Memory | None:
        """A frame that the condition does not let judge breaks what was not raised yet, pauses aside."""
        if inside is None or not self.raising.waits(inside):
            return inside
        held = Held(*inside)  # type: ignore[arg-type]
        return inside if now_ms - held.seen_ms <= 1000 * self.spec.pause_s else None

    def _judged(self, at_ms: int, off: float, reading: Reading) -> Judged:
        above, limit = self.raising.above, reading.limit
        back = limit if self.clear_level is None else self.clear_level
        clears = not beyond(off, back, above)
        return Judged(at_ms, beyond(off, limit, above), clears, off, limit, reading.names)

    def _learned(self, history: Memory | None, value: float, at_ms: int) -> Memory:
        if self.spec.against == "mean":
            was = None if history is None else Moving(*history)  # type: ignore[arg-type]
            return moved(was, value, at_ms, self.spec.memory_s, self.spec.warm_up)
        noticed = None if history is None else Quantile(*history)  # type: ignore[arg-type]
        return noted(noticed, value, QUANTILES[self.spec.against])

    def _off(self, history: Memory | None, value: float) -> float | None:
        """The distance from the history in the rule's measure; None before it is warm."""
        if history is None or not isinstance(history[0], int) or history[0] < self.spec.warm_up:
            return None
        spread = 0.0
        if self.spec.against == "mean":
            moving = Moving(*history)  # type: ignore[arg-type]
            usual, spread = moving.mean, math.sqrt(moving.variance)
        else:
            usual = quantile(Quantile(*history), QUANTILES[self.spec.against])  # type: ignore[arg-type]
        off = value - usual
        if self.spec.by == "difference":
            return off
        scale = abs(usual) if self.spec.by == "share" else spread
        return off / scale if scale > 0 else None


def _apart(histories: Histories, name: str) -> tuple[Memory | None, Histories]:
    """The history of a name, and the others; nearly always it is the last one that was learned."""
    if histories and histories[-1][0] == name:
        return histories[-1][1], histories[:-1]
    of_name = dict(histories).get(name)
    return of_name, tuple(each for each in histories if each[0] != name)
