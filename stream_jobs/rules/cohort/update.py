"""The periodic task ``cohort``: judges closed buckets once, in order of time.

Findings go to Kafka first; then residuals, memory and how far it got go to the database in one transaction.
A crash in between finds the same again, with the same ids, and loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from infra.settings.sections import Cohort as Terms
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_rows
from stream_jobs.maintenance.rollups import COLUMNS
from stream_jobs.rules.cohort.judge import (
    HOUR_MS,
    MINUTE_MS,
    Bucket,
    Judged,
    Metric,
    Residual,
    State,
    alert_row,
    cohort_of,
    judge,
    load_metrics,
)
from stream_jobs.vehicles.rows import pack

_MS: Final = "(extract(epoch FROM {}) * 1000)::bigint"
_SPAN: Final = "{0} >= to_timestamp(%(from_ms)s / 1000.0) AND {0} < to_timestamp(%(until_ms)s / 1000.0)"
DONE: Final = f"SELECT {_MS.format('done_until')} FROM odograph.cohort_progress"  # noqa: S608  own columns
WATERMARK: Final = f"""
SELECT {_MS.format("watermark - make_interval(secs => %(wait_s)s)")}
FROM odograph.query_progress WHERE query = 'telemetry' AND watermark IS NOT NULL ORDER BY at DESC LIMIT 1
"""  # noqa: S608  own columns
"""No window that ends before it can change any more, but for late frames that are repaired."""
FIRST: Final = f"""
SELECT {_MS.format("min(bucket)")} FROM odograph.vehicle_minute WHERE {_SPAN.format("bucket")}
"""  # noqa: S608  own columns
OPEN: Final = f"""
SELECT {_MS.format("min(minute)")} FROM odograph.window_change WHERE {_SPAN.format("minute")}
"""  # noqa: S608  own columns
"""The first minute that is not rolled up yet."""
STATES: Final = """
SELECT metric, vehicle_id, side, streak, calm, raised, since_ms, last_ms FROM odograph.cohort_state
"""
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
AT_ONCE: Final = 12  # buckets in one pass
DAY_MS: Final = 24 * HOUR_MS

Write = Callable[[Sequence[tuple[str, bytes]]], None]
"""Puts records into the topic ``alerts`` and returns when they are there."""


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
        work = self._database.run(self._read)
        if work is None:
            return 0
        held_ms, from_ms, until_ms, buckets, states = work
        judged = judge(buckets, from_ms, states, self._metrics, self._terms)
        now_ms = int(time.time() * 1000)
        rows = [alert_row(news, now_ms) for news in judged.news]
        self._write([(row.vehicle_id, pack(row)) for row in rows])
        self._database.run(lambda connection: self._store(connection, held_ms, until_ms, judged))
        return len(rows)

    def _read(
        self, connection: Connection
    ) -> tuple[int | None, int, int, list[Bucket], dict[tuple[str, str], State]] | None:
        """What is closed and not judged yet: how far it got, from when, until when, buckets with an hour
        before them, states; None where no bucket has been closed.
        """
        terms = self._terms
        length_ms = terms.bucket_min * MINUTE_MS
        watermarks = fetch(connection, WATERMARK, {"wait_s": self._wait_s})
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
        span = {"minutes": terms.bucket_min, "from_ms": from_ms - HOUR_MS + length_ms, "until_ms": until_ms}
        rows = fetch(connection, buckets_sql(self._metrics), span)
        buckets = [bucket_of(at_ms, [*own], terms) for at_ms, own in groupby(rows, itemgetter(0))]
        states = {(metric, vehicle): State(*row) for metric, vehicle, *row in fetch(connection, STATES)}
        return held_ms, from_ms, until_ms, buckets, states

    def _store(self, connection: Connection, held_ms: int | None, until_ms: int, judged: Judged) -> None:
        """Write what was judged and how far that is, unless somebody else was there first."""
        moved = {"held_ms": held_ms, "until_ms": until_ms}
        if execute(connection, BEGIN if held_ms is None else MOVE, moved) != 1:
            return
        if judged.kept:
            rows = [_row(residual, state, self._terms.bucket_min) for residual, state in judged.kept]
            insert_rows(connection, "odograph.cohort_residual", pa.Table.from_pylist(rows))
        execute(connection, "DELETE FROM odograph.cohort_state")
        if judged.states:
            names = ("metric", "vehicle_id", *(f.name for f in fields(State)))
            kept = [(*key, *astuple(state)) for key, state in sorted(judged.states.items())]
            columns = dict(zip(names, zip(*kept, strict=True), strict=True))
            insert_rows(connection, "odograph.cohort_state", pa.table(columns))
        execute(connection, FORGET, {"until_ms": until_ms, "kept_days": self._terms.kept_days})


def _row(residual: Residual, state: State | None, bucket_min: int) -> dict[str, Any]:
    metric, cohort = residual.metric, residual.cohort
    return {
        "vehicle_id": residual.vehicle_id, "metric": metric.metric,
        "bucket": pa.scalar(residual.at_ms, pa.timestamp("ms", "UTC")), "bucket_min": bucket_min,
        "unit": metric.unit, **cohort._asdict(), "value": residual.value, "median": residual.median,
        "scale": residual.scale, "others": residual.others, "over": residual.over, "z": residual.z,
        "z_limit": metric.z, "streak": 0 if state is None else state.streak,
        "raised": state is not None and state.raised,
    }  # fmt: skip


def bucket_of(at_ms: int, rows: Sequence[tuple[Any, ...]], terms: Terms) -> Bucket:
    """A bucket out of rows: its begin, vehicle, model, load, ambient temperature, and a value a metric."""
    cohorts = tuple(cohort_of(model, load, ambient, terms) for _, _, model, load, ambient, *_ in rows)
    values = np.array([row[5:] for row in rows], np.float64).T
    return Bucket(at_ms, tuple(row[1] for row in rows), cohorts, values)


def buckets_sql(metrics: Sequence[Metric]) -> str:
    """Vehicles by bucket with what makes their cohort and a column a metric; by bucket and vehicle."""
    return (
        f"SELECT {_MS.format('start')}, r.vehicle_id, v.model, "  # noqa: S608  own data
        f"engine_load_mean_pct, ambient_mean_c, {values(metrics).replace('%', '%%')} "
        "FROM (SELECT vehicle_id, date_bin(make_interval(mins => %(minutes)s), bucket, "
        f"'2000-01-01 00:00+00') AS start, {rolled()} FROM odograph.vehicle_minute "
        f"WHERE {_SPAN.format('bucket')} GROUP BY 1, 2) r JOIN odograph.vehicle v USING (vehicle_id) "
        "WHERE v.model IS NOT NULL ORDER BY 1, 2"
    )


def rolled() -> str:
    """The columns of a bucket out of its minutes, as those of an hour are."""
    return ", ".join(f"{column.over_rollups} AS {column.name}" for column in COLUMNS)


def values(metrics: Sequence[Metric]) -> str:
    """A column a metric over the columns of a bucket; null for vehicles that take no part."""
    return ", ".join(f"CASE WHEN {m.when} THEN ({m.value})::double precision END" for m in metrics)
