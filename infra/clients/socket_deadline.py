"""A limit of one's own for a server that accepts and never answers.

A database's statement timeout is the server's: one that stands still (stopped, swapping, behind a link that
swallows) does not keep it, and its kernel goes on acknowledging, so no timeout of TCP ends the wait either.
"""

from __future__ import annotations

import heapq
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class Wait:
    """``over``: the connection was broken off."""

    seconds: float
    over: bool = False


@contextmanager
def at_most(fileno: int, seconds: float) -> Iterator[Wait]:
    """Break the connection of this socket off where the block takes longer; its reader then gets an error.

    The socket is shut down, not closed: whoever owns it closes it. ``fileno`` may be closed within the block.
    """
    wait = Wait(seconds)
    with socket.socket(fileno=os.dup(fileno)) as own:
        entry = _WATCH.begin(own, wait)
        try:
            yield wait
        finally:
            _WATCH.end(entry)


@dataclass(order=True, slots=True)
class _Entry:
    """Sorted by ``end_s`` of the monotonic clock; ``own`` is None once the block has ended."""

    end_s: float
    number: int
    own: socket.socket | None = field(compare=False)
    wait: Wait = field(compare=False)


class _Watch:
    """One thread for all waits: a page asks many small questions, and a thread for each costs more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[_Entry] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def begin(self, own: socket.socket, wait: Wait) -> _Entry:
        """Watch this socket until ``end``."""
        entry = _Entry(time.monotonic() + wait.seconds, next(self._numbers), own, wait)
        with self._changed:
            heapq.heappush(self._entries, entry)
            if self._thread is None or not self._thread.is_alive():  # a forked process has none
                self._thread = threading.Thread(target=self._run, name="patience", daemon=True)
                self._thread.start()
            elif self._entries[0] is entry:
                self._changed.notify()
        return entry

    def end(self, entry: _Entry) -> None:
        """The block has ended: nothing is broken off after this."""
        with self._changed:
            entry.own = None

    def _run(self) -> None:
        with self._changed:
            while True:
                while self._entries and self._entries[0].own is None:
                    heapq.heappop(self._entries)
                first_s = self._entries[0].end_s if self._entries else None
                left_s = None if first_s is None else first_s - time.monotonic()
                if left_s is None or left_s > 0:
                    self._changed.wait(left_s)
                else:
                    _break_off(heapq.heappop(self._entries))


def _break_off(entry: _Entry) -> None:
    entry.wait.over = True
    with suppress(OSError):  # it is gone already
        if entry.own is not None:
            entry.own.shutdown(socket.SHUT_RDWR)


_WATCH = _Watch()
