"""F19: the stream application starts cold before a log that is full already."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from infra.clients.db import session
from infra.contract.topics import kafka_topic
from infra.stack.processes import memory_mb
from load_tests.bench.ticks import slope_per_s
from load_tests.drills.aggregates import digested, start_jobs, windows
from load_tests.drills.evidence import Log
from load_tests.drills.flow import Load
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise, Verdict
from load_tests.filling import Filling, fill, vehicle

CATCH_UP_S: Final = 3600.0
LOOK_S: Final = 2.0
BESIDE_HEAP_MB: Final = 2048.0
"""What it may hold beside the driver's heap: six Python processes 1,024; Java's code, classes and buffers,
and RocksDB (some 150 of them with 10,000 vehicles) 1,024.
"""
ARCHIVE_FACTOR: Final = 5
"""The archive takes so many times ``max_offsets``, as stream_jobs/README.md says."""
LARGEST: Final = "SELECT query, max(input_rows) FROM odograph.query_progress GROUP BY query"
DROPPED: Final = "SELECT coalesce(sum(dropped_late), 0) FROM odograph.query_progress"


@dataclass(slots=True)
class Memory:
    """Looks at the memory of a program and its children (PSS) while its ``with`` block runs."""

    site: Site
    name: str
    at_s: list[float] = field(default_factory=list)
    mb: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Memory:
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            pid = self.site.pid(self.name)
            if pid:
                self.at_s.append(time.monotonic())
                self.mb.append(memory_mb(pid))

    def trend_mb_per_min(self) -> float:
        """Of the second half."""
        half = len(self.mb) // 2
        return round(60 * slope_per_s(self.at_s[half:], self.mb[half:]), 1) if half else 0.0


def f19(site: Site, load: Load) -> Verdict:
    """``rate`` vehicles have sent a frame a second for ``duration_s``, and nobody has read any of it."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    filling = Filling(int(load.rate * load.duration_s), int(load.rate), scattered=False)
    topic = kafka_topic(site.settings.kafka.prefix, "telemetry")
    begun = time.monotonic()
    fill(site.endpoints.kafka_bootstrap, topic, filling)
    filled_s = time.monotonic() - begun
    begun = time.monotonic()
    with Memory(site, "jobs") as memory:
        start_jobs(site)
        digested(site, CATCH_UP_S)
        caught_up_s = time.monotonic() - begun
    equal = windows(site, log, [vehicle(number) for number in range(filling.vehicles)])
    largest, dropped = _progress(site)
    bound_mb = site.settings.jobs.driver_mb + BESIDE_HEAP_MB
    peak_mb = max(memory.mb, default=0.0)
    at_most = site.settings.jobs.max_offsets
    allowed = {"telemetry": at_most, "archive": ARCHIVE_FACTOR * at_most}
    promises = (
        Promise("memory is bounded", 0 < peak_mb <= bound_mb, f"{peak_mb:.0f} MB of {bound_mb:.0f}"),
        Promise("no batch is larger than allowed",
                all(0 < largest.get(query, 0) <= most for query, most in allowed.items()),
                ", ".join(f"{query} {largest.get(query, 0)} of {most}" for query, most in allowed.items())),
        Promise("no frame comes when its windows are closed", dropped == 0, f"{dropped}"),
        equal.promise(),
    )  # fmt: skip
    figures: dict[str, Any] = {
        "frames": log.appended("telemetry"),
        "vehicles": filling.vehicles,
        "filled_s": round(filled_s, 1),
        "caught_up_s": round(caught_up_s, 1),
        "frames_per_s": round(filling.frames / caught_up_s),
        "peak_mb": round(peak_mb),
        "trend_mb_per_min": memory.trend_mb_per_min(),
    }
    return Verdict("f19", promises, figures)


def _progress(site: Site) -> tuple[dict[str, int], int]:
    """The largest batch of each query, and frames whose windows were closed."""
    with session(site.endpoints.db_owner_url) as connection:
        largest = {str(query): int(rows) for query, rows in connection.execute(LARGEST)}
        row = connection.execute(DROPPED).fetchone()
    return largest, int(row[0]) if row else 0
