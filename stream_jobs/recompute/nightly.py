"""What came late, recomputed once a day without being asked: a periodic task of the stream application.

The window repair has mostly been there before. What is left for the night are alerts, which need all of a
vehicle's frames in order, and the proof: windows that late frames touched are compared once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from pyspark.sql import SparkSession

from infra.archive.layout import HOUR_MS
from infra.contract.settings import Settings
from stream_jobs import repair_plan
from stream_jobs.batch import GRACE_MS
from stream_jobs.database import Database, fetch
from stream_jobs.recompute import runs, slices, vehicle_work
from stream_jobs.recompute.runs import Counts
from stream_jobs.recompute.slices import Span
from stream_jobs.recompute.work import Tools, close, restate_vehicles, restate_windows

_LAST: Final = """
SELECT max(late_until), max(started_at) FROM odograph.recompute_run
WHERE kind = 'nightly' AND finished_at IS NOT NULL
"""
_UNFINISHED: Final = """
SELECT (extract(epoch FROM from_at) * 1000)::bigint, (extract(epoch FROM until_at) * 1000)::bigint, late_until
FROM odograph.recompute_run WHERE kind = 'nightly' AND finished_at IS NULL ORDER BY run_no DESC LIMIT 1
"""
_TOUCHED: Final = """
SELECT DISTINCT start FROM odograph.late_frame l, generate_series(
    l.t0_ms / %(length_ms)s * %(length_ms)s, l.t0_ms + l.span_ms, %(length_ms)s) AS start
WHERE l.received_at >= %(since)s AND l.received_at < %(until)s AND start + %(length_ms)s <= %(closed_ms)s
ORDER BY start
"""

log = structlog.get_logger("stream_jobs.recompute")


class Nightly:
    """Runs once a day from ``recompute.hour_utc`` on; ``closed_ms`` says up to when all is taken in."""

    def __init__(
        self, spark: SparkSession, settings: Settings, database: Database, owner_url: str,
        closed_ms: Callable[[], int | None], stop: threading.Event,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._spark = spark
        self._settings = settings
        self._database = database
        self._owner_url = owner_url
        self._closed_ms = closed_ms
        self._stop = stop
        self._now = now

    def __call__(self) -> Counts | None:
        """Do what is due; what it changed, None where nothing is due. Raises ArchiveError."""
        closed_ms = self._closed_ms()
        if closed_ms is None:
            return None
        last_until, last_at = self._database.run(lambda c: fetch(c, _LAST))[0]
        unfinished = self._database.run(lambda c: fetch(c, _UNFINISHED))
        if not unfinished and not due(self._now(), last_at, self._settings.recompute.hour_utc):
            return None
        return self._run(closed_ms, last_until, unfinished)

    def _run(self, closed_ms: int, last_until: datetime | None, unfinished: list[tuple[Any, ...]]) -> Counts:
        grid = repair_plan.grid_of(self._settings)
        late_until = unfinished[0][2] if unfinished else runs.moment(closed_ms)
        values = {
            "length_ms": grid.road_window_ms, "since": last_until or _EVER, "until": late_until,
            "closed_ms": slices.closed_until_ms(closed_ms, grid, GRACE_MS),
        }  # fmt: skip
        starts = [row[0] for row in self._database.run(lambda c: fetch(c, _TOUCHED, values))]
        span = Span(starts[0], starts[-1] + grid.road_window_ms) if starts else Span(closed_ms, closed_ms)
        if unfinished:
            span = Span(*unfinished[0][:2])
        run = self._database.run(lambda c: runs.begin(c, runs.NIGHTLY, span, late_until))
        tools = Tools(self._session(), self._settings, self._database, self._owner_url, self._stop)
        restate_windows(tools, run, starts)
        lead_ms = self._settings.recompute.lead_h * HOUR_MS
        restate_vehicles(tools, run, closed_ms, lambda c: vehicle_work.of_behind(c, closed_ms, lead_ms))
        counts = close(tools, run)
        log.info("what came late is recomputed", run=run.run_no, **asdict(counts))
        return counts

    def _session(self) -> SparkSession:
        """A session of its own: rules switch ANSI mode off while they are planned, and parts are other."""
        session = self._spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(self._settings.recompute.parts))
        return session


_EVER: Final = datetime(2000, 1, 1, tzinfo=UTC)


def due(now: datetime, last_at: datetime | None, hour_utc: int) -> bool:
    """Whether the hour has come since the last run; without a last one, in the hour itself."""
    if hour_utc < 0:
        return False
    hour = now.astimezone(UTC).replace(hour=hour_utc, minute=0, second=0, microsecond=0)
    if last_at is None:
        return hour <= now < hour + timedelta(hours=1)
    newest = hour if hour <= now else hour - timedelta(days=1)
    return last_at < newest
