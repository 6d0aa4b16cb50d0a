"""SQL of the cohort task: which buckets are closed, what is in them, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_jobs.maintenance.rollups import COLUMNS
from stream_jobs.rules.cohort.metrics import Metric

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


def buckets(metrics: Sequence[Metric]) -> str:
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
    return ", ".join(
        f"{sql} AS {name}"
        for column in COLUMNS
        for name, sql in zip(column.names, column.expressions(False), strict=True)
    )


def values(metrics: Sequence[Metric]) -> str:
    """A column a metric over the columns of a bucket; null for vehicles that take no part."""
    return ", ".join(f"CASE WHEN {m.when} THEN ({m.value})::double precision END" for m in metrics)
