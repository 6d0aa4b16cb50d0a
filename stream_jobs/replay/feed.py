"""Feeding a run: slices into its topic, never too far ahead of its jobs.

Spark's watermark is the newest time of all partitions: a backlog in which one partition runs ahead of another
would push it past unread frames, and they would be dropped. So a slice goes in only when the jobs have taken
all but the last few before it, and the run's watermark waits for as much time as those hold.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra.contract.errors import ServiceError
from stream_jobs.replay.records import Bounds, Slice

MAX_SPEED: Final = Bounds(records=50_000, span_ms=1_800_000)
OUTSTANDING: Final = Bounds(records=2 * MAX_SPEED.records, span_ms=2 * MAX_SPEED.span_ms)
"""What the jobs may not have taken yet, the slice that is written included; one slice always may."""
PACED_MS: Final = 1_000
"""At a given speed a slice is what is due in so much time."""
POLL_S: Final = 0.1
LINE_S: Final = 5.0
RATE_S: Final = 60.0
"""The rate, and so the time to go, is that of so long a time before now."""

Ends = tuple[int, ...]
"""An offset by partition."""


def bounds_of(speed: float | None) -> Bounds:
    """What a slice may hold at a speed (None: as fast as it goes)."""
    if speed is None:
        return MAX_SPEED
    return Bounds(MAX_SPEED.records, max(1, min(MAX_SPEED.span_ms, int(PACED_MS * speed))))


def skew_s() -> int:
    """How far receive times that are unread may lie behind those that are read, s."""
    return OUTSTANDING.span_ms // 1000


def needed(plan: Sequence[Slice], outstanding: Bounds = OUTSTANDING) -> list[int]:
    """How many slices the jobs must have taken before each is written.

    Late ones jump ahead in receive time: they wait for all that is not late.
    """
    needs: list[int] = []
    first = 0
    for place, part in enumerate(plan):
        if part.late and not plan[first].late:
            first = place
        while first < place and not _fits(plan[first : place + 1], outstanding):
            first += 1
        needs.append(first)
    return needs


def _fits(parts: Sequence[Slice], outstanding: Bounds) -> bool:
    span_ms = 0 if parts[-1].late else parts[-1].received.until_ms - parts[0].received.since_ms
    return span_ms <= outstanding.span_ms and sum(p.records for p in parts) <= outstanding.records


@dataclass(frozen=True, slots=True)
class Feed:
    """``read`` and ``write`` a slice, skipping what is there; ``taken``: what the jobs have; ``watch``: fails
    where they do; ``show`` gets what was taken and the slice that is due.
    """

    read: Callable[[Slice], pa.Table]
    write: Callable[[pa.Table, Ends], None]
    taken: Callable[[], Ends | None]
    watch: Callable[[], None]
    show: Callable[[int, Slice], None]
    stop: threading.Event

    def run(self, plan: Sequence[Slice], there: Ends, speed: float | None) -> None:
        """Write all slices of ``plan``; ``there``: so many records of each partition are written already.

        Raises ServiceError when it is stopped: doing it again goes on where it ended.
        """
        counts = np.array([(0,) * len(there), *(part.by_partition for part in plan)], np.int64)
        ends: list[Ends] = [tuple(row) for row in counts.cumsum(axis=0).tolist()]
        needs = needed(plan)
        begun_s, first_ms = time.monotonic(), plan[0].received.since_ms if plan else 0
        for place, part in enumerate(plan):
            self._look(0.0)
            skip = written(ends[place], part.by_partition, there)
            if skip == part.by_partition:
                begun_s, first_ms = time.monotonic(), part.received.until_ms
                continue
            if needs[place]:
                self._wait(ends[needs[place]], part)
            if speed is not None and not part.late:
                self._pause(begun_s + (part.received.since_ms - first_ms) / 1000 / speed, part)
            self.write(self.read(part), skip)

    def _wait(self, until: Ends, part: Slice) -> None:
        while True:
            now = self.taken()
            self.show(0 if now is None else sum(now), part)
            if now is not None and all(have >= want for have, want in zip(now, until, strict=True)):
                return
            self._look(POLL_S)

    def _pause(self, until_s: float, part: Slice) -> None:
        while time.monotonic() < until_s:
            self.show(sum(self.taken() or ()), part)
            self._look(POLL_S)

    def _look(self, for_s: float) -> None:
        self.watch()
        if self.stop.wait(for_s):
            raise ServiceError("stopped; the same command again goes on from here")


def written(before: Ends, counts: Ends, there: Ends) -> Ends:
    """How many records of each partition of a slice are there, when ``before`` were written before it."""
    return tuple(
        min(max(have - earlier, 0), count) for earlier, count, have in zip(before, counts, there, strict=True)
    )


class Bar:
    """Records that are through, of ``total``: a bar on a terminal, else a line now and then; on stderr."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._seen: list[tuple[float, int]] = []
        self._shown_s = time.monotonic()
        self._progress: Progress | None = None
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task("", total=self._total)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: int, part: Slice) -> None:
        """``done`` records are through; ``part``: what is replayed now."""
        at = f"{part.received.since:%Y-%m-%d %H:%M}Z"
        now = time.monotonic()
        if not self._seen or now - self._seen[-1][0] >= 1:
            self._seen = [(s, n) for s, n in self._seen if now - s < RATE_S] + [(now, done)]
        text = line(self._total, done, at, self._seen)
        if self._progress is not None:
            self._progress.update(self._task, completed=done, description=text)
        elif now - self._shown_s >= LINE_S:
            self._shown_s = now
            sys.stderr.write(text + "\n")


def line(total: int, done: int, at: str, seen: list[tuple[float, int]]) -> str:
    """What is shown; ``seen``: moments [s] and records done by then."""
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    rate = (last - first) / (last_s - first_s) if last_s > first_s else 0.0
    to_go = "time to go not known yet"
    if rate > 0:
        minutes, rest = divmod(round((total - done) / rate), 60)
        to_go = f"{minutes} min {rest} s to go" if minutes else f"{rest} s to go"
    return f"{at}  {100 * done / total:.1f} %  {done} of {total} records  {rate:.0f} records/s  {to_go}"
