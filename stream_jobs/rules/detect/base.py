"""What the detectors have in common: their memory of vehicles, what they find, when a rule is raised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.inputs import Answers, RuleEvaluation
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.rounds import Round


@dataclass(frozen=True, slots=True)
class Detection:
    """What a detector found at ``event_ms``; ``since_ms`` is when it began to hold."""

    event_ms: int
    since_ms: int
    value: float | None
    limit: float | None
    severity: str | None = None
    """None: the rule's own."""
    detail: str | None = None
    """Words for people that the rule's message does not have: the fence's name, the wheel."""
    part: str | None = None
    """What of the rule is an alert of its own (a trouble code, a fence): that alert is ``rule.part``."""
    ended: bool = False
    """No finding but an end: the alert, if one is active, is over at ``event_ms``."""


Detections = list[tuple[int, Detection]]
"""With the lane in the round of the vehicle that each is of."""


class Kept(msgspec.Struct, array_like=True):
    """A memory as a checkpoint has it: records of the vehicles that it knows, by place."""

    places: bytes
    rows: bytes
    width: int
    rare: dict[int, Any]
    words: list[str]
    inner: Kept | None


class Memory:
    """What one detector knows of n vehicles.

    ``on``: of which it knows anything, [n]. ``rows``: [n], a record each of the dtype that the detector
    asks for. ``rare``: by place, plain values of few vehicles. ``words``: texts that records name by their
    number. ``inner``: the memory of a detector inside. ``width``: what the dtype of the rows depends on.
    """

    __slots__ = ("inner", "on", "rare", "rows", "width", "words")

    def __init__(self, dtype: np.dtype[Any], count: int, inner: Memory | None = None, width: int = 0) -> None:
        self.on = np.zeros(count, np.bool_)
        self.rows = np.zeros(count, dtype)
        self.rare: dict[int, Any] = {}
        self.words: list[str] = []
        self.inner = inner
        self.width = width

    def grow(self, count: int) -> None:
        """To ``count`` places; of new ones nothing is known."""
        more = count - len(self.on)
        self.on = np.concatenate([self.on, np.zeros(more, np.bool_)])
        self.rows = np.concatenate([self.rows, np.zeros(more, self.rows.dtype)])
        if self.inner is not None:
            self.inner.grow(count)

    def keep(self, places: Ints) -> None:
        """Only these places stay, in this order."""
        self.on, self.rows = self.on[places], self.rows[places]
        self.rare = {new: self.rare[old] for new, old in enumerate(places.tolist()) if old in self.rare}
        if self.inner is not None:
            self.inner.keep(places)

    def forget(self, places: Ints) -> None:
        """Nothing is known of the vehicles at ``places`` any more."""
        self.on[places] = False
        self.rows[places] = np.zeros((), self.rows.dtype)

    def dump(self) -> Kept:
        """As plain values."""
        places = np.flatnonzero(self.on)
        inner = None if self.inner is None else self.inner.dump()
        return Kept(places.tobytes(), self.rows[places].tobytes(), self.width, self.rare, self.words, inner)

    def load(self, kept: Kept) -> None:
        """Take in what ``dump`` gave; nothing was known before."""
        places = np.frombuffer(kept.places, np.int64)
        self.on[places] = True
        if kept.rows:
            self.rows[places] = np.frombuffer(kept.rows, self.rows.dtype)
        self.rare, self.words = kept.rare, kept.words
        if self.inner is not None and kept.inner is not None:
            self.inner.load(kept.inner)


class Detector:
    """One rule over the frames of vehicles, which come in the order of each vehicle's time, each once.

    While a rule is raised it is found again often enough that ``clear_for`` (stream_jobs/alerts/derive.py)
    does not end its alert. A base, nothing by itself.
    """

    __slots__ = ()

    dtype: ClassVar[np.dtype[Any]] = np.dtype([])
    """Of a vehicle's record."""

    def memory(self, count: int, kept: Kept | None = None) -> Memory:
        """A memory of ``count`` vehicles, as it was kept."""
        memory = Memory(self.dtype, count)
        if kept is not None:
            memory.load(kept)
        return memory

    def relevant(self, said: RuleEvaluation) -> Flags:
        """Frames that may change or find something, whatever is remembered; [k]. Decided by flags
        and whether there is a value alone, not by what numbers there are. Of most kinds: those with a value.
        """
        return ~np.isnan(said.value)

    def starts(self, said: RuleEvaluation) -> Flags:
        """Of those, readings that do so where nothing is remembered; [k]. Of most kinds all."""
        return self.relevant(said)

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:
        """Take in a round of frames whose readings stir or wake it."""
        raise NotImplementedError

    def waits(self, memory: Memory, places: Ints) -> Flags:  # noqa: ARG002
        """Where the rule holds and waits to be raised, so that a pause may count for nothing; [k]."""
        return np.zeros(len(places), np.bool_)

    def later(self, memory: Memory, places: Ints, pause_ms: Floats) -> None:
        """Such a pause is over at vehicles that wait; of most kinds none does."""


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
    def of(cls, rule: Rule, raise_for_s: float = 0.0) -> Raising:
        """Those of a rule of the file."""
        assert rule.stateful is not None
        return cls(
            severity=rule.severity,
            above=rule.beyond != "below",
            raise_for_ms=round(raise_for_s * 1000),
            clear_for_ms=round((rule.clear_for_s or 0) * 1000),
            gap_ms=round(rule.stateful.gap_s * 1000),
            escalate=rule.stateful.escalate,
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
