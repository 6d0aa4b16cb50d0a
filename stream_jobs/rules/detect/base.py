"""What the detectors have in common: their memory of vehicles, and what they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.inputs import RuleEvaluation
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
Plain = int | float | str | bool | None | tuple["Plain", ...]
"""What a memory that is no array is made of: it must cross a checkpoint as plain values."""
NOTHING: Final[np.dtype[Any]] = np.dtype([])


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

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a vehicle's record."""
        return NOTHING

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
