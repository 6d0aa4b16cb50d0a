"""When a rule that lasts is raised, found again and over: the same for every kind that has a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect.base import Detection, Detections
from stream_jobs.rules.inputs import Answers
from stream_jobs.rules.kinds import Stateful
from stream_jobs.rules.model import Rule

AGAIN: float = 0.5
"""A raised rule is found again after this share of its clear time."""
HELD: Final = np.dtype(
    [("on", "?"), ("since", "f8"), ("seen", "f8"), ("bad", "f8"), ("found", "f8"), ("step", "i8")]
)
"""A rule that holds (``on``): began to, last judged, last seen bad, last found (NaN: not raised), escalation.
Times in ms.
"""
Held = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """What frames, or means, of k vehicles say of a rule; columns [k]. ``at_ms``: when.

    ``ready`` false: it may hold already, but is not raised yet. ``names``: what it is about, by place in k.
    """

    at_ms: Floats
    holds: Answers
    clears: Answers
    value: Floats
    limit: Floats
    names: Callable[[int], tuple[str, ...]]
    ready: Flags | bool = True


@dataclass(frozen=True, slots=True)
class Raising:
    """How long a rule must hold, how long it must be gone, and its further limits."""

    severity: str
    above: bool
    raise_for_ms: int
    clear_for_ms: int
    gap_ms: int
    escalate: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, rule: Rule, stateful: Stateful, raise_for_s: float) -> Raising:
        """Those of a rule of the file."""
        return cls(
            severity=rule.severity,
            above=rule.beyond != "below",
            raise_for_ms=round(raise_for_s * 1000),
            clear_for_ms=round((rule.clear_for_s or 0) * 1000),
            gap_ms=round(stateful.gap_s * 1000),
            escalate=stateful.escalate,
        )

    def step(self, held: Held, now: Judged) -> Detections:
        """Take in a judgement of each of k vehicles; ``held``: HELD [k], changed in place."""
        asked = ((now.holds != 0) | (now.clears > 0)) & (held["on"] | (now.holds > 0))
        if not asked.any():
            return []
        lanes = np.flatnonzero(asked & ~(held["on"] & (now.at_ms <= held["seen"])))
        h, at_ms, value = held[lanes], now.at_ms[lanes], now.value[lanes]
        holds, clears = now.holds[lanes] > 0, now.clears[lanes] > 0
        raised = h["on"] & ~np.isnan(h["found"])
        off = np.where(
            raised, at_ms - h["bad"] > self.clear_for_ms, ~holds | (at_ms - h["seen"] > self.gap_ms)
        )
        fresh = off | ~h["on"]
        begins = fresh & holds
        h["since"][begins], h["found"][begins], h["step"][begins] = at_ms[begins], np.nan, 0
        h["on"] = begins | ~fresh
        raised &= ~off
        waits = h["on"] & ~raised
        bad = waits | (raised & (holds | ~clears))
        steps = np.maximum(h["step"], self._steps(value))
        ready = now.ready if isinstance(now.ready, bool) else now.ready[lanes]
        due = waits & ready & (at_ms - h["since"] >= self.raise_for_ms)
        again = at_ms - h["found"] >= AGAIN * self.clear_for_ms
        finds = due | (raised & bad & ((steps > h["step"]) | again))
        h["step"] = np.where(finds, steps, h["step"])
        # Back behind its clear level, the last moment that it was not is found once, to end there.
        ends = raised & ~bad & (h["bad"] > h["found"])
        told = np.where(ends, h["bad"], at_ms)
        h["found"] = np.where(finds | ends, told, h["found"])
        h["seen"] = np.where(h["on"], at_ms, h["seen"])
        h["bad"] = np.where(bad, at_ms, h["bad"])
        held[lanes] = h
        return [
            (
                int(lanes[k]),
                self._found(h[k], int(told[k]), None if ends[k] else value[k], now, int(lanes[k])),
            )
            for k in np.flatnonzero(finds | ends).tolist()
        ]

    def waits(self, held: Held) -> Flags:
        """Where it holds already and is not raised yet."""
        waiting: Flags = held["on"] & np.isnan(held["found"])
        return waiting

    def later(self, held: Held, lanes: Ints, pause_ms: Floats) -> None:
        """Of vehicles where it waits: a pause of so long is over and does not count."""
        h = held[lanes]
        h["since"] += pause_ms
        h["seen"] += pause_ms - 1  # the frame that ends the pause comes after it
        h["bad"] = h["seen"]
        held[lanes] = h

    def _found(self, held: Any, at_ms: int, value: float | None, now: Judged, lane: int) -> Detection:
        limit, severity = number(now.limit[lane]), None
        if held["step"]:
            limit, severity = self.escalate[int(held["step"]) - 1]
        names = ", ".join(now.names(lane)) or None
        return Detection(at_ms, int(held["since"]), number(value), limit, severity, names)

    def _steps(self, value: Floats) -> Ints:
        """How many of the further limits each value is beyond; [k]."""
        steps = np.zeros(len(value), np.int64)
        for limit, _ in self.escalate:
            steps += value > limit if self.above else value < limit
        return steps


def number(value: float | None) -> float | None:
    """A double as rows have it: None where not known."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124  a NaN


def beyond(value: Floats, limit: Any, above: bool) -> Flags:
    """Whether values are on the wrong side of their limits; false where one is not known."""
    found: Flags = value > limit if above else value < limit
    return found


def answers(flags: Flags) -> Answers:
    """What is known to be true or false."""
    return np.where(flags, 1, -1).astype(np.int8)
