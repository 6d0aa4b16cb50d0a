"""Waiting for what others do, with a deadline."""

import time
from collections.abc import Iterator


def looks(limit_s: float, pause_s: float) -> Iterator[bool]:
    """Look at once, and again after each pause until the time is over; whether it is the last look."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        yield False
        time.sleep(pause_s)
    yield True
