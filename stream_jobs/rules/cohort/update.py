"""The periodic task ``cohort``: judges closed buckets once, in order of time.

Findings go to Kafka first; then residuals, memory and how far it got go to the database in one transaction.
A crash in between finds the same again, with the same ids, and loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from infra.settings.job_sections import Cohort as Terms
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_rows
from stream_jobs.maintenance.rollups import COLUMNS
from stream_jobs.rules.cohort.judge import (
    HOUR_MS,
    MINUTE_MS,
    Bucket,
    Judged,
    Residual,
    State,
    States,
    alert_row,
    cohort_of,
    judge,
)
from stream_jobs.rules.cohort.metrics import Metric, load_metrics
from stream_jobs.vehicles.rows import pack

DONE: Final = "SELECT (extract(epoch FROM done_until) * 1000)::bigint FROM odograph.cohort_progress"
WATERMARK: Final = """
SELECT (extract(epoch FROM watermark - make_interval(secs => %(wait_s)s)) * 1000)::bigint
FROM odograph.query_progress WHERE query = 'telemetry' AND watermark IS NOT NULL ORDER BY at DESC LIMIT 1
"""
"""No window that ends before it can change any more, but for late frames that are repaired."""
FIRST: Final = """
SELECT (extract(epoch FROM min(bucket)) * 1000)::bigint FROM odograph.vehicle_minute
WHERE bucket >= to_timestamp(%(from_ms)s / 1000.0) AND bucket < to_timestamp(%(until_ms)s / 1000.0)
"""
OPEN: Final = """
SELECT (extract(epoch FROM min(minute)) * 1000)::bigint FROM odograph.window_change
WHERE minute >= to_timestamp(%(from_ms)s / 1000.0) AND minute < to_timestamp(%(until_ms)s / 1000.0)
"""
"""The first minute that is not rolled up yet."""
STATES: Final = """
SELECT metric, vehicle_id, side, streak, calm, raised, since_ms, last_ms FROM odograph.cohort_state
"""
FORGET_STATES: Final = "DELETE FROM odograph.cohort_state"
FORGET: Final = """
DELETE FROM odograph.cohort_residual
WHERE bucket < to_timestamp(%(until_ms)s / 1000.0) - make_interval(days => %(kept_days)s)
"""
BEGIN: Final = """
INSERT INTO odograph.cohort_progress (done_until) VALUES (to_timestamp(%(until_ms)s / 1000.0))
ON CONFLICT DO NOTHING
"""
MOVE: Final = """
UPDATE odograph.cohort_progress SET done_until = to_timestamp(%(until_ms)s / 1000.0)
WHERE done_until = to_timestamp(%(held_ms)s / 1000.0)
"""
RESIDUALS: Final = "odograph.cohort_residual"
STATE: Final = "odograph.cohort_state"
AT_ONCE: Final = 12
"""Buckets in one pass."""
DAY_MS: Final = 24 * HOUR_MS

Write = Callable[[Sequence[tuple[str, bytes]]], None]
"""Puts records into the topic ``alerts`` and returns when they are there."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is closed and not judged yet: from ``from_ms`` to ``until_ms``; ``held_ms`` is how far it got."""

    held_ms: int | None
    from_ms: int
    until_ms: int
    buckets: list[Bucket]
    states: States


class CohortUpdate:
    """Judges what has been closed since the last call; a window is ``wait_s`` after its end, by receipt."""

    def __init__(self, terms: Terms, database: Database, write: Write, wait_s: float) -> None:
        self._terms = terms
        self._wait_s = wait_s
        self._metrics = load_metrics(terms.metrics)
        self._database = database
        self._write = write

    def __call__(self) -> int:
        """One pass; the number of findings and ends."""
        work = self._database.run(
            lambda connection: read(connection, self._metrics, self._terms, self._wait_s)
        )
        if work is None:
            return 0
        judged = judge(work.buckets, work.from_ms, work.states, self._metrics, self._terms)
        now_ms = int(time.time() * 1000)
        rows = [alert_row(news, now_ms) for news in judged.news]
        self._write([(row.vehicle_id, pack(row)) for row in rows])
        self._database.run(lambda connection: store(connection, work, judged, self._terms))
        return len(rows)


def read(connection: Connection, metrics: Sequence[Metric], terms: Terms, wait_s: float) -> Work | None:
    """What is to be judged now; None where no bucket has been closed."""
    length_ms = terms.bucket_min * MINUTE_MS
    watermarks = fetch(connection, WATERMARK, {"wait_s": wait_s})
    if not watermarks:
        return None
    closed_ms = watermarks[0][0] // length_ms * length_ms
    held = fetch(connection, DONE)
    held_ms = held[0][0] if held else None
    since_ms = closed_ms - terms.kept_days * DAY_MS if held_ms is None else held_ms
    [(first_ms,)] = fetch(connection, FIRST, {"from_ms": since_ms, "until_ms": closed_ms})
    if first_ms is None:
        return None
    from_ms = max(first_ms // length_ms * length_ms, -(-since_ms // length_ms) * length_ms)
    until_ms = min(closed_ms, from_ms + AT_ONCE * length_ms)
    [(open_ms,)] = fetch(connection, OPEN, {"from_ms": from_ms, "until_ms": until_ms})
    if open_ms is not None:
        until_ms = open_ms // length_ms * length_ms
    if until_ms <= from_ms:
        return None
    found = read_buckets(connection, metrics, terms, from_ms - HOUR_MS + length_ms, until_ms)
    states = {(metric, vehicle): State(*row) for metric, vehicle, *row in fetch(connection, STATES)}
    return Work(held_ms, from_ms, until_ms, found, states)


def read_buckets(
    connection: Connection, metrics: Sequence[Metric], terms: Terms, from_ms: int, until_ms: int
) -> list[Bucket]:
    """The buckets of a span, in order of time."""
    span = {"minutes": terms.bucket_min, "from_ms": from_ms, "until_ms": until_ms}
    rows = fetch(connection, buckets_sql(metrics), span)
    return [bucket_of(at_ms, [*own], terms) for at_ms, own in groupby(rows, itemgetter(0))]


def bucket_of(at_ms: int, rows: Sequence[tuple[Any, ...]], terms: Terms) -> Bucket:
    """A bucket out of rows: its begin, vehicle, model, load, ambient temperature, and a value a metric."""
    cohorts = tuple(cohort_of(model, load, ambient, terms) for _, _, model, load, ambient, *_ in rows)
    values = np.array([row[5:] for row in rows], np.float64).T
    return Bucket(at_ms, tuple(row[1] for row in rows), cohorts, values)


def store(connection: Connection, work: Work, judged: Judged, terms: Terms) -> bool:
    """Write what was judged and how far that is; False where somebody else was there first."""
    moved = {"held_ms": work.held_ms, "until_ms": work.until_ms}
    if execute(connection, BEGIN if work.held_ms is None else MOVE, moved) != 1:
        return False
    if judged.kept:
        rows = [_row(residual, state, terms) for residual, state in judged.kept]
        insert_rows(connection, RESIDUALS, pa.Table.from_pylist(rows))
    execute(connection, FORGET_STATES)
    if judged.states:
        names = ("metric", "vehicle_id", *(f.name for f in fields(State)))
        kept = [(*key, *astuple(state)) for key, state in sorted(judged.states.items())]
        insert_rows(connection, STATE, pa.table(dict(zip(names, zip(*kept, strict=True), strict=True))))
    execute(connection, FORGET, {"until_ms": work.until_ms, "kept_days": terms.kept_days})
    return True


def _row(residual: Residual, state: State | None, terms: Terms) -> dict[str, Any]:
    metric, cohort = residual.metric, residual.cohort
    return {
        "vehicle_id": residual.vehicle_id, "metric": metric.metric,
        "bucket": pa.scalar(residual.at_ms, pa.timestamp("ms", "UTC")), "bucket_min": terms.bucket_min,
        "unit": metric.unit, "model": cohort.model, "load_band": cohort.load_band,
        "ambient_c": cohort.ambient_c, "value": residual.value, "median": residual.median,
        "scale": residual.scale, "others": residual.others, "over": residual.over, "z": residual.z,
        "z_limit": metric.z, "streak": 0 if state is None else state.streak,
        "raised": state is not None and state.raised,
    }  # fmt: skip


def buckets_sql(metrics: Sequence[Metric]) -> str:
    """Vehicles by bucket with what makes their cohort and a column a metric; in order of bucket and vehicle.

    Parameters ``minutes``, ``from_ms``, ``until_ms``.
    """
    return (
        "SELECT (extract(epoch FROM start) * 1000)::bigint, r.vehicle_id, v.model, "  # noqa: S608  own data
        f"engine_load_mean_pct, ambient_mean_c, {values(metrics).replace('%', '%%')} "
        "FROM (SELECT vehicle_id, date_bin(make_interval(mins => %(minutes)s), bucket, "
        f"'2000-01-01 00:00+00') AS start, {rolled()} FROM odograph.vehicle_minute "
        "WHERE bucket >= to_timestamp(%(from_ms)s / 1000.0) AND bucket < to_timestamp(%(until_ms)s / 1000.0) "
        "GROUP BY 1, 2) r JOIN odograph.vehicle v USING (vehicle_id) "
        "WHERE v.model IS NOT NULL ORDER BY 1, 2"
    )


def rolled() -> str:
    """The columns of a bucket out of its minutes, as those of an hour are."""
    return ", ".join(f"{column.over_rollups} AS {column.name}" for column in COLUMNS)


def values(metrics: Sequence[Metric]) -> str:
    """A column a metric over the columns of a bucket; null for vehicles that take no part."""
    return ", ".join(f"CASE WHEN {m.when} THEN ({m.value})::double precision END" for m in metrics)
