"""Computes the trends that are due: new hours are there, or an hour has gone by.

A few vehicles at a time, the longest waiting first, so that a pass is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from infra.contract.errors import ConfigError
from stream_jobs.app.database import Connection, execute, fetch, insert_rows
from stream_jobs.maintenance.rollups.columns import NAMES
from stream_jobs.maintenance.trends.metrics import Metric, Trend, trend_of

AT_ONCE: Final = 50
"""Vehicles in one pass."""
LONGEST_DAYS: Final = 90
"""No hour of before that is read."""
TABLE: Final = "odograph.vehicle_trend"

_METRICS: Final = f"SELECT {', '.join(f.name for f in fields(Metric))} FROM odograph.trend_metric"  # noqa: S608
_DUE: Final = """
SELECT h.vehicle_id, h.as_of
FROM odograph.vehicle_latest l
LEFT JOIN odograph.vehicle_baseline b USING (vehicle_id)
CROSS JOIN LATERAL (
    SELECT vehicle_id, bucket AS as_of FROM odograph.vehicle_hour
    WHERE vehicle_id = l.vehicle_id ORDER BY bucket DESC LIMIT 1
) h
WHERE b.as_of IS NULL OR b.as_of <> h.as_of OR b.computed_at < now() - INTERVAL '1 hour'
ORDER BY b.computed_at NULLS FIRST, h.vehicle_id
LIMIT %(at_once)s
"""
_HOURS: Final = """
SELECT vehicle_id, extract(epoch FROM bucket)::double precision, odometer_m, {sources}
FROM odograph.vehicle_hour
WHERE vehicle_id = ANY(%(vehicles)s) AND bucket > %(newest)s - make_interval(days => %(days)s)
ORDER BY vehicle_id, bucket
"""
_FORGET: Final = "DELETE FROM odograph.vehicle_trend WHERE vehicle_id = ANY(%(vehicles)s)"
_BASELINES: Final = """
INSERT INTO odograph.vehicle_baseline (vehicle_id, as_of, computed_at, coolant_p99_c, coolant_minutes)
SELECT d.vehicle_id, d.as_of, now(), CASE WHEN m.minutes >= 60 THEN m.p99 END, m.minutes
FROM unnest(%(vehicles)s::text[], %(as_of)s::timestamptz[]) AS d (vehicle_id, as_of)
CROSS JOIN LATERAL (
    SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY coolant_mean_c) AS p99,
           count(coolant_mean_c) AS minutes
    FROM odograph.vehicle_minute
    WHERE vehicle_id = d.vehicle_id AND bucket >= d.as_of - INTERVAL '30 days' AND bucket < d.as_of
      AND rpm_mean > 500
) m
ORDER BY d.vehicle_id
ON CONFLICT (vehicle_id) DO UPDATE SET as_of = excluded.as_of, computed_at = excluded.computed_at,
    coolant_p99_c = excluded.coolant_p99_c, coolant_minutes = excluded.coolant_minutes
"""


def renew(connection: Connection, at_once: int = AT_ONCE) -> int:
    """The trends of up to ``at_once`` vehicles, in the transaction at hand."""
    due: dict[str, datetime] = dict(fetch(connection, _DUE, {"at_once": at_once}))
    if due:
        vehicles = [*due]
        rows = _trends(connection, metrics(connection), due)
        execute(connection, _FORGET, {"vehicles": vehicles})
        if rows:
            insert_rows(connection, TABLE, _table(rows))
        execute(connection, _BASELINES, {"vehicles": vehicles, "as_of": [*due.values()]})
    return len(due)


def metrics(connection: Connection) -> list[Metric]:
    """The metrics in force; raises ConfigError where one names no column of the roll-ups."""
    found = [Metric(*row) for row in fetch(connection, _METRICS)]
    for metric in found:
        if metric.source not in NAMES:
            raise ConfigError(
                f"odograph.trend_metric, {metric.metric}: "
                f"source {metric.source!r} is no column of odograph.vehicle_hour"
            )
    return found


def _trends(
    connection: Connection, wanted: Sequence[Metric], due: dict[str, datetime]
) -> list[tuple[str, str, datetime, Trend]]:
    hours = _HOURS.format(sources=", ".join(metric.source for metric in wanted))
    values = {"vehicles": [*due], "newest": max(due.values()), "days": LONGEST_DAYS}
    out = []
    for vehicle_id, rows in groupby(fetch(connection, hours, values), itemgetter(0)):
        columns = np.array([row[1:] for row in rows], np.float64).T
        for metric, column in zip(wanted, columns[2:], strict=True):
            trend = trend_of(metric, columns[0], columns[1], column)
            if trend is not None:
                out.append((vehicle_id, metric.metric, due[vehicle_id], trend))
    return out


def _table(rows: Sequence[tuple[str, str, datetime, Trend]]) -> pa.Table:
    names = ("vehicle_id", "metric", "as_of", *(f.name for f in fields(Trend)))
    records: list[tuple[Any, ...]] = [(*keys, *astuple(trend)) for *keys, trend in rows]
    return pa.table({name: [record[i] for record in records] for i, name in enumerate(names)})
