"""A run's own database: made, given what the live one knows of vehicles and roads, asked, dropped."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import psycopg
from psycopg import sql

from infra.clients import db
from infra.clients.database_url import with_name
from infra.sql.migrate import migrate
from stream_jobs.replay.tables import REFERENCES

Connection = psycopg.Connection[tuple[Any, ...]]
connected = partial(
    db.connected, autocommit=True, connect_timeout_s=5, application_name="odograph-replay",
    session={"timezone": "UTC", "extra_float_digits": "1"},
)  # fmt: skip
"""A connection in autocommit; its own failures become ServiceError."""
_BEHIND: Final = """
SELECT coalesce(sum(b.frames), 0)
FROM (SELECT vehicle_id, max(to_time) AS until, sum(frames) AS frames
      FROM odograph.late_vehicle_frames WHERE repaired_at IS NULL GROUP BY vehicle_id) b
WHERE EXISTS (SELECT 1 FROM odograph.trip_stop s WHERE s.vehicle_id = b.vehicle_id AND s.began_at >= b.until)
   OR NOT EXISTS (SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = b.vehicle_id AND t.phase = 'open')
"""
"""Those of a trip that is still under way at the end wait for its stop, which never comes."""
_OPEN: Final = (
    ("late frames to repair", "SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL"),
    ("frames behind to repair", _BEHIND),
    ("windows to roll up", "SELECT count(*) FROM odograph.window_change"),
)
_DROPPED: Final = "SELECT coalesce(sum(dropped_late), 0)::bigint FROM odograph.query_progress"
_DEAD: Final = """
SELECT digest, concat_ws(' ', mqtt_topic, vehicle_id, to_char(received_at, 'YYYY-MM-DD HH24:MI:SS'))
       || ': ' || concat_ws(': ', reason, detail)
FROM odograph.dead_letter ORDER BY partition, log_offset
"""
_DEAD_TOO: Final = "SELECT count(DISTINCT digest) FROM odograph.dead_letter WHERE digest = ANY(%(digests)s)"
_LATE_OPEN: Final = (
    "SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL "
    "AND t0_ms < %(until_ms)s AND t0_ms + span_ms >= %(since_ms)s"
)


def create(owner_url: str, name: str) -> None:
    """The run's database with all tables, and what the jobs look up as the live one has it. Idempotent."""
    with connected(owner_url) as live:
        there = live.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if there is None:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
            live.execute(statement)
        migrate(with_name(owner_url, name))
        with connected(with_name(owner_url, name)) as own, own.transaction():
            for table in REFERENCES:
                _copy_reference(live, own, table)


def _copy_reference(live: Connection, own: Connection, table: str) -> None:
    """Rows of a table that the run's database does not have."""
    names = columns(own, table)
    own.execute(f"CREATE TEMP TABLE given (LIKE odograph.{table}) ON COMMIT DROP")
    copy(live, f"SELECT {names} FROM odograph.{table}", own, f"given ({names})")  # noqa: S608
    own.execute(
        f"INSERT INTO odograph.{table} ({names}) OVERRIDING SYSTEM VALUE "  # noqa: S608
        f"SELECT {names} FROM given ON CONFLICT DO NOTHING"
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


def columns(connection: Connection, table: str) -> str:
    """Columns of a table of odograph, as a list for SQL."""
    return ", ".join(names(connection, table))


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
    with connected(url) as own:
        counts = [(what, _number(own, query)) for what, query in _OPEN]
    return [f"{count} {what}" for what, count in counts if count]


def event_offsets(url: str) -> int:
    """How many records the run's event store has taken in."""
    with connected(url) as own:
        query = "SELECT coalesce(sum(next_offset), 0) FROM odograph.consumer_offset WHERE consumer = 'events'"
        return _number(own, query)


def dropped_late(url: str) -> int:
    """Rows that Spark dropped behind its watermark: must be 0, else windows lack them."""
    with connected(url) as own:
        return _number(own, _DROPPED)


def dead_letters(live: Connection, run: Connection) -> tuple[list[str], int]:
    """The records that a run left out, each in a line with its reason; how many of them live did too."""
    rows = run.execute(_DEAD).fetchall()
    return [text for _, text in rows], _number(live, _DEAD_TOO, {"digests": [digest for digest, _ in rows]})


def late_open(url: str, since_ms: int, until_ms: int) -> int:
    """Late frames of a span that wait for their repair."""
    with connected(url) as live:
        return _number(live, _LATE_OPEN, {"since_ms": since_ms, "until_ms": until_ms})


def _number(connection: Connection, query: str, values: Any = None) -> int:
    row = connection.execute(query, values).fetchone()
    return int(row[0]) if row else 0
