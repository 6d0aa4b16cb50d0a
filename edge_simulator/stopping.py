"""Ctrl-C and SIGTERM as a flag that a run looks at."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any


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
