"""Retention: old chunks go, by table and setting, where TimescaleDB's license has no policy for a table."""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog

from infra.settings.sections import Retention
from stream_jobs.app.database import Database, fetch

EXPIRE: Final = "SELECT odograph.expire(%(table)s, %(days)s)"
FORGET: Final = "SELECT odograph.forget_listed()"

log = structlog.get_logger("stream_jobs.maintenance.retention")


def drop_expired(database: Database, terms: Retention) -> dict[str, int]:
    """Drop what the settings say; chunks dropped by table, where any were. Done again it drops no more."""
    dropped = {}
    for table, days in terms.days_by_table().items():
        values = {"table": table, "days": days}  # 0 days: kept for ever
        chunks = database.run(partial(fetch, statement=EXPIRE, parameters=values))[0][0]
        if chunks:
            dropped[table] = chunks
    database.run(partial(fetch, statement=FORGET))
    if dropped:
        log.info("old chunks dropped", **dropped)
    return dropped
