"""Answers shared by all readers: a question that many ask at once is asked once.

Twenty readers of one page ask the same every two seconds. Each answer is good for a moment; whoever comes
within it gets the same rows, and who comes while the question is under way waits for that answer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

MOST: Final = 256
"""Answers kept, at most."""
HELD_MOST: Final = 64
"""Answers that a session keeps for a pause or an outage."""
HELD_ALIKE: Final = 8
"""Of these, to one question: a span that moves with the clock makes another answer every few seconds."""


@dataclass(slots=True)
class _Answer:
    """``until_s`` is in the clock's time; the lock is held while the question is under way."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    until_s: float = 0.0
    rows: pd.DataFrame | None = None


class Answers:
    """Frames by key. Safe between threads. ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Answer] = OrderedDict()

    def of(self, key: str, good_s: float, question: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The answer to ``key``, at most ``good_s`` old; raises what ``question`` raises.

        Each caller gets a frame of its own over the same columns (copy on write is on: see server.py).
        """
        answer = self._entry(key)
        with answer.lock:
            if answer.rows is None or self._clock() >= answer.until_s:
                answer.rows = question()
                answer.until_s = self._clock() + good_s
            return answer.rows.copy(deep=False)

    def drop(self, start: str) -> None:
        """Forget the answers whose keys begin so; a question under way is answered as it was asked."""
        with self._lock:
            for key in [key for key in self._known if key.startswith(start)]:
                del self._known[key]

    def __len__(self) -> int:
        return len(self._known)

    def _entry(self, key: str) -> _Answer:
        with self._lock:
            if key not in self._known:
                self._forget()
            answer = self._known.setdefault(key, _Answer())
            self._known.move_to_end(key)
            return answer

    def _forget(self) -> None:
        """Drop what is no longer good: a span that moves with the clock is never asked for again.

        Of the rest as many are left as there may be beside a new one; those asked for longest ago go.
        """
        now_s = self._clock()
        for key, answer in list(self._known.items()):
            if answer.until_s <= now_s and not answer.lock.locked():
                del self._known[key]
        while len(self._known) >= self._most:
            self._known.popitem(last=False)


def hold(held: dict[str, pd.DataFrame], key: str, answer: pd.DataFrame) -> None:
    """Keep an answer for a pause or an outage; the oldest go, of one question and of all.

    ``key``: the question's name, a bracket, what was asked.
    """
    held.pop(key, None)
    held[key] = answer
    question = key.partition("(")[0]
    alike = [known for known in held if known.partition("(")[0] == question]
    for known in [*alike[:-HELD_ALIKE], *list(held)[:-HELD_MOST]]:
        held.pop(known, None)
