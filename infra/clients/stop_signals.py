"""Ctrl-C and SIGTERM as an event that threads can wait for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that either signal sets; handlers are as before at the end. Main thread only."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
