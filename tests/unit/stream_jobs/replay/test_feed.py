"""Feeding a run: how far it may run ahead of the jobs, and where it goes on after it was killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest

from infra.contract.errors import ServiceError
from infra.contract.topics import HEADER_AGAIN, HEADER_RECEIVED_MS
from stream_jobs.replay import feed
from stream_jobs.replay.feed import OUTSTANDING, Ends, bounds_of, line, may_wait
from stream_jobs.replay.records import Bounds, Slice, Span

HOUR_MS = 3_600_000
PLAN = [Slice(Span(at, at + 10), False, (3, 1)) for at in range(0, 50, 10)]


class Jobs:
    """Take slices one at a time, whenever they are asked."""

    def __init__(self, there: Ends = (0, 0)) -> None:
        self.in_log = list(there)
        self.taken = [0, 0]
        self.most_ahead = 0
        self.skipped: list[Ends] = []

    def read(self, part: Slice) -> pa.Table:
        return pa.table({"partition": [0] * part.by_partition[0] + [1] * part.by_partition[1]})

    def write(self, rows: pa.Table, skip: Ends) -> None:
        partitions = rows["partition"].to_pylist()
        self.skipped.append(skip)
        for partition in (0, 1):
            self.in_log[partition] += partitions.count(partition) - skip[partition]
        self.most_ahead = max(self.most_ahead, sum(self.in_log) - sum(self.taken))

    def now(self) -> Ends:
        self.taken = [min(have, taken + 2) for have, taken in zip(self.in_log, self.taken, strict=True)]
        return self.taken[0], self.taken[1]

    def feed(self, plan: list[Slice], there: Ends, speed: float | None = None) -> None:
        show, stop = lambda *_: None, threading.Event()
        feed.feed(plan, there, speed, self.read, self.write, self.now, show, stop)


def test_no_more_is_ahead_of_the_jobs_than_may_be() -> None:
    long = [Slice(Span(at * HOUR_MS, (at + 1) * HOUR_MS), False, (3, 1)) for at in range(5)]
    jobs = Jobs()
    jobs.feed(long, (0, 0))
    assert jobs.in_log == [15, 5]
    assert jobs.most_ahead == 4  # an hour at most is outstanding: one slice


def test_what_must_be_taken_before_a_slice_is_bounded_in_time_and_in_records() -> None:
    def needed(plan: list[Slice], most: Bounds = OUTSTANDING) -> list[int]:
        """How many slices must be taken before each is written."""
        ends = range(1, len(plan) + 1)
        return [next(first for first in range(end) if may_wait(plan[first:end], most)) for end in ends]

    assert needed(PLAN) == [0, 0, 0, 0, 0]
    assert needed(PLAN, Bounds(records=8, span_ms=1000)) == [0, 0, 1, 2, 3]
    assert needed(PLAN, Bounds(records=100, span_ms=30)) == [0, 0, 0, 1, 2]
    late = [Slice(Span(at, at + 1), True, (3, 1)) for at in (10_000, 90_000, 500_000)]
    assert needed([*PLAN[:2], *late], Bounds(records=8, span_ms=30)) == [0, 0, 2, 2, 3]


def test_what_a_killed_feed_wrote_is_not_written_again() -> None:
    there = (7, 3)  # of 3 + 1 records a slice: two slices, then 1 of partition 0 and 1 of partition 1
    jobs = Jobs(there)
    jobs.feed(PLAN, there)
    assert jobs.skipped == [(1, 1), (0, 0), (0, 0)]
    assert jobs.in_log == [15, 5]


def test_a_feed_that_is_stopped_says_that_it_can_go_on() -> None:
    stop = threading.Event()
    stop.set()
    jobs = Jobs()
    with pytest.raises(ServiceError, match="goes on from here"):
        feed.feed(PLAN, (0, 0), 0.001, jobs.read, jobs.write, lambda: None, lambda *_: None, stop)


def test_the_watermark_waits_for_as_long_as_may_be_outstanding() -> None:
    assert OUTSTANDING.span_ms == 3_600_000
    assert bounds_of(None).span_ms == 1_800_000
    assert bounds_of(60.0).span_ms == 60_000


def test_a_time_without_records_is_passed_over_but_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a thousandfold speed: a minute is 60 ms, the month between two drives would be 45 min."""
    month = [Slice(Span(at, at + 1000), False, (1, 0)) for at in (0, 30 * 24 * HOUR_MS)]
    clock = [0.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: clock.append(clock[-1] + 0.01) or clock[-1])
    jobs = Jobs()
    monkeypatch.setattr(feed, "POLL_S", 0.0)
    jobs.feed(month, (0, 0), 1000.0)
    assert jobs.in_log == [2, 0]
    assert 0.061 <= clock[-1] < 0.2


def test_without_a_terminal_progress_says_once_that_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: clock[0])
    with feed.progress(100) as show:
        for done in (0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50):
            clock[0] += 3
            show(done, PLAN[0])
    begun, first, *more = capsys.readouterr().err.splitlines()
    assert begun == feed.FIRST
    assert first.startswith("1970-01-01 00:00Z  10.0 %  10 of 100 records")
    assert [text[19:25] for text in more] == ["50.0 %"]


def test_the_line_tells_share_rate_and_time_to_go() -> None:
    assert line(8_000, 2_000, "2026-11-20 06:00Z", 200.0) == (
        "2026-11-20 06:00Z  25.0 %  2000 of 8000 records  200 records/s  30 s to go"
    )
    assert line(8_000, 0, "t", 0.0).endswith("time to go not known yet")


class CrashLog:
    """A log of one partition after an erasure: a young record, then older ones that were appended again."""

    records = ((900, b"young", []), (100, b"before", [HEADER_AGAIN]), (200, b"of the day", [HEADER_AGAIN]))

    def __init__(self, _bootstrap: str) -> None:
        """Nothing to connect to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def ends(self, _topic: str) -> Ends:
        return (0,)

    def partitions(self, _topic: str) -> int:
        return 1

    def bounds(self, _topic: str, _partition: int) -> tuple[int, int]:
        return 0, len(self.records)

    def since(self, _topic: str, _partition: int, at_ms: int) -> int:
        return next(k for k, record in enumerate(self.records) if record[0] >= at_ms)

    def messages(self, _topic: str, _partition: int, begin: int, end: int) -> Iterator[Any]:
        for at_ms, value, more in self.records[begin:end]:
            headers = [(HEADER_RECEIVED_MS, b"%d" % at_ms), *((name, b"1") for name in more)]
            timestamp, held = (1, at_ms), (b"V", value, headers)
            key, body, named = ((lambda each=each: each) for each in held)
            yield SimpleNamespace(timestamp=lambda at=timestamp: at, key=key, value=body, headers=named)


def test_crash_records_that_an_erasure_appended_again_are_in_the_run_as_if_they_had_come_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[Any] = []
    writer = SimpleNamespace(
        write=lambda records, _skip: written.extend(records), sent=SimpleNamespace(total=lambda: len(written))
    )
    monkeypatch.setattr(feed, "Log", CrashLog)
    monkeypatch.setattr(feed, "Writer", lambda *_: writer)
    assert feed.copy_crashes("", "crash", "run.crash", 150, 300, ()) == 1
    assert written == [(0, b"V", b"of the day", 200, [(HEADER_RECEIVED_MS, b"200")])]
    assert feed.copy_crashes("", "crash", "run.crash", 0, 150, ("another",)) == 1, "nothing more"
