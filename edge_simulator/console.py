"""What commands of the simulator print (lines on stderr, results on stdout), and how they are stopped."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson


def now_ms() -> int:
    """The wall clock, ms since 1970."""
    return time.time_ns() // 1_000_000


def say(line: str) -> None:
    """A line for people, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(summary: Mapping[str, Any], as_json: bool) -> None:
    """A run's summary: one JSON object, or a line a key."""
    if as_json:
        sys.stdout.write(orjson.dumps(summary).decode() + "\n")
        return
    for key, value in summary.items():
        if key == "drives":
            for drive in value:
                sys.stdout.write("drive " + "  ".join(f"{k} {v}" for k, v in drive.items()) + "\n")
        else:
            sys.stdout.write(f"{key}  {value}\n")


class StopFlag:
    """True once Ctrl-C or SIGTERM came; a second one ends at once, as usual."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._stopped = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether a stop was asked for."""
        return self._stopped

    def __enter__(self) -> StopFlag:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def _stop(self, number: int, _frame: Any) -> None:
        self._stopped = True
        signal.signal(number, self._before[number])
        self._say("stopping: finishing what is in flight")

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
