"""Feeding a run: slices into its topic, never too far ahead of its jobs (README, "Never too far ahead")."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra.clients import kafka
from infra.contract.errors import ServiceError
from infra.contract.frame import SCHEMA
from infra.contract.topics import (
    HEADER_AGAIN,
    HEADER_FIRST_RECEIVED_MS,
    HEADER_RECEIVED_MS,
    HEADER_SCHEMA,
    partition_of,
)
from stream_jobs.replay.records import AT_ONCE, Bounds, Log, Slice

FLUSH_S: Final = 60.0
_WRITE: Final[dict[str, Any]] = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 262_144,
    "queue.buffering.max.kbytes": 131_072,
    "message.timeout.ms": 60_000,
    "delivery.report.only.error": True,
}
_SCHEMA: Final = (HEADER_SCHEMA, b"%d" % SCHEMA)
MAX_SPEED: Final = Bounds(records=50_000, span_ms=1_800_000)
OUTSTANDING: Final = Bounds(records=2 * MAX_SPEED.records, span_ms=2 * MAX_SPEED.span_ms)
"""What the jobs may not have taken yet, the slice that is written included; one slice always may. So far may
receive times that are unread lie behind those that are read.
"""
PACED_MS: Final = 1_000  # at a given speed a slice is what is due in so much time
POLL_S: Final = 0.1
LINE_S: Final = 10.0
IDLE_MS: Final = 60_000  # of a longer time without receipts only so much passes at a given speed
RATE_S: Final = 60.0  # the rate, and so the time to go, is that of so long a time before now
FIRST: Final = "the first records are on their way: Spark compiles its queries with them"
STOPPED: Final = "stopped; the same command with its --run goes on from here"

Ends = tuple[int, ...]  # an offset by partition
Show = Callable[[int, Slice], None]  # gets how many records are through and what is replayed now
Out = tuple[int, Any, Any, int, list[tuple[str, Any]]]  # a record: partition, key, value, receipt, headers


class Writer:
    """Writes records of one topic, by partition ``sent`` so far; a new one begins where the last one ended,
    whatever ended it.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = Counter[int]()
        self._bootstrap, self._topic = bootstrap, topic
        self._failures: list[str] = []
        self._producer = kafka.producer(bootstrap, _WRITE)

    def rows(self, rows: pa.Table, skip: Sequence[int] = (), now_ms: int | None = None) -> None:
        """Rows of partition, key, received_ms, value; see ``write``.

        ``now_ms``: received then; the time they had goes into a header.
        """

        def wanted() -> Iterator[Out]:
            columns = rows.select(("partition", "key", "value", "received_ms"))
            for batch in columns.to_batches(max_chunksize=AT_ONCE):
                for partition, key, value, at_ms in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    is_now = at_ms if now_ms is None else now_ms
                    headers = [(HEADER_RECEIVED_MS, b"%d" % is_now), _SCHEMA]
                    if now_ms is not None:
                        headers.append((HEADER_FIRST_RECEIVED_MS, b"%d" % at_ms))
                    yield partition, key, value, is_now, headers

        self.write(wanted(), skip)

    def write(self, records: Iterable[Out], skip: Sequence[int] = ()) -> None:
        """Records in their order but the first ``skip`` of each partition, until Kafka has them all. Raises
        ServiceError.
        """
        sent, left = self.sent, dict(enumerate(skip))
        for partition, key, value, at_ms, headers in records:
            if left.get(partition, 0) > 0:
                left[partition] -= 1
                continue
            sent[partition] += 1
            kafka.produce(
                self._producer, self._topic, value, key, partition, timestamp=at_ms, headers=headers,
                on_delivery=lambda error, _: self._failures.append(str(error)),
            )  # fmt: skip
        unsent = self._producer.flush(FLUSH_S)
        if unsent or self._failures:
            why = self._failures[0] if self._failures else f"{unsent} records without an answer"
            raise ServiceError(f"Kafka {self._bootstrap}: {self._topic} does not take records: {why}")


def copy_crashes(
    bootstrap: str, source: str, target: str, since_ms: int, until_ms: int, vehicles: Collection[str]
) -> int:
    """Crash records of some vehicles (none: all), received in [since, until) by the log's times, into the
    run's topic, behind those that a killed copy left there; how many. Each goes where its key belongs: the
    topics may differ in partitions.

    What was appended again, when another vehicle's were erased, lies behind younger ones, and is news here.
    """
    writer = Writer(bootstrap, target)
    with Log(bootstrap) as log:
        there = log.ends(target)

        def wanted() -> Iterator[Out]:
            for origin in range(log.partitions(source)):
                begin, end = log.since(source, origin, since_ms), log.bounds(source, origin)[1]
                for m in log.messages(source, origin, begin, end):
                    key, at_ms = m.key() or b"", int(m.timestamp()[1])
                    is_wanted = not vehicles or key.decode(errors="replace") in vehicles
                    if since_ms <= at_ms < until_ms and is_wanted:
                        headers = [each for each in kafka.headers_of(m) if each[0] != HEADER_AGAIN]
                        yield partition_of(key, len(there)), m.key(), m.value(), at_ms, headers

        writer.write(wanted(), there)
    return writer.sent.total()


def bounds_of(speed: float | None) -> Bounds:
    """What a slice may hold at a speed (None: as fast as it goes)."""
    if speed is None:
        return MAX_SPEED
    return Bounds(MAX_SPEED.records, max(1, min(MAX_SPEED.span_ms, int(PACED_MS * speed))))


def may_wait(parts: Sequence[Slice], most: Bounds = OUTSTANDING) -> bool:
    """Whether the last of these slices may be written while the jobs have not taken those before it.

    Late ones jump ahead in receive time: they wait for all that is not late.
    """
    late = parts[-1].late
    span_ms = 0 if late else parts[-1].received.until_ms - parts[0].received.since_ms
    fits = span_ms <= most.span_ms and sum(part.records for part in parts) <= most.records
    return len(parts) == 1 or (fits and parts[0].late == late)


def feed(
    plan: Sequence[Slice], there: Ends, speed: float | None, read: Callable[[Slice], pa.Table],
    write: Callable[[pa.Table, Ends], object], taken: Callable[[], Ends | None], show: Show,
    stop: threading.Event,
) -> None:  # fmt: skip
    """``read`` and ``write`` all slices of ``plan``; ``there``: so many records of each partition are written
    already, and are skipped.

    ``taken``: what the jobs have, which fails where they do; ``show`` gets that and the slice that is due.
    Raises ServiceError when it is stopped: doing it again goes on where it ended.
    """
    counts = np.array([(0,) * len(there), *(part.by_partition for part in plan)], np.int64)
    ends = counts.cumsum(axis=0)
    begun_s, place_ms, last_ms = time.monotonic(), 0, plan[0].received.since_ms if plan else 0
    for place, part in enumerate(plan):
        skip = tuple(np.clip(np.array(there) - ends[place], 0, counts[place + 1]).tolist())
        if skip == part.by_partition:
            begun_s, place_ms, last_ms = time.monotonic(), 0, part.received.until_ms
            continue
        due_s = begun_s
        if speed is not None and not part.late:
            place_ms += min(IDLE_MS, part.received.since_ms - last_ms)
            due_s += place_ms / 1000 / speed
            place_ms += part.received.until_ms - part.received.since_ms
            last_ms = part.received.until_ms
        while not stop.is_set():
            now = taken()
            show(sum(now or ()), part)
            first = 0 if now is None else int((ends[1 : place + 1] <= now).all(axis=1).sum())
            if may_wait(plan[first : place + 1]) and time.monotonic() >= due_s:
                break
            stop.wait(POLL_S)
        else:
            raise ServiceError(STOPPED)
        write(read(part), skip)


@contextmanager
def progress(total: int) -> Iterator[Show]:
    """Shows records that are through, of ``total``, on stderr: a bar on a terminal, else lines."""
    terminal, shown_s = sys.stderr.isatty(), -1.0
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, disable=not terminal, speed_estimate_period=RATE_S,
        get_time=time.monotonic,
    )  # fmt: skip
    number = bar.add_task("", total=max(1, total))

    def show(done: int, part: Slice) -> None:
        nonlocal shown_s
        bar.update(number, completed=done)
        rate = bar.tasks[0].speed or 0.0
        text = line(max(1, total), done, f"{part.received.since:%Y-%m-%d %H:%M}Z", rate) if done else FIRST
        bar.update(number, description=text)
        now = time.monotonic()
        if not terminal and (now - shown_s >= LINE_S if done else shown_s < 0):
            shown_s = now if done else 0.0
            sys.stderr.write(text + "\n")

    with bar:
        yield show


def line(total: int, done: int, at: str, rate: float) -> str:
    """What is shown; ``rate``: records/s."""
    to_go = "time to go not known yet"
    if rate > 0:
        minutes, rest = divmod(round((total - done) / rate), 60)
        to_go = f"{minutes} min {rest} s to go" if minutes else f"{rest} s to go"
    return f"{at}  {100 * done / total:.1f} %  {done} of {total} records  {rate:.0f} records/s  {to_go}"
