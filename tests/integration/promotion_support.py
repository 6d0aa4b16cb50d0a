"""Runs to be promoted: their databases, what lies in them, and what serving reads."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from infra.clients import db
from infra.clients.database_url import with_name
from infra.clients.db import Connection
from infra.sql import tenants
from stream_jobs.replay import databases, promote, shadow
from stream_jobs.replay.databases import connected
from stream_jobs.replay.runs import Run
from tests.support import Lane
from tests.support_frames import vin

DAY = datetime(2026, 11, 20, tzinfo=UTC)
COLUMNS = "vehicle_id, window_start, window_s, frames, frames_late, samples, out_of_range, first_event, "
COLUMNS += "last_event, distance_m, batch_id"


def run_of(run_id: str, begin: datetime, hours: int, vehicles: tuple[str, ...] = ()) -> Run:
    since_ms = int(begin.timestamp() * 1000)
    until_ms = since_ms + hours * 3_600_000
    span = (since_ms, until_ms)
    return Run(run_id, "archive", *span, *span, 0, vehicles, None, ("stream",), {}, "c")


@contextmanager
def database_of(lane: Lane, run: Run) -> Iterator[Connection]:
    url = lane.endpoints.db_owner_url
    databases.create(url, run.database)
    try:
        with connected(with_name(url, run.database)) as own:
            yield own
    finally:
        databases.drop(url, run.database)


def windows(connection: Connection, vehicle: int, at: list[datetime], distance_m: float) -> None:
    for start in at:
        connection.execute(
            f"INSERT INTO odograph.vehicle_window ({COLUMNS}) "
            "VALUES (%s, %s, 10, 1, 0, 10, 0, %s, %s, %s, 0)",
            (vin(vehicle), start, start, start, distance_m),
        )


def alert(connection: Connection, vehicle: int, rule: str, at: datetime) -> None:
    connection.execute(
        "INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, last_at, "
        "findings, late, first_alert_id) VALUES (%s, %s, 1, 'MAJOR', 'm', %s, %s, 1, false, %s)",
        (vin(vehicle), rule, at, at, uuid.uuid4().hex),
    )


def read(lane: Lane, sql: str) -> list[tuple[Any, ...]]:
    """As the dashboard does."""
    with psycopg.connect(lane.endpoints.db_dashboard_url, options="-c timezone=UTC") as connection:
        return connection.execute(sql).fetchall()


def metres(lane: Lane, fleet: str = "") -> list[tuple[int, int, float]]:
    """By vehicle and hour, as all or as who sees a fleet may read them."""
    schema, seen = ("tenant", tenants.session_of([fleet])) if fleet else ("serving", {})
    sql = f"SELECT vehicle_id, window_start, distance_m FROM {schema}.vehicle_window ORDER BY 1, 2"
    chosen = {"timezone": "UTC", **seen}
    with db.connected(lane.endpoints.db_dashboard_url, session=chosen) as connection:
        return [(int(v[-3:]), at.hour, m) for v, at, m in connection.execute(sql.encode())]


def definitions(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(promote._VIEWS).fetchall()


def hour(number: int) -> datetime:
    return DAY + timedelta(hours=number)


def fleet_minute(connection: Connection, at: list[datetime], frames: int) -> None:
    """The fleet's minutes as the roll-ups make them."""
    for minute in at:
        connection.execute(
            "INSERT INTO odograph.fleet_minute (minute, vehicles, moving, on_road, frames, samples) "
            "VALUES (%s, 2, 0, 0, %s, 10)",
            (minute, frames),
        )


def promote_alone(live_url: str, own_url: str, run: Run) -> None:
    """A promotion in a process of its own."""
    with connected(live_url) as live, connected(own_url) as own:
        promote.promote(live, own, run)


def roll_back_alone(live_url: str, run_id: str) -> None:
    """A way back in a process of its own."""
    with connected(live_url) as live:
        promote.rollback(live, run_id)


def drop_alone(env: dict[str, str], run_id: str) -> None:
    """A drop in a process of its own, with the settings of ``env``."""
    os.environ.update(env)
    shadow.drop(run_id)
