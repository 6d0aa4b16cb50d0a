"""The periodic task ``cohort``: judges closed buckets once, in order of time.

Findings go to Kafka first; then residuals, memory and how far it got go to the database in one transaction.
A crash in between finds the same again, with the same ids, and loses nothing.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from infra.clients.db import sql_of
from infra.settings.sections import Cohort as Terms
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_rows
from stream_jobs.maintenance.rollups import COLUMNS
from stream_jobs.rules.cohort import judge
from stream_jobs.vehicles.rows import pack

SQL: Final = sql_of(__file__)
AT_ONCE: Final = 12  # buckets in one pass
DAY_MS: Final = 24 * judge.HOUR_MS

Write = Callable[[Sequence[tuple[str, bytes]]], None]
"""Puts records into the topic ``alerts`` and returns when they are there."""


class CohortUpdate:
    """Judges what has been closed since the last call; a window is ``wait_s`` after its end, by receipt."""

    def __init__(self, terms: Terms, database: Database, write: Write, wait_s: float) -> None:
        self._terms = terms
        self._wait_s = wait_s
        self._metrics = judge.load_metrics(terms.metrics)
        self._database = database
        self._write = write

    def __call__(self) -> int:
        """One pass; the number of findings and ends."""
        work = self._database.run(self._read)
        if work is None:
            return 0
        held_ms, from_ms, until_ms, buckets, states = work
        judged = judge.judge(buckets, from_ms, states, self._metrics, self._terms)
        now_ms = int(time.time() * 1000)
        rows = [judge.alert_row(news, now_ms) for news in judged.news]
        self._write([(row.vehicle_id, pack(row)) for row in rows])
        self._database.run(lambda connection: self._store(connection, held_ms, until_ms, judged))
        return len(rows)

    def _read(
        self, connection: Connection
    ) -> tuple[int | None, int, int, list[judge.Bucket], dict[tuple[str, str], judge.State]] | None:
        """What is closed and not judged yet: how far it got, from when, until when, buckets with an hour
        before them, states; None where no bucket has been closed.
        """
        terms = self._terms
        length_ms = terms.bucket_min * judge.MINUTE_MS
        [(final_ms, held_ms)] = fetch(connection, SQL["reached"], {"wait_s": self._wait_s})
        if final_ms is None:
            return None
        closed_ms = final_ms // length_ms * length_ms
        since_ms = closed_ms - terms.kept_days * DAY_MS if held_ms is None else held_ms
        [(first_ms,)] = fetch(connection, SQL["first"], {"from_ms": since_ms, "until_ms": closed_ms})
        from_ms = max(first_ms // length_ms * length_ms, -(-since_ms // length_ms) * length_ms)
        until_ms = min(closed_ms, from_ms + AT_ONCE * length_ms)
        [(open_ms,)] = fetch(connection, SQL["open"], {"from_ms": from_ms, "until_ms": until_ms})
        until_ms = open_ms // length_ms * length_ms
        if until_ms <= from_ms:
            return None
        past_ms = from_ms - judge.HOUR_MS + length_ms
        span = {"minutes": terms.bucket_min, "from_ms": past_ms, "until_ms": until_ms}
        sql = SQL["buckets"].format(rolled=rolled(), metrics=values(self._metrics).replace("%", "%%"))
        rows = fetch(connection, sql, span)
        buckets = [bucket_of(at_ms, [*own], terms) for at_ms, own in groupby(rows, itemgetter(0))]
        known = fetch(connection, SQL["states"])
        states = {(metric, vehicle): judge.State(*row) for metric, vehicle, *row in known}
        return held_ms, from_ms, until_ms, buckets, states

    def _store(self, connection: Connection, held_ms: int | None, until_ms: int, found: judge.Judged) -> None:
        """Write what was judged and how far that is, unless somebody else was there first."""
        moved = {"held_ms": held_ms, "until_ms": until_ms}
        if execute(connection, SQL["begin" if held_ms is None else "move"], moved) != 1:
            return
        if found.kept:
            rows = [_row(residual, state, self._terms.bucket_min) for residual, state in found.kept]
            insert_rows(connection, "odograph.cohort_residual", pa.Table.from_pylist(rows))
        execute(connection, "DELETE FROM odograph.cohort_state")
        if found.states:
            kept = [
                {"metric": metric, "vehicle_id": vehicle_id, **asdict(state)}
                for (metric, vehicle_id), state in sorted(found.states.items())
            ]
            insert_rows(connection, "odograph.cohort_state", pa.Table.from_pylist(kept))
        execute(connection, SQL["forget"], {"until_ms": until_ms, "kept_days": self._terms.kept_days})


def _row(residual: judge.Residual, state: judge.State | None, bucket_min: int) -> dict[str, Any]:
    metric, own = residual.metric, ("vehicle_id", "value", "median", "scale", "others", "over", "z")
    return {
        **{name: getattr(residual, name) for name in own}, **residual.cohort._asdict(),
        "metric": metric.metric, "unit": metric.unit, "z_limit": metric.z, "bucket_min": bucket_min,
        "bucket": pa.scalar(residual.at_ms, pa.timestamp("ms", "UTC")),
        "streak": 0 if state is None else state.streak, "raised": state is not None and state.raised,
    }  # fmt: skip


def bucket_of(at_ms: int, rows: Sequence[tuple[Any, ...]], terms: Terms) -> judge.Bucket:
    """A bucket out of rows: its begin, vehicle, model, load, ambient temperature, and a value a metric."""
    members: dict[judge.Cohort, dict[str, list[float]]] = defaultdict(dict)
    for _, vehicle_id, model, load_pct, ambient_c, *found in rows:
        cohort = judge.cohort_of(model, load_pct, ambient_c, terms)
        members[cohort][vehicle_id] = [math.nan if value is None else value for value in found]
    return judge.Bucket(at_ms, members)


def rolled() -> str:
    """The columns of a bucket out of its minutes, as those of an hour are."""
    return ", ".join(f"{column.over_rollups} AS {column.name}" for column in COLUMNS)


def values(metrics: Sequence[judge.Metric]) -> str:
    """A column a metric over the columns of a bucket; null for vehicles that take no part."""
    return ", ".join(f"CASE WHEN {m.when} THEN ({m.value})::double precision END" for m in metrics)
