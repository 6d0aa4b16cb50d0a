"""Promotion of a run: its tables into the live database, then serving reads them, in one transaction each."""

import getpass
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

import structlog
from psycopg import sql

from infra.clients.db import sql_of
from infra.contract.errors import ConfigError
from infra.sql import tenants
from stream_jobs.app.database import insert_row
from stream_jobs.app.statements import insert
from stream_jobs.replay.databases import TABLES, Connection, Table, copy, keep, names, of_run, within
from stream_jobs.replay.runs import Run

SQL: Final = sql_of(__file__)

ALERTS_A_RUN: Final = 1_000_000_000
SHIFTED: Final = ("alert_no", "incident_no")  # negative, so that none is taken for a live one
_COPIED: Final = insert(
    "replay_run", ("run_id", "since", "until", "vehicles", "changed", "state"), "RETURNING run_no"
)
_VEHICLE: Final = ("vehicle_id", "model", "powertrain", "vehicle_class", "state", "state_at", "boot_id")
_VIEWS: Final = SQL["views"]

log = structlog.get_logger("replay")


def on_its_clock(own: Connection) -> None:
    """Let what the dashboard reads of a run take the newest event time for now. Idempotent."""
    with own.transaction():
        own.execute(SQL["clock"])
        for _, _, definition in own.execute(_VIEWS).fetchall():
            after = re.sub(r"(?<![\w.])now\(\)", "replay.now()", definition)
            if after != definition:
                own.execute(after)


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
        live.execute(SQL["promoted"], (getpass.getuser(), run.run_id))
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
        for known in own.execute(SQL["vehicles"], given).fetchall():
            insert_row(live, "vehicle", dict(zip(_VEHICLE, known, strict=True)), "ON CONFLICT DO NOTHING")
        return sum(_copy_table(live, own, run, table, number) for table in of_run(run.whole_fleet))


def _copy_table(live: Connection, own: Connection, run: Run, table: Table, number: int) -> int:
    target, columns = f"{run.schema}.{table.name}", names(live, table.name)
    live.execute(f"CREATE TABLE {target} (LIKE odograph.{table.name} INCLUDING INDEXES)")
    shift = f"-({number} * {ALERTS_A_RUN}::bigint + %s)"
    sources = ", ".join(shift % name if name in SHIFTED else name for name in columns)
    wanted = within(table)
    if table.with_alerts:
        alerts = next(t for t in TABLES if t.name == "alert")
        belongs = table.with_alerts
        wanted = f"{belongs} IN (SELECT {belongs} FROM odograph.alert WHERE {within(alerts)})"  # noqa: S608
    query = f"SELECT {sources} FROM odograph.{table.name} WHERE {wanted}"  # noqa: S608
    return copy(own, query, live, f"{target} ({', '.join(columns)})", run.parameters())


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
        keep(live, run, ())


def _read_through(live: Connection) -> None:
    """Make the promoted views, and what reads them, as the list of promoted runs has it; in a transaction."""
    for_fleets = tenants.is_made(live)
    if for_fleets:
        tenants.empty(live)
    _read_serving_through(live)
    if for_fleets:
        tenants.rebuild(live)


def _read_serving_through(live: Connection) -> None:
    live.execute("SET LOCAL search_path = pg_catalog")
    runs = [
        Promoted(f"run_{run_id}", since, until, None if vehicles is None else tuple(vehicles))
        for run_id, since, until, vehicles in live.execute(SQL["read_now"]).fetchall()
    ]
    if runs:
        for table in TABLES:
            for run in runs:
                _complete(live, run.schema, table.name)
            live.execute(promoted_view(table, names(live, table.name), runs))
        for kind, name, before in live.execute(_VIEWS).fetchall():
            after = through_promoted(before)
            if after != before:
                live.execute(after)
                live.execute(SQL["before"], (kind, name, before, _definition(live, kind, name)))
        return
    kept = live.execute("SELECT kind, name, before, promoted FROM odograph.view_backup").fetchall()
    for kind, name, before, promoted in kept:
        if _definition(live, kind, name) == promoted:
            live.execute(before)
        else:
            log.warning("changed since the promotion, left as it is", kind=kind, name=name)
    live.execute("DELETE FROM odograph.view_backup")
    for table in TABLES:
        live.execute(f"DROP VIEW IF EXISTS promoted.{table.name}")


def _complete(live: Connection, schema: str, table: str) -> None:
    """Add what a run that was copied by an older version lacks: the table, or columns of it."""
    live.execute(f"CREATE TABLE IF NOT EXISTS {schema}.{table} (LIKE odograph.{table} INCLUDING INDEXES)")
    given = {"own": f"odograph.{table}", "copy": f"{schema}.{table}"}
    for column, kind in live.execute(SQL["lacking"], given).fetchall():
        live.execute(f"ALTER TABLE {schema}.{table} ADD COLUMN {column} {kind}")


def _definition(live: Connection, kind: str, name: str) -> str | None:
    return {(k, n): text for k, n, text in live.execute(_VIEWS).fetchall()}.get((kind, name))


class Promoted(NamedTuple):
    """A promoted run: its schema, span and vehicles (None: all)."""

    schema: str
    since: datetime
    until: datetime
    vehicles: tuple[str, ...] | None

    def has(self, table: Table) -> str:
        """databases.within with its values written out: a view takes no parameters."""
        vehicles = None if self.vehicles is None else [*self.vehicles]
        values = {"since": self.since, "until": self.until, "vehicles": vehicles}
        return within(table) % {name: sql.Literal(value).as_string() for name, value in values.items()}


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


def through_promoted(definition: str) -> str:
    """A definition that reads ``odograph.<table>``, reading the promoted views instead."""
    listed = "|".join(table.name for table in TABLES)
    return re.sub(rf"\bodograph\.({listed})\b(?!_)", r"promoted.\1", definition)
