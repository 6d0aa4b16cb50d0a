"""Asks the four witnesses and puts their figures into one ledger."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from infra.settings.settings import Endpoints
from infra.sql import figures
from infra.stack.log_ends import LogEnds
from stream_jobs.audit import ledger
from stream_jobs.audit.ledger import Ledger

POLL_S = 1.0


def take(home: Path, endpoints: Endpoints, ends: LogEnds) -> Ledger:
    """The ledger over everything since this home's start; raises ServiceError.

    The figures are read one after the other: while data flows, they differ by what is on its way.
    """
    edge = ledger.edge_counts(home)
    archive = ledger.archive_counts(home, ends.topic("telemetry"))
    database = figures.ledger(endpoints.db_ingest_url)
    again = ledger.dead_archived(home, figures.dead_frames(endpoints.db_ingest_url))
    found = ledger.balance(edge, ends.appended("telemetry"), archive, database, again)
    if found.missing_in_archive or found.missing_in_windows >= 0:
        return found
    own = min(-found.missing_in_windows, ledger.used_again(home))  # frames, though their numbers were used
    return replace(found, duplicate=found.duplicate - own)


def settled(home: Path, endpoints: Endpoints, ends: LogEnds, deadline_s: float) -> Ledger:
    """The ledger once the archive holds the log and two readings agree, or as it is at the deadline."""
    end = time.monotonic() + deadline_s
    last = take(home, endpoints, ends)
    while True:
        time.sleep(POLL_S)
        now = take(home, endpoints, ends)
        quiet = now == last and now.missing_in_archive == 0 and now.missing_in_windows == 0
        if quiet or time.monotonic() > end:
            return now
        last = now
