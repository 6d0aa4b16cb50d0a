"""Believable rows for a database without a pipeline: development and tests of the dashboard.

A fleet of 40 in a small town (24 moving, 6 idling, 6 parked, 3 silent, 1 without a speed), an hour of 10 s
windows of 10 frames and 100 samples each and what is derived from them, seven alerts with the evidence of
one, rules, a crash record, roads, traffic, progress of three queries; and the drive of one electric vehicle
in another country, long ago.
``now`` is the only input: the same rows each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from stream_jobs.events import writes
from stream_jobs.rules.model import load_causes, load_rules
from tests.rows import journeys, judged
from tests.rows.fleet import latest, rover_latest, rover_vehicle, rover_windows, vehicles, windows
from tests.rows.found import alert_events, alerts, crash
from tests.rows.made import keep, trends
from tests.rows.parts import maintenance_tasks, partition_lags, stage_samples, storage_samples
from tests.rows.pipeline import baselines, cells, dead_letters, late_frames, progress, quarantined
from tests.rows.town import Row, roads


def fill(connection: psycopg.Connection[Any], now: datetime) -> None:
    """All rows of this module, then what periodic tasks make of them; the tables are empty before."""
    edges = roads()
    traffic = cells(now, edges)
    tables: list[tuple[str, Iterable[Row]]] = [
        ("road_edge", edges),
        ("vehicle", [*vehicles(now), rover_vehicle()]),
        ("vehicle_latest", [*latest(now, edges), rover_latest()]),
        ("vehicle_window", [*windows(now, edges), *rover_windows()]),
        ("alert", alerts(now)),
        ("alert_event", alert_events(now)),
        ("alert_evidence", judged.frames(now)),
        ("alert_silence", judged.silences(now)),
        ("rule", judged.rules()),
        ("crash_record", [crash(now)]),
        ("query_progress", progress(now)),
        ("road_cell_window", [*traffic, *journeys.windows_of_yesterday(now, traffic)]),
        ("road_cell_interval", journeys.intervals(now, traffic)),
        ("road_cell_baseline", [*baselines(now, edges), *journeys.rover_baselines(now)]),
        ("trip", journeys.trips(now)),
        ("trip_stop", journeys.stops()),
        ("idle_episode", journeys.idle_episodes()),
        ("harsh_event", journeys.harsh_events()),
        ("eta_request", journeys.eta_requests(now)),
        ("eta_prediction", journeys.eta_predictions(now)),
        ("late_frame", late_frames(now)),
        ("quarantined_frame", quarantined(now)),
        ("dead_letter", dead_letters(now)),
        ("stage_sample", stage_samples(now)),
        ("partition_lag", partition_lags(now)),
        ("storage_sample", storage_samples(now)),
        ("maintenance_task", maintenance_tasks(now)),
        ("vehicle_trend", trends(now)),
    ]
    with connection.transaction():
        for table, rows in tables:
            insert(connection, table, rows)
        join(connection)
    keep(connection)


def join(connection: psycopg.Connection[Any]) -> None:
    """Incidents of all alerts, by the event store's own function."""
    cursor, causes = connection.cursor(row_factory=dict_row), load_causes(None, load_rules())
    while writes.join(cursor, causes):
        pass


def insert(connection: psycopg.Connection[Any], table: str, rows: Iterable[Row]) -> None:
    """Rows into ``odograph.<table>``; all rows of a table have the first one's columns."""
    kept = list(rows)
    columns = list(kept[0])
    statement = sql.SQL("COPY odograph.{} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor().copy(statement) as copy:
        for row in kept:
            copy.write_row([row[c] for c in columns])
