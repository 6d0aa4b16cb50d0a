"""A run's own database and its tables: what identifies a row, its span, what is compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import sql

from infra.clients import db
from infra.clients.database_url import with_name
from infra.sql.migrate import migrate

WRITER: Final = ("batch_id", "revision", "restated_at")
"""Which layer wrote a row last: no part of its content."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of odograph; rows are hashed together by the first key and the hour.

    ``time`` is the column that decides whether a row belongs to a span, ``length`` how long the row reaches
    from there (an interval's text). ``fleet``: a row is made of many vehicles, so a run of some of them says
    nothing of it. ``windows``: what ``--verify`` proves. ``apart``: columns that are not compared; ``only``:
    rows that are. ``with_alerts``: rows belong to alerts, not to a time.
    """

    name: str
    keys: tuple[str, ...]
    time: str
    length: str = ""
    fleet: bool = False
    windows: bool = False
    compared: bool = True
    apart: tuple[str, ...] = WRITER
    with_alerts: bool = False
    only: str = "true"


_ALERT_APART: Final = (
    "alert_no", "first_alert_id", "acknowledged_at", "acknowledged_by", "note", "silence_no", "cleared_by",
    "evidence_at", "evidence_frames", "revision", "restated_at", "withdrawn_at",
)  # fmt: skip

_CELL: Final = ("cell", "heading_sector", "window_start")
_EDGE: Final = ("edge_id", "network_no", "window_start")
_ALERT: Final = ("vehicle_id", "rule", "opened_at")
TABLES: Final = (
    Table("vehicle_window", ("vehicle_id", "window_start"), "window_start", windows=True),
    Table("road_cell_window", _CELL, "window_start", fleet=True, windows=True),
    Table("road_edge_window", _EDGE, "window_start", fleet=True, windows=True),
    Table("vehicle_minute", ("vehicle_id", "bucket"), "bucket", windows=True),
    Table("vehicle_hour", ("vehicle_id", "bucket"), "bucket", "1 hour", windows=True),
    Table("vehicle_day", ("vehicle_id", "bucket"), "bucket", "1 day", windows=True),
    Table("fleet_minute", ("minute",), "minute", fleet=True, windows=True),
    Table("trip", ("vehicle_id", "started_at"), "started_at"),
    Table("trip_stop", ("vehicle_id", "began_at"), "began_at"),
    Table("idle_episode", ("vehicle_id", "began_at"), "began_at"),
    Table("harsh_event", ("vehicle_id", "began_at", "kind"), "began_at"),
    Table("alert", _ALERT, "opened_at", apart=_ALERT_APART, only="withdrawn_at IS NULL"),
    Table("alert_event", ("vehicle_id", "rule", "event_time"), "event_time", compared=False),
    Table("alert_change", ("alert_no", "change_no"), "event_time", compared=False, with_alerts=True),
    Table("alert_evidence", ("alert_no", "boot_id", "seq"), "t0", compared=False, with_alerts=True),
)  # fmt: skip
"""In the order in which they are compared."""

REFERENCES: Final = (
    "vehicle", "road_network", "road_edge", "road_rule", "road_cell_baseline", "road_edge_baseline",
    "road_cell_profile", "road_edge_profile", "vehicle_baseline",
)  # fmt: skip
"""What the jobs look up: a run begins with a copy of what the live database knows now."""


def of_run(whole_fleet: bool) -> tuple[Table, ...]:
    """The tables that a run of all vehicles, or of some, can speak for."""
    return tuple(table for table in TABLES if whole_fleet or not table.fleet)


def within(table: Table) -> str:
    """SQL: whether a row belongs to a run; parameters ``since``, ``until`` and ``vehicles`` (null: all)."""
    words = [f"{table.time} >= %(since)s", f"{table.time} < %(until)s"]
    if table.length:
        words.append(f"{table.time} + interval '{table.length}' <= %(until)s")
    if not table.fleet:
        words.append("(%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))")
    return " AND ".join(words)


Connection = psycopg.Connection[tuple[Any, ...]]
connected = partial(
    db.connected, autocommit=True, connect_timeout_s=5, application_name="odograph-replay",
    session={"timezone": "UTC", "extra_float_digits": "1"},
)  # fmt: skip
"""A connection in autocommit; its own failures become ServiceError."""
_LATE_VEHICLES: Final = """
SELECT coalesce(sum(b.frames), 0)
FROM (SELECT vehicle_id, max(to_time) AS until, sum(frames) AS frames
      FROM odograph.late_vehicle_frames WHERE repaired_at IS NULL GROUP BY vehicle_id) b
WHERE EXISTS (SELECT 1 FROM odograph.trip_stop s WHERE s.vehicle_id = b.vehicle_id AND s.began_at >= b.until)
   OR NOT EXISTS (SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = b.vehicle_id AND t.phase = 'open')
"""
"""Those of a trip that is still under way at the end wait for its stop, which never comes."""
_OPEN: Final = (
    ("late frames to repair", "SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL"),
    ("late frames of vehicles to repair", _LATE_VEHICLES),
    ("windows to roll up", "SELECT count(*) FROM odograph.window_change"),
)
EVENTS_TAKEN: Final = (
    "SELECT coalesce(sum(next_offset), 0) FROM odograph.consumer_offset WHERE consumer = 'events'"
)
"""Records that the run's event store has taken in."""
DROPPED_LATE: Final = "SELECT coalesce(sum(dropped_late), 0)::bigint FROM odograph.query_progress"
"""Rows that Spark dropped behind its watermark: must be 0, else windows lack them."""
_DEAD: Final = """
SELECT digest, concat_ws(' ', mqtt_topic, vehicle_id, to_char(received_at, 'YYYY-MM-DD HH24:MI:SS'))
       || ': ' || concat_ws(': ', reason, detail)
FROM odograph.dead_letter ORDER BY partition, log_offset
"""
_DEAD_TOO: Final = "SELECT count(DISTINCT digest) FROM odograph.dead_letter WHERE digest = ANY(%(digests)s)"
LATE_OPEN: Final = (
    "SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL "
    "AND t0_ms < %(until_ms)s AND t0_ms + span_ms >= %(since_ms)s"
)
"""Late frames of a span that wait for their repair."""


def create(owner_url: str, name: str) -> None:
    """The run's database with all tables, and what the jobs look up as the live one has it. Idempotent."""
    with connected(owner_url) as live:
        if live.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
            live.execute(statement)
        own_url = with_name(owner_url, name)
        migrate(own_url)
        with connected(own_url) as own, own.transaction():
            for table in REFERENCES:  # rows that the run's database does not have
                columns = ", ".join(names(own, table))
                own.execute(f"CREATE TEMP TABLE given (LIKE odograph.{table}) ON COMMIT DROP")
                copy(live, f"SELECT {columns} FROM odograph.{table}", own, f"given ({columns})")  # noqa: S608
                own.execute(
                    f"INSERT INTO odograph.{table} ({columns}) OVERRIDING SYSTEM VALUE "  # noqa: S608
                    f"SELECT {columns} FROM given ON CONFLICT DO NOTHING"
                )
                own.execute("DROP TABLE given")


def copy(source: Connection, query: str, target: Connection, into: str, values: Any = None) -> int:
    """Rows of ``query`` there into ``into`` here; how many."""
    with source.cursor() as out, target.cursor() as taken:
        with (
            out.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)", values) as given,
            taken.copy(f"COPY {into} FROM STDIN (FORMAT binary)") as put,
        ):
            for block in given:
                put.write(block)
        return max(0, taken.rowcount)


def names(connection: Connection, table: str) -> list[str]:
    """Columns of a table of odograph, in their order."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        (f"odograph.{table}",),
    ).fetchall()
    return [str(row[0]) for row in rows]


def drop(owner_url: str, name: str) -> None:
    """Drop a run's database, whoever still uses it."""
    with connected(owner_url) as live:
        live.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def open_work(url: str) -> list[str]:
    """What a run's periodic tasks have still to do."""
    counts = [(what, number(url, query)) for what, query in _OPEN]
    return [f"{count} {what}" for what, count in counts if count]


def number(url: str, query: str, values: Any = None) -> int:
    """The only value of a query of this module."""
    with connected(url) as database:
        row = database.execute(query, values).fetchone()
    return int(row[0]) if row else 0


def dead_letters(live: Connection, run: Connection) -> tuple[list[str], int]:
    """The records that a run left out, each in a line with its reason; how many of them live did too."""
    rows = run.execute(_DEAD).fetchall()
    ((live_too,),) = live.execute(_DEAD_TOO, {"digests": [digest for digest, _ in rows]}).fetchall()
    return [text for _, text in rows], live_too
