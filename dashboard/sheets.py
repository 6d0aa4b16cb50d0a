"""Rows for map layers with an address of their own: made once for all readers, fetched by their browsers.

A page puts the address of a sheet into its layer; the browser fetches it beside the page's own channel and
keeps drawing the sheet before until it is there. A sheet lives as long as a session shows it, so a paused
map can still be moved; of live ones the last few are kept for browsers that are behind.
"""

from __future__ import annotations

import gzip
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
import pandas as pd

from dashboard.queries import NUMBER

Build = Callable[[pd.DataFrame], Any]

GRACE: Final = 6
"""Sheets of a kind that are kept though nobody shows them any more: a browser may still ask."""
LEVEL: Final = 1
"""Of gzip: the rows shrink eightfold at little cost."""


class Sheet:
    """The rows of one answer under a number of its own; ``variant`` names a part or another form of them."""

    def __init__(self, number: str, frame: pd.DataFrame) -> None:
        self.number = number
        self.frame = frame
        self._lock = threading.Lock()
        self._bodies: dict[str, bytes] = {}

    def body(self, variant: str, build: Build) -> bytes:
        """JSON of what ``build`` makes of the frame, compressed; made once for each ``variant``."""
        with self._lock:
            if variant not in self._bodies:
                self._bodies[variant] = gzip.compress(orjson.dumps(build(self.frame)), LEVEL)
            return self._bodies[variant]


class Sheets:
    """The sheets of one kind, by the numbers of the answers that they are of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, Sheet] = WeakValueDictionary()
        self._newest: deque[Sheet] = deque(maxlen=GRACE)

    def of(self, frame: pd.DataFrame) -> Sheet:
        """The sheet of this answer, the same for all its readers; whoever shows it keeps it."""
        number: str = frame.attrs[NUMBER]
        with self._lock:
            known = self._known.get(number)
            if known is None:
                known = self._known[number] = Sheet(number, frame)
                self._newest.append(known)
            return known

    def get(self, number: str) -> Sheet | None:
        """The sheet with this number, else the newest: a browser that is far behind gets what is now."""
        with self._lock:
            return self._known.get(number) or (self._newest[-1] if self._newest else None)
