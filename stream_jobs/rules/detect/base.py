"""What the detectors have in common: their memory of vehicles, what they find, when a rule is raised."""

import zlib
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.inputs import Answers, RuleEvaluation, beyond
from stream_jobs.rules.model import Baseline, Level, Rule
from stream_jobs.vehicles.features import Features

Spec = TypeVar("Spec")
PARTS: Final = 10  # buckets of the time that a mean or a slope is taken over
AGAIN: float = 0.5  # a raised rule is found again after this share of its clear time


@dataclass(frozen=True, slots=True)
class Detection:
    """What a detector found at ``event_ms``; ``since_ms`` is when it began to hold.

    ``severity`` None: the rule's own. ``detail``: words that the rule's message does not have (the fence, the
    wheel). ``part``: what of the rule is an alert of its own (a trouble code): that alert is ``rule.part``.
    ``ended``: no finding but an end: the alert, if one is active, is over at ``event_ms``.
    """

    event_ms: int
    since_ms: int
    value: float | None
    limit: float | None
    severity: str | None = None
    detail: str | None = None
    part: str | None = None
    ended: bool = False


Detections = list[tuple[int, Detection]]  # with the lane in the round of the vehicle that each is of


class Kept(msgspec.Struct, array_like=True):
    """A memory as a checkpoint has it: records of the vehicles that it knows, by place."""

    places: Ints
    rows: npt.NDArray[Any]
    rare: dict[int, Any] = {}
    words: list[str] = []
    inner: "Kept | None" = None


class Memory:
    """What one detector knows of n vehicles.

    ``on``: of which it knows anything, [n]. ``rows``: [n], a record each of the dtype that the detector
    asks for. ``rare``: by place, plain values of few vehicles. ``words``: texts that records name by their
    number. ``inner``: the memory of a detector inside.
    """

    __slots__ = ("inner", "on", "rare", "rows", "words")

    def __init__(self, count: int, kept: Kept) -> None:
        self.on, self.rows = np.zeros(count, np.bool_), np.zeros(count, kept.rows.dtype)
        self.on[kept.places], self.rows[kept.places] = True, kept.rows
        self.rare, self.words = kept.rare, kept.words
        self.inner: Memory | None = None

    def grow(self, count: int) -> None:
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

    def dump(self) -> Kept:
        places = np.flatnonzero(self.on)
        inner = None if self.inner is None else self.inner.dump()
        return Kept(places, self.rows[places], self.rare, self.words, inner)


class Detector(Generic[Spec]):
    """One rule over the frames of vehicles, which come in the order of each vehicle's time, each once.

    While a rule is raised it is found again often enough that ``clear_for`` (stream_jobs/alerts/derive.py)
    does not end its alert. A base, nothing by itself; ``spec``: what the rule's kind says; ``dtype``: of a
    vehicle's record.
    """

    dtype: np.dtype[Any] = np.dtype([])
    outlasts_versions = False
    """Whether what it remembers means the same whatever the rule says."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.again_ms = rule, AGAIN * ms(rule.clear_for_s)
        self.spec = cast(Spec, rule.spec)
        self.spec_hash = f"{zlib.crc32(repr(rule.spec).encode()):x}"  # once: fences are long

    def memory(self, count: int, kept: Kept | None) -> Memory:
        """What a checkpoint knows of ``count`` vehicles; records of an older detector's are forgotten."""
        if kept is None or kept.rows.dtype.names != self.dtype.names:
            kept = Kept(np.zeros(0, np.int64), np.zeros(0, self.dtype))
        return Memory(count, kept)

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        """Frames that may change or find something, whatever is remembered; and those of them that do so
        where nothing is remembered; [k]. Of most kinds: those with a value.
        """
        known = ~np.isnan(now.value)
        return known, known

    def step(self, memory: Memory, frames: Features, now: RuleEvaluation) -> Detections:
        """Take in a round of frames that wake it."""
        raise NotImplementedError

    def waits(self, memory: Memory, places: Ints) -> Flags:  # noqa: ARG002
        """Where the rule holds and waits to be raised, so that a pause may count for nothing; [k]."""
        return np.zeros(len(places), np.bool_)

    def later(self, memory: Memory, places: Ints, pause_ms: Floats) -> None:
        """Such a pause is over at vehicles that wait; of most kinds none does."""

    def unended(self, memory: Memory, place: int) -> list[tuple[int, str | None]]:  # noqa: ARG002
        """Alerts of a vehicle that nothing but this detector ends: since when, ms, and of which part."""
        return []


def ms(seconds: float | None) -> int:
    """Milliseconds of so many seconds; None: 0."""
    return round(1000 * (seconds or 0))


HELD: Final = np.dtype(
    [("on", "?"), ("since", "f8"), ("seen", "f8"), ("bad", "f8"), ("found", "f8"), ("step", "i8")]
)
"""A rule that holds (``on``): began, last judged, bad, found (NaN: not raised), all ms; escalation."""
Held = npt.NDArray[Any]


class RaisingDetector(Detector[Spec]):
    """One whose rule must hold for so long, must be gone for so long, and has further limits.

    It holds on over gaps of ``gap_ms``. What it is about is what it was about when it was found last,
    ``apart`` when it was found first: that is its part for as long as it holds.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        lasting = rule.spec if isinstance(rule.spec, Level | Baseline) else Level()  # others need not last
        self.raise_for_ms, self.clear_for_ms = ms(lasting.raise_for_s), ms(rule.clear_for_s)
        # Means of frames without a gap are a part of their time apart, and a frame's distance.
        self.gap_ms = ms(rule.gap_s + lasting.mean_s / PARTS)
        self.above = rule.beyond != "below"

    def raised(self, memory: Memory, frames: Features, held: Held, now: RuleEvaluation) -> Detections:
        """Take in what frames, or means, of k vehicles say of the rule; ``held``: HELD [k], changed in place.

        ``now.armed``: whether it may be raised already, it may hold before.
        """
        asked = ((now.holds != 0) | (now.clears > 0)) & (held["on"] | (now.holds > 0))
        if not asked.any():
            return []
        lanes = np.flatnonzero(asked & ~(held["on"] & (frames["end_ms"] <= held["seen"])))
        h, at_ms, value = held[lanes], frames["end_ms"][lanes], now.value[lanes]
        bad_now, clear = now.holds[lanes] > 0, now.clears[lanes] > 0
        raised = h["on"] & ~np.isnan(h["found"])
        off = np.where(
            raised, at_ms - h["bad"] > self.clear_for_ms, ~bad_now | (at_ms - h["seen"] > self.gap_ms)
        )
        fresh = off | ~h["on"]
        begins = fresh & bad_now
        h["since"][begins], h["found"][begins], h["step"][begins] = at_ms[begins], np.nan, 0
        h["on"] = begins | ~fresh
        raised &= ~off
        waits = h["on"] & ~raised
        bad = waits | (raised & (bad_now | ~clear))
        beyond_further = sum(beyond(value, limit, self.above) > 0 for limit, _ in self.rule.escalate)
        steps = np.maximum(h["step"], beyond_further)
        due = waits & (now.armed[lanes] >= 0) & (at_ms - h["since"] >= self.raise_for_ms)
        again = at_ms - h["found"] >= self.again_ms
        finds = due | (raised & bad & ((steps > h["step"]) | again))
        h["step"] = np.where(finds, steps, h["step"])
        # Back behind its clear level, the last moment that it was not is found once, to end there.
        ends = raised & ~bad & (h["bad"] > h["found"])
        found_ms = np.where(ends, h["bad"], at_ms)
        h["found"] = np.where(finds | ends, found_ms, h["found"])
        h["seen"] = np.where(h["on"], at_ms, h["seen"])
        h["bad"] = np.where(bad, at_ms, h["bad"])
        held[lanes] = h
        found: Detections = []
        for k in np.flatnonzero(finds | ends).tolist():
            lane, step = int(lanes[k]), int(h["step"][k])
            limit, severity = self.rule.escalate[step - 1] if step else (number(now.limit[lane]), None)
            at, since, names = int(found_ms[k]), int(h["since"][k]), ", ".join(now.names_of(lane)) or None
            worst, place = None if ends[k] else number(value[k]), int(frames.vehicle[lane])
            if now.names is not None:
                told = memory.rare.get(place, (None,))
                if told[0] == since and (self.rule.apart or ends[k]):  # not what ended it
                    names = told[1]
                memory.rare[place] = (since, names)
            part = names if self.rule.apart else None
            found.append((lane, Detection(at, since, worst, limit, severity, names, part)))
        return found

    def judged(self, now: RuleEvaluation, value: Floats, off: Floats | float = 0.0) -> RuleEvaluation:
        """``now`` by a value of the kind's own, NaN where there is none, which may be wrong by ``off``."""
        back = now.limit if self.rule.clear_level is None else self.rule.clear_level
        holds = beyond(value - off if self.above else value + off, now.limit, self.above)
        return replace(now, holds=holds, clears=-beyond(value, back, self.above), value=value)

    def unraised(self, held: Held) -> Flags:
        """Where it holds already and is not raised yet."""
        waiting: Flags = held["on"] & np.isnan(held["found"])
        return waiting


TURNING: Final = np.dtype([("turning", "f8"), ("falls", "?")])  # the last turning value, and whether it falls


def turned(
    course: npt.NDArray[Any], value: Floats, size: Floats | float, where: Flags | bool = True
) -> Flags:
    """TURNING [k] after one more value, in place; where it turned back by ``size`` from its extreme."""
    sign = np.where(course["falls"], -1, 1)
    further = where & (sign * (value - course["turning"]) > 0)
    turns: Flags = where & ~further & (np.abs(value - course["turning"]) >= size)
    course["turning"] = np.where(further | turns, value, course["turning"])
    course["falls"] ^= turns
    return turns


def number(value: float | None) -> float | None:
    """A double as rows have it: None where not known."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124  a NaN


def answers(flags: Flags) -> Answers:
    """What is known to be true or false."""
    return np.where(flags, 1, -1).astype(np.int8)
