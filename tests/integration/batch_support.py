"""Runs of the batch layer in any process: the product's, over an archive that the test wrote; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from infra.settings.settings import Settings
from stream_jobs.app.database import Database
from stream_jobs.reprocess import work
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.plan import Span
from stream_jobs.reprocess.runs import Counts

PATIENCE_S = 120.0
"""For a transaction: a starved machine is not what is tested here."""


@dataclass(frozen=True, slots=True)
class Given:
    """A run over ``span``, long after it, that writes to ``url``."""

    settings: Settings
    url: str
    span: Span

    @property
    def closed_ms(self) -> int:
        return self.span.until_ms + 3_600_000

    @contextmanager
    def tools(self) -> Iterator[work.Tools]:
        """A connection of its own."""
        stop = threading.Event()
        database = Database(self.url, "recompute", stop, PATIENCE_S)
        try:
            yield work.Tools(self.settings, database, self.url, stop, Feeder(self.settings))
        finally:
            database.close()


def recompute(given: Given) -> Counts:
    """The command's run."""
    with given.tools() as tools:
        return work.recompute(tools, given.span, given.closed_ms)[1]


def by_night(given: Given) -> Counts | None:
    """The nightly run, in the hour in which it is due; None where nothing is."""
    now = datetime.now(UTC)
    terms = given.settings.recompute.model_copy(update={"hour_utc": now.hour})
    settings = given.settings.model_copy(update={"recompute": terms})
    with Given(settings, given.url, given.span).tools() as tools:
        return work.Nightly(tools, lambda: given.closed_ms, lambda: now)()


def repair(given: Given) -> int:
    """A round of the task `repair`."""
    with given.tools() as tools:
        return work.Repair(given.settings, tools.database, lambda: given.closed_ms, tools.stop)()
