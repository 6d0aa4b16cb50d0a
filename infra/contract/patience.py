"""A limit of one's own for a server that accepts and never answers.

A database's statement timeout is the server's: one that stands still (stopped, swapping, behind a link that
swallows) does not keep it, and its kernel goes on acknowledging, so no timeout of TCP ends the wait either.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


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
        timer = threading.Timer(seconds, _break_off, (own, wait))
        timer.daemon = True
        timer.start()
        try:
            yield wait
        finally:
            timer.cancel()
            timer.join()


def _break_off(own: socket.socket, wait: Wait) -> None:
    wait.over = True
    with suppress(OSError):  # it is gone already
        own.shutdown(socket.SHUT_RDWR)
