"""Feeding a run: slices into its topic, never too far ahead of its jobs.

Spark's watermark is the newest time of all partitions: a backlog in which one partition runs ahead of another
would push it past unread frames, and they would be dropped. So a slice goes in only when the jobs have taken
all but the last few before it, and the run's watermark waits for as much time as those hold.
"""

from __future__ import annotations

import operator
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra.contract.errors import ServiceError
from stream_jobs.replay.records import Bounds, Slice

MAX_SPEED: Final = Bounds(records=50_000, span_ms=1_800_000)
OUTSTANDING: Final = Bounds(records=2 * MAX_SPEED.records, span_ms=2 * MAX_SPEED.span_ms)
"""What the jobs may not have taken yet, the slice that is written included; one slice always may. So far may
receive times that are unread lie behind those that are read.
"""
PACED_MS: Final = 1_000
"""At a given speed a slice is what is due in so much time."""
POLL_S: Final = 0.1
LINE_S: Final = 10.0
IDLE_MS: Final = 60_000
"""A longer time in which nothing was received is passed over at a given speed, but for so much of it."""
RATE_S: Final = 60.0
"""The rate, and so the time to go, is that of so long a time before now."""
FIRST: Final = "the first records are on their way: Spark compiles its queries with them"
STOPPED: Final = "stopped; the same command again goes on from here"

Ends = tuple[int, ...]
"""An offset by partition."""
Show = Callable[[int, Slice], None]
"""Gets how many records are through and what is replayed now."""


def bounds_of(speed: float | None) -> Bounds:
    """What a slice may hold at a speed (None: as fast as it goes)."""
    if speed is None:
        return MAX_SPEED
    return Bounds(MAX_SPEED.records, max(1, min(MAX_SPEED.span_ms, int(PACED_MS * speed))))


def needed(plan: Sequence[Slice], outstanding: Bounds = OUTSTANDING) -> list[int]:
    """How many slices the jobs must have taken before each is written.

    Late ones jump ahead in receive time: they wait for all that is not late.
    """

    def fits(parts: Sequence[Slice]) -> bool:
        span_ms = 0 if parts[-1].late else parts[-1].received.until_ms - parts[0].received.since_ms
        return span_ms <= outstanding.span_ms and sum(p.records for p in parts) <= outstanding.records

    needs: list[int] = []
    first = 0
    for place, part in enumerate(plan):
        if part.late and not plan[first].late:
            first = place
        while first < place and not fits(plan[first : place + 1]):
            first += 1
        needs.append(first)
    return needs


@dataclass(frozen=True, slots=True)
class Feed:
    """``read`` and ``write`` a slice, skipping what is there; ``taken``: what the jobs have; ``watch``: fails
    where they do; ``show`` gets what was taken and the slice that is due.
    """

    read: Callable[[Slice], pa.Table]
    write: Callable[[pa.Table, Ends], None]
    taken: Callable[[], Ends | None]
    watch: Callable[[], None]
    show: Show
    stop: threading.Event

    def run(self, plan: Sequence[Slice], there: Ends, speed: float | None) -> None:
        """Write all slices of ``plan``; ``there``: so many records of each partition are written already.

        Raises ServiceError when it is stopped: doing it again goes on where it ended.
        """
        counts = np.array([(0,) * len(there), *(part.by_partition for part in plan)], np.int64)
        ends = counts.cumsum(axis=0)
        needs = needed(plan)
        begun_s, place_ms, last_ms = time.monotonic(), 0, plan[0].received.since_ms if plan else 0
        for place, part in enumerate(plan):
            self._look(0.0)
            skip = tuple(np.clip(np.array(there) - ends[place], 0, counts[place + 1]).tolist())
            if skip == part.by_partition:
                begun_s, place_ms, last_ms = time.monotonic(), 0, part.received.until_ms
                continue
            wanted = ends[needs[place]].tolist() if needs[place] else []
            due_s = begun_s
            if speed is not None and not part.late:
                place_ms += min(IDLE_MS, part.received.since_ms - last_ms)
                due_s += place_ms / 1000 / speed
                place_ms += part.received.until_ms - part.received.since_ms
                last_ms = part.received.until_ms
            self._wait(wanted, due_s, part)
            self.write(self.read(part), skip)

    def _wait(self, wanted: Sequence[int], due_s: float, part: Slice) -> None:
        """Until the jobs have taken ``wanted`` and the slice is due."""
        while True:
            now = self.taken()
            self.show(sum(now or ()), part)
            behind = wanted and (now is None or any(map(operator.lt, now, wanted)))
            if not behind and time.monotonic() >= due_s:
                return
            self._look(POLL_S)

    def _look(self, for_s: float) -> None:
        self.watch()
        if self.stop.wait(for_s):
            raise ServiceError(STOPPED)


@contextmanager
def progress(total: int) -> Iterator[Show]:
    """Shows records that are through, of ``total``, on stderr: a bar on a terminal, else lines."""
    terminal, seen, shown_s = sys.stderr.isatty(), list[tuple[float, int]](), -1.0
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not terminal)
    task = bar.add_task("", total=max(1, total))

    def show(done: int, part: Slice) -> None:
        nonlocal seen, shown_s
        now = time.monotonic()
        if not seen or not done:
            seen = [(now, done)]
        elif now - seen[-1][0] >= 1:
            seen = [(s, n) for s, n in seen if now - s < RATE_S] + [(now, done)]
        text = line(max(1, total), done, f"{part.received.since:%Y-%m-%d %H:%M}Z", seen) if done else FIRST
        bar.update(task, completed=done, description=text)
        if not terminal and (now - shown_s >= LINE_S if done else shown_s < 0):
            shown_s = now if done else 0.0
            sys.stderr.write(text + "\n")

    with bar:
        yield show


def line(total: int, done: int, at: str, seen: list[tuple[float, int]]) -> str:
    """What is shown; ``seen``: moments [s] and records done by then."""
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    rate = (last - first) / (last_s - first_s) if last_s > first_s else 0.0
    to_go = "time to go not known yet"
    if rate > 0:
        minutes, rest = divmod(round((total - done) / rate), 60)
        to_go = f"{minutes} min {rest} s to go" if minutes else f"{rest} s to go"
    return f"{at}  {100 * done / total:.1f} %  {done} of {total} records  {rate:.0f} records/s  {to_go}"
