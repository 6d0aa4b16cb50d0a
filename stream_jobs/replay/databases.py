"""A run's own database and its tables, compared with the live ones.

Row by row: hashes by slice first, then the rows of slices that differ. The last comparison of each run is
kept for the dashboard, a row a table.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from psycopg import sql
from psycopg.rows import dict_row

from infra.clients import db
from infra.clients.database_url import with_name
from infra.clients.db import Connection, sql_of
from infra.contract.errors import ServiceError
from infra.sql.migrate import migrate
from stream_jobs.app.database import TYPES, insert_row
from stream_jobs.app.schema import ROAD_KEYS, WRITER_COLUMNS
from stream_jobs.replay.runs import Run

SQL: Final = sql_of(__file__)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of odograph; rows are hashed together by the first key and the hour.

    ``time`` is the column that decides whether a row belongs to a span, ``length`` how long the row reaches
    from there (an interval's text). ``fleet``: a row is made of many vehicles, so a run of some of them says
    nothing of it. ``windows``: what ``--verify`` proves. ``apart``: columns that are not compared; ``only``:
    rows that are. ``with_alerts``: the column by which rows belong to alerts, not to a time.
    """

    name: str
    keys: tuple[str, ...]
    time: str
    length: str = ""
    fleet: bool = False
    windows: bool = False
    compared: bool = True
    apart: tuple[str, ...] = WRITER_COLUMNS
    with_alerts: str = ""
    only: str = "true"


_ALERT_APART: Final = (
    "alert_no", "first_alert_id", "acknowledged_at", "acknowledged_by", "note", "silence_no", "cleared_by",
    "evidence_at", "evidence_frames", "revision", "restated_at", "withdrawn_at", "incident_no", "to_join",
)  # fmt: skip

_EDGE: Final = ("edge_id", "network_no", "window_start")
_ALERT: Final = ("vehicle_id", "rule", "opened_at")
TABLES: Final = (
    Table("vehicle_window", ("vehicle_id", "window_start"), "window_start", windows=True),
    Table("road_cell_window", ROAD_KEYS, "window_start", fleet=True, windows=True),
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
    Table("alert_change", ("alert_no", "change_no"), "event_time", compared=False, with_alerts="alert_no"),
    Table("alert_evidence", ("alert_no", "boot_id", "seq"), "t0", compared=False, with_alerts="alert_no"),
    Table("incident", ("incident_no",), "", compared=False, with_alerts="incident_no"),
    Table("incident_note", ("note_no",), "at", compared=False, with_alerts="incident_no"),
)  # fmt: skip
"""In the order in which they are compared."""

REFERENCES: Final = (
    "vehicle", "road_network", "road_edge", "road_rule", "road_cell_baseline", "road_edge_baseline",
    "road_cell_profile", "road_edge_profile", "vehicle_baseline",
)  # fmt: skip
"""What the jobs look up: a run begins with a copy of what the live database knows now."""


def of_run(run: Run) -> list[Table]:
    """The tables that a run of all vehicles, or of some, can speak for."""
    return [table for table in TABLES if not (table.fleet and run.vehicles)]


def within(table: Table) -> str:
    """SQL: whether a row belongs to a run; parameters ``since``, ``until`` and ``vehicles`` (null: all)."""
    words = [f"{table.time} >= %(since)s", f"{table.time} < %(until)s"]
    if table.length:
        words.append(f"{table.time} + interval '{table.length}' <= %(until)s")
    if not table.fleet:
        words.append("(%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))")
    return " AND ".join(words)


_SESSION: Final = {"application_name": "odograph-replay", "extra_float_digits": "1"}
connected = partial(db.connected, autocommit=True, connect_timeout_s=5, session=_SESSION)
"""A connection in autocommit; its own failures become ServiceError."""
asked = partial(db.asked, connect_timeout_s=5, session=_SESSION)
"""The rows of one query over a connection of its own; raises ServiceError."""


def create(owner_url: str, name: str) -> None:
    """The run's database with all tables, and what the jobs look up as the live one has it. Idempotent."""
    with connected(owner_url) as live:
        if live.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            live.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        own_url = with_name(owner_url, name)
        migrate(own_url)
        with connected(own_url) as own, own.transaction():
            for table in REFERENCES:
                copy_new(live, own, table)


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


def copy_new(
    source: Connection, target: Connection, table: str, where: str = "true", values: Any = None
) -> None:
    """Those rows of a table of odograph that the target does not have; in a transaction of the target."""
    columns = ", ".join(names(target, table))
    target.execute(f"CREATE TEMP TABLE given (LIKE odograph.{table}) ON COMMIT DROP")
    query = f"SELECT {columns} FROM odograph.{table} WHERE {where}"  # noqa: S608
    copy(source, query, target, f"given ({columns})", values)
    target.execute(SQL["new_rows"].format(table=table, columns=columns).encode())
    target.execute("DROP TABLE given")


def names(connection: Connection, table: str) -> list[str]:
    """Columns of a table of odograph, in their order."""
    return [str(name) for name, _ in connection.execute(TYPES, {"table": f"odograph.{table}"}).fetchall()]


def drop(owner_url: str, name: str) -> None:
    """Drop a run's database, whoever still uses it."""
    with connected(owner_url) as live:
        live.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def open_work(url: str) -> list[str]:
    """What a run's periodic tasks have still to do."""
    return [f"{count} {what}" for what, count in asked(url, SQL["open_work"])]


def number(url: str, name: str, values: Any = None) -> int:
    """The only value of a statement of this module."""
    return int(asked(url, SQL[name], values)[0][0])


SLICES_READ: Final = 200  # slices whose rows are read to count how many rows differ, and in which columns
COLUMNS_SHOWN: Final = 6
LEFT_OUT: Final = "dead_letter"
NAMED: Final = 20  # so many records that were left out are named
_COUNTS: Final = ("live_rows", "run_rows", "slices", "slices_differing", "rows_differing", "by_column")
"""Of a verdict, as columns of odograph.replay_verdict."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row that differs. ``column`` None: the row is in one of the two only."""

    table: str
    key: Mapping[str, Any]
    column: str | None
    live: Any
    run: Any

    def text(self) -> str:

        def shown(value: Any) -> str:
            return value.isoformat() if isinstance(value, datetime) else str(value)

        row = f"{self.table} ({', '.join(f'{name}={shown(value)}' for name, value in self.key.items())})"
        if self.column is None:
            return f"{row}: only in {'live' if self.live else 'the run'}"
        return f"{row}: {self.column} is live {shown(self.live)}, run {shown(self.run)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison of one table found.

    ``rows_differing`` and ``by_column`` are of the first SLICES_READ slices that differ.
    """

    table: str
    live_rows: int
    run_rows: int
    slices: int
    slices_differing: int
    left_out: int = 0  # rows of live that are not compared: a vehicle that was erased has a part in them
    rows_differing: int = 0
    by_column: Mapping[str, int] = field(default_factory=dict)
    first: Difference | None = None
    named: tuple[str, ...] = ()  # records left out: of the table of dead letters, which is not compared

    @property
    def equal(self) -> bool:
        return not self.slices_differing


def compared(
    live: Connection, own: Connection, run: Run, wanted: Callable[[Table], bool]
) -> Iterator[Verdict]:
    """Each table of ``wanted`` in both databases, one after the other; what is found is kept at the end."""
    found = []
    for table in filter(wanted, of_run(run)):
        found.append(compare(live, own, table, run.parameters()))
        yield found[-1]
    if dead := own.execute(SQL["dead"]).fetchall():
        digests, texts = zip(*dead, strict=True)
        ((live_too,),) = live.execute(SQL["dead_too"], {"digests": [*digests]}).fetchall()
        found.append(Verdict(LEFT_OUT, live_too, len(dead), 0, 0, named=texts[:NAMED]))
        yield found[-1]
    keep(live, run, found)


def compare(live: Connection, run: Connection, table: Table, values: Mapping[str, Any]) -> Verdict:
    """A table of both, within a run's span and vehicles (``values`` of ``within``)."""
    compared = [n for n in names(live, table.name) if n not in table.apart]
    erased = [start for (start,) in live.execute(SQL["erased"], values).fetchall()] if table.fleet else []
    values = {**values, "erased": erased}
    query = SQL["left_out"].format(table=table.name, time=table.time)
    left_out = live.execute(query.encode(), values).fetchall()[0][0] if erased else 0
    if missing := set(compared) ^ {n for n in names(run, table.name) if n not in table.apart}:
        raise ServiceError(f"{table.name}: column {min(missing)} is in one database only; migrate both alike")
    hashes = _statement("hashes", table, compared)
    here, there = (
        {(key, hour): (count, total) for key, hour, count, total in each.execute(hashes, values).fetchall()}
        for each in (live, run)
    )
    places = sorted(here.keys() | there.keys())
    differing = [place for place in places if here.get(place) != there.get(place)]
    live_rows, run_rows = (sum(count for count, _ in side.values()) for side in (here, there))
    first: Difference | None = None
    rows, by_column = 0, Counter[str]()
    for key, hour in differing[:SLICES_READ]:
        place = {**values, "slice": key, "hour": hour}
        for found, columns in differences(live, run, table, compared, place):
            first, rows = first or found, rows + 1
            by_column.update(columns)
    counts = (live_rows, run_rows, len(places), len(differing), left_out, rows)
    return Verdict(table.name, *counts, dict(by_column), first)


def _statement(name: str, table: Table, columns: Sequence[str]) -> bytes:
    """Over the rows that are compared; parameters as of ``within``, and ``erased``: times left out."""
    wanted = f"{within(table)} AND {table.only} AND {table.time} <> ALL(%(erased)s::timestamptz[])"
    named = {"table": table.name, "key": table.keys[0], "time": table.time, "columns": ", ".join(columns)}
    return SQL[name].format(**named, wanted=wanted).encode()


def differences(
    live: Connection, run: Connection, table: Table, compared: Sequence[str], place: Mapping[str, Any]
) -> Iterator[tuple[Difference, list[str]]]:
    """Each row of a slice that differs, by time and key: the first column that does, and the names of all."""
    statement = _statement("slice", table, compared)
    here, there = (
        {tuple(row[key] for key in table.keys): row for row in cursor.execute(statement, place)}
        for cursor in (live.cursor(row_factory=dict_row), run.cursor(row_factory=dict_row))
    )
    by_time = table.keys.index(table.time) if table.time in table.keys else 0
    for key in sorted(here.keys() | there.keys(), key=lambda k: (k[by_time], k)):
        named = dict(zip(table.keys, key, strict=True))
        ours, theirs = here.get(key), there.get(key)
        if ours is None or theirs is None:
            yield Difference(table.name, named, None, ours is not None, theirs is not None), ["(row missing)"]
        elif columns := [column for column in compared if ours[column] != theirs[column]]:
            first = columns[0]
            yield Difference(table.name, named, first, ours[first], theirs[first]), columns


def table_line(verdict: Verdict) -> str:
    """One table of a comparison."""
    if verdict.named:
        lines = "".join(f"\n{'':18} {line}" for line in verdict.named)
        records = f"{verdict.run_rows} records, {verdict.live_rows} in live too"
        return f"{verdict.table:18} left out   {records}{lines}"
    if verdict.equal:
        left = f", {verdict.left_out} left out: an erased vehicle's part" if verdict.left_out else ""
        return f"{verdict.table:18} equal      {verdict.live_rows} rows in {verdict.slices} slices{left}"
    most = sorted(verdict.by_column.items(), key=lambda item: (-item[1], item[0]))[:COLUMNS_SHOWN]
    columns = ", ".join(f"{name} {count}" for name, count in most)
    first = "" if verdict.first is None else f"\n{'':18} first: {verdict.first.text()}"
    return (
        f"{verdict.table:18} DIFFERENT  {verdict.live_rows} rows live, {verdict.run_rows} in the run; "
        f"{verdict.slices_differing} of {verdict.slices} slices, {verdict.rows_differing} rows looked at: "
        f"{columns}{first}"
    )


def keep(live: Connection, run: Run, found: Sequence[Verdict]) -> None:
    """Put these verdicts in the place of the run's former ones, in one transaction."""
    with live.transaction():
        live.execute("DELETE FROM odograph.replay_verdict WHERE run_id = %s", (run.run_id,))
        for place, verdict in enumerate(found):
            numbers = asdict(verdict) | {"by_column": json.dumps(dict(verdict.by_column))}
            first = "; ".join(verdict.named) or (verdict.first and verdict.first.text())
            insert_row(live, "replay_verdict", {
                "run_id": run.run_id, "table_name": verdict.table, "place": place,
                "compared_at": datetime.now(UTC),
                "since": run.span.since, "until": run.span.until, "changed": run.changed(),
                "vehicles": len(run.vehicles) or None, "first_difference": first,
                **{name: numbers[name] for name in _COUNTS},
            })  # fmt: skip
