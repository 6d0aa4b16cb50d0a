"""A large fleet and a month of it, made by the database itself: rows of the shape and number that pages meet.

Values are arithmetic, not physics: what costs time is how many rows there are, how wide, and where. Columns
that a plan does not name get a value by their type, so that a new column needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import sql

from load_tests.dashboard import columns as c

SHIFT: Final = "extract(hour FROM t) BETWEEN 7 AND 12"
"""Hours of a day in which vehicles drive."""
MOVING: Final = 0.4
CLOSE: Final = 10
"""Vehicles that have every minute of the month."""
ID: Final = "'WDB1240001A' || lpad(v::text, 6, '0')"
NUMBERS: Final = {"double precision", "bigint", "integer", "smallint", "real", "numeric"}
COLUMNS: Final = """
SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
WHERE table_schema = 'odograph' AND table_name = %s AND is_identity = 'NO' AND is_generated = 'NEVER'
"""

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows of a table: ``rows`` is a FROM clause that gives v (a number) and, where ``timed``, t."""

    table: str
    rows: str
    given: Mapping[str, str] = field(default_factory=dict)
    """SQL by column."""
    timed: bool = True


def fill(connection: Connection, vehicles: int, days: int, say: Callable[[str], None]) -> None:
    """The month; the tables are empty before. ``connection`` may insert everywhere."""
    put(connection, plans(vehicles, days), say)


def fill_now(connection: Connection, vehicles: int, say: Callable[[str], None]) -> None:
    """The last hours, in the place of what was there."""
    wanted = plans_now(vehicles)
    for table in dict.fromkeys(plan.table for plan in wanted):
        if table != "vehicle_minute":
            connection.execute(sql.SQL("TRUNCATE odograph.{} CASCADE").format(sql.Identifier(table)))
    put(connection, wanted, say)


def put(connection: Connection, wanted: list[Plan], say: Callable[[str], None]) -> None:
    """The rows of each plan, in a transaction of its own."""
    for plan in wanted:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(statement(plan, columns(connection, plan.table)))
            say(f"{plan.table}: {cursor.rowcount:,} rows")
    connection.execute("ANALYZE")


def columns(connection: Connection, table: str) -> list[tuple[str, str, bool]]:
    """Name, type and whether it may be null, of the columns that an INSERT has to give."""
    return [(name, kind, bool(nullable)) for name, kind, nullable in connection.execute(COLUMNS, (table,))]


def statement(plan: Plan, known: list[tuple[str, str, bool]]) -> sql.Composed:
    """INSERT .. SELECT with every column that is given or has a value by its type."""
    values = {name: plan.given.get(name) or by_type(kind) for name, kind, _ in known}
    chosen = {name: value for name, value in values.items() if value is not None}
    step = "v * 7 + extract(epoch FROM t)::bigint / 60 * 13" if plan.timed else "v * 7"
    rows = f"(SELECT *, {step} AS k FROM {plan.rows} OFFSET 0) r"  # OFFSET: k is computed once a row
    return sql.SQL("INSERT INTO odograph.{} ({}) SELECT {} FROM {} ON CONFLICT DO NOTHING").format(
        sql.Identifier(plan.table),
        sql.SQL(", ").join(map(sql.Identifier, chosen)),
        sql.SQL(", ").join(sql.SQL(value) for value in chosen.values()),
        sql.SQL(rows),
    )


def by_type(kind: str) -> str | None:
    """A value that differs from row to row; None leaves a column at its default."""
    if kind in NUMBERS:
        return "10 + k % 50" if kind != "double precision" else "10 + k % 500 * 0.1::float8"
    return "k % 7 > 0" if kind == "boolean" else None


def plans(vehicles: int, days: int) -> list[Plan]:
    """Hours and days of all, every minute of a few; trips and alerts, each of an incident."""
    id_, fleet, few = {"vehicle_id": ID}, numbers(vehicles), numbers(CLOSE)
    month = f"date_trunc('day', now()) - INTERVAL '{days} days'"
    trends = "LATERAL (SELECT metric AS m, now() AS t FROM odograph.trend_metric) x"
    return [
        Plan("vehicle", fleet, id_ | c.VEHICLE, timed=False),
        Plan("vehicle_day", f"{fleet}, {series(month, '1 day')}", id_ | c.BUCKET),
        Plan("vehicle_hour", f"{fleet}, {series(month, '1 hour')} WHERE {SHIFT}", id_ | c.BUCKET),
        Plan("vehicle_minute", f"{few}, {series(month, '1 minute')} WHERE {SHIFT}", id_ | c.BUCKET),
        Plan("fleet_minute", f"{numbers(1)}, {series(month, '1 minute')}", {"minute": "t"}),
        Plan("trip", f"{fleet}, {series(month, '12 hours')}", id_ | c.TRIP),
        Plan("trip_stop", f"{fleet}, {series(month, '12 hours')}", id_ | c.STOP),
        Plan("harsh_event", f"{fleet}, {series(month, '10 days')}", id_ | c.HARSH),
        Plan("incident", fleet, id_ | c.INCIDENT, timed=False),
        Plan("alert", f"{fleet}, LATERAL {c.ALERT_AT}", id_ | c.ALERT),
        Plan("alert_event", f"{fleet}, LATERAL {c.ALERT_AT}", id_ | c.FINDING),
        Plan("vehicle_trend", f"{fleet}, {trends}", id_ | c.TREND),
    ]


def plans_now(vehicles: int) -> list[Plan]:
    """The newest states; of those that drive three hours of minutes, one of windows; the service's day."""
    id_, driving = {"vehicle_id": ID}, numbers(int(vehicles * MOVING))
    day = series(back("1 day"), "90 seconds")
    return [
        Plan("vehicle_latest", numbers(vehicles), id_ | c.LATEST, timed=False),
        Plan("query_progress", f"{numbers(2)}, {series(back('1 day'), '1 second')}", c.PROGRESS),
        Plan("stage_sample", f"{numbers(9)}, {series(back('1 day'), '5 seconds')}", c.SAMPLE),
        Plan("partition_lag", numbers(8), c.PARTITION, timed=False),
        Plan("storage_sample", f"{numbers(6)}, {series(back('1 day'), '5 minutes')}", c.STORAGE),
        Plan("late_frame", f"{numbers(100)}, {day}", id_ | c.LATE),
        Plan("quarantined_frame", f"{numbers(5)}, {day}", id_ | c.LATE),
        Plan("dead_letter", f"{numbers(2)}, {day}", id_ | c.DEAD),
        Plan("audit_hour", f"{numbers(1)}, {series(back('2 days'), '1 hour')}", c.HOUR),
        Plan("vehicle_minute", f"{driving}, {series(back('3 hours'), '1 minute')}", id_ | c.BUCKET),
        Plan("vehicle_window", f"{driving}, {series(back('1 hour'), '10 seconds')}", id_ | c.WINDOW),
    ]


def numbers(count: int) -> str:
    """v from 0."""
    return f"generate_series(0, {count - 1}) v"


def series(start: str, step: str) -> str:
    """Times from ``start`` to now."""
    return f"generate_series({start}, now(), INTERVAL '{step}') t"


def back(span: str) -> str:
    """A whole minute so long ago."""
    return f"date_trunc('minute', now()) - INTERVAL '{span}'"
