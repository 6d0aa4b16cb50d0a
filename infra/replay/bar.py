"""How far a replay is: a bar on a terminal, else a line now and then; both on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINE_S: Final = 5.0
RATE_S: Final = 60.0
"""The rate, and so the time to go, is that of so long a time before now."""


class Bar:
    """Records taken by the jobs, of ``total``."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._seen: list[tuple[float, int]] = []
        self._said_s = time.monotonic()
        self._progress: Progress | None = None
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task("", total=self._total)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: int, at: str) -> None:
        """``done`` records are through; ``at``: the moment that is replayed."""
        now = time.monotonic()
        if not self._seen or now - self._seen[-1][0] >= 1:
            self._seen = [(s, n) for s, n in self._seen if now - s < RATE_S] + [(now, done)]
        text = line(self._total, done, at, self._seen)
        if self._progress is not None:
            self._progress.update(self._task, completed=done, description=text)
        elif now - self._said_s >= LINE_S:
            self._said_s = now
            sys.stderr.write(text + "\n")


def line(total: int, done: int, at: str, seen: list[tuple[float, int]]) -> str:
    """What is shown; ``seen``: moments [s] and records done by then."""
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    rate = (last - first) / (last_s - first_s) if last_s > first_s else 0.0
    to_go = f"{_duration((total - done) / rate)} to go" if rate > 0 else "time to go not known yet"
    return f"{at}  {100 * done / total:.1f} %  {done} of {total} records  {rate:.0f} records/s  {to_go}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
