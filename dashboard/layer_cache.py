"""Rows of map layers with an address of their own: made once for all readers, fetched by their browsers.

A page puts the address of a layer's rows into the map; the browser fetches them beside the page's own channel
and keeps drawing the rows before until they are there. Rows live as long as a session shows them, so a paused
map can still be moved; the last few are kept for browsers that are behind.
"""

import gzip
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
import pandas as pd
import streamlit as st

from dashboard.db import NUMBER

Build = Callable[[pd.DataFrame], Any]

NEWEST: Final = 6  # rows of a kind that are kept though nobody shows them any more: a browser may still ask
LEVEL: Final = 1  # of gzip: the rows shrink eightfold at little cost
SHOWN: Final = "layer_rows"


class LayerRows:
    """The rows of one query result under its number."""

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


class LayerCache:
    """The rows of one kind of layer, by the numbers of the results that they are of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, LayerRows] = WeakValueDictionary()
        self._newest: deque[LayerRows] = deque(maxlen=NEWEST)

    def of(self, frame: pd.DataFrame) -> LayerRows:
        """The rows of this result, the same for all its readers; whoever shows them keeps them."""
        number: str = frame.attrs[NUMBER]
        with self._lock:
            known = self._known.get(number)
            if known is None:
                known = self._known[number] = LayerRows(number, frame)
                self._newest.append(known)
            return known

    def get(self, number: str) -> LayerRows | None:
        """The rows with this number, else the newest: a browser that is far behind gets what is now."""
        with self._lock:
            return self._known.get(number) or (self._newest[-1] if self._newest else None)


@st.cache_resource(show_spinner=False)
def layers(kind: str) -> LayerCache:  # noqa: ARG001  what the cache tells them apart by
    """The rows of a kind of layers (``fleet``, ``traffic``), for pages and routes of this server."""
    return LayerCache()


def shown(kind: str, frame: pd.DataFrame) -> str:
    """The number of a result's rows; this session keeps them until it shows others of the kind."""
    kept: dict[str, LayerRows] = st.session_state.setdefault(SHOWN, {})
    kept[kind] = layers(kind).of(frame)
    return kept[kind].number
