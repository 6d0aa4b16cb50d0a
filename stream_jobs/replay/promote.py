"""Promotion of a run: its tables into the live database, then serving reads them, in one transaction each."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from psycopg import sql

from infra.clients.db import Connection, sql_of, system_user
from infra.contract.errors import ConfigError
from infra.sql import tenants
from stream_jobs.app.statements import insert
from stream_jobs.replay import databases
from stream_jobs.replay.databases import TABLES, Table, within
from stream_jobs.replay.runs import Run

SQL: Final = sql_of(__file__)

ALERTS_A_RUN: Final = 1_000_000_000
SHIFTED: Final = ("alert_no", "incident_no")  # negative, so that none is taken for a live one
_COPIED: Final = insert(
    "replay_run", ("run_id", "since", "until", "vehicles", "changed", "state"), "RETURNING run_no"
)
_VIEWS: Final = SQL["views"]


def on_its_clock(own: Connection) -> None:
    """Let what the dashboard reads of a run take the newest event time for now. Idempotent."""
    with own.transaction():
        own.execute(SQL["clock"])
        _remake(own, lambda definition: re.sub(r"(?<![\w.])now\(\)", "replay.now()", definition))


def state_of(live: Connection, run_id: str) -> str | None:
    """How far the promotion of a run is: copied, promoted, rolled back; None before it."""
    row = live.execute(SQL["state"], (run_id,)).fetchone()
    return str(row[0]) if row else None


def promote(live: Connection, own: Connection, run: Run) -> int:
    """Let serving read the run; the rows copied. What a crash left half done is finished."""
    copied = 0
    if state_of(live, run.run_id) is None:
        copied = copy_in(live, own, run)
    with live.transaction():
        live.execute(SQL["lock"])
        live.execute(SQL["promoted"], (system_user(), run.run_id))
        _read_through(live)
    return copied


def copy_in(live: Connection, own: Connection, run: Run) -> int:
    """The run's tables into a schema of its own, in one transaction; how many rows."""
    with live.transaction():
        live.execute(SQL["lock"])
        given = run.parameters() | {"run_id": run.run_id, "changed": run.changed(), "state": "copied"}
        ((number,),) = live.execute(_COPIED, given).fetchall()
        live.execute(f"CREATE SCHEMA {run.schema}")
        # Recorded drives told the live jobs of no vehicle.
        databases.copy_new(own, live, "vehicle", "vehicle_id = ANY(%(vehicles)s::text[])", given)
        return sum(_copy_table(live, own, run, table, number) for table in databases.of_run(run))


def _copy_table(live: Connection, own: Connection, run: Run, table: Table, number: int) -> int:
    target, columns = f"{run.schema}.{table.name}", databases.names(live, table.name)
    live.execute(f"CREATE TABLE {target} (LIKE odograph.{table.name} INCLUDING INDEXES)")
    shift = f"-({number} * {ALERTS_A_RUN}::bigint + %s)"
    sources = ", ".join(shift % name if name in SHIFTED else name for name in columns)
    wanted = within(table)
    if table.with_alerts:
        alerts = next(t for t in TABLES if t.name == "alert")
        belongs = table.with_alerts
        wanted = f"{belongs} IN (SELECT {belongs} FROM odograph.alert WHERE {within(alerts)})"  # noqa: S608
    query = f"SELECT {sources} FROM odograph.{table.name} WHERE {wanted}"  # noqa: S608
    return databases.copy(own, query, live, f"{target} ({', '.join(columns)})", run.parameters())


def rollback(live: Connection, run_id: str) -> None:
    """Let serving read what it read before; the run's rows stay, to be promoted again. Raises ConfigError."""
    state = state_of(live, run_id)
    if state == "rolled back":
        return
    if state != "promoted":
        raise ConfigError(f"run {run_id} is not promoted: there is nothing to roll back")
    with live.transaction():
        live.execute(SQL["lock"])
        live.execute(SQL["back"], (run_id,))
        _read_through(live)


def forget(live: Connection, run: Run) -> None:
    """Drop the run's rows from the live database; raises ConfigError while it is read."""
    if state_of(live, run.run_id) == "promoted":
        raise ConfigError(f"run {run.run_id} is read now: odograph replay rollback {run.run_id} comes first")
    with live.transaction():
        live.execute(SQL["lock"])
        live.execute(f"DROP SCHEMA IF EXISTS {run.schema} CASCADE")
        live.execute("DELETE FROM odograph.replay_run WHERE run_id = %s", (run.run_id,))
        databases.keep(live, run, ())


def _read_through(live: Connection) -> None:
    """Make the promoted views, and what reads them, as the list of promoted runs has it; in a transaction."""
    for_fleets = tenants.is_made(live)
    if for_fleets:
        tenants.empty(live)
    live.execute("SET LOCAL search_path = pg_catalog")
    runs = [Promoted(*row) for row in live.execute(SQL["read_now"]).fetchall()]
    for table in TABLES if runs else ():
        for run in runs:
            _complete(live, run.schema, table.name)
        live.execute(promoted_view(table, databases.names(live, table.name), runs))
    _remake(live, lambda definition: reading("promoted" if runs else "odograph", definition))
    for table in () if runs else TABLES:
        live.execute(f"DROP VIEW IF EXISTS promoted.{table.name}")
    if for_fleets:
        tenants.rebuild(live)


def _remake(connection: Connection, change: Callable[[str], str]) -> None:
    """Make those views and functions of schema serving again whose definitions ``change`` changes."""
    for _, _, definition in connection.execute(_VIEWS).fetchall():
        after = change(definition)
        if after != definition:
            connection.execute(after)


def _complete(live: Connection, schema: str, table: str) -> None:
    """Add what a run that was copied by an older version lacks: the table, or columns of it."""
    live.execute(f"CREATE TABLE IF NOT EXISTS {schema}.{table} (LIKE odograph.{table} INCLUDING INDEXES)")
    given = {"own": f"odograph.{table}", "copy": f"{schema}.{table}"}
    for column, kind in live.execute(SQL["lacking"], given).fetchall():
        live.execute(f"ALTER TABLE {schema}.{table} ADD COLUMN {column} {kind}")


class Promoted(NamedTuple):
    """A promoted run: its schema, span and vehicles (None: all)."""

    schema: str
    since: datetime
    until: datetime
    vehicles: list[str] | None

    def has(self, table: Table) -> str:
        """databases.within with its values written out: a view takes no parameters."""
        return within(table) % {
            name: sql.Literal(value).as_string() for name, value in self._asdict().items()
        }


def promoted_view(table: Table, columns: Sequence[str], runs: Sequence[Promoted]) -> str:
    """The view of a table over ``runs``, the one promoted last at their end."""
    given = [run for run in runs if run.vehicles is None or not table.fleet]
    parts = []
    for place, schema in enumerate(("odograph", *(run.schema for run in given))):
        # Rows that none of the runs over it has in their place.
        hidden = [f"({run.has(table)}) IS NOT TRUE" for run in ([] if table.with_alerts else given[place:])]
        where = f" WHERE {' AND '.join(hidden)}" if hidden else ""
        parts.append(f"SELECT {', '.join(columns)} FROM {schema}.{table.name}{where}")  # noqa: S608
    return f"CREATE OR REPLACE VIEW promoted.{table.name} AS " + " UNION ALL ".join(parts)


def reading(schema: str, definition: str) -> str:
    """A definition that reads tables of TABLES in odograph or promoted, reading them in ``schema``."""
    listed = "|".join(table.name for table in TABLES)
    return re.sub(rf"\b(?:odograph|promoted)\.({listed})\b(?!_)", rf"{schema}.\1", definition)
