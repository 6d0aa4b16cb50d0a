"""Two fleets in one database: by every view, function and query of the dashboard each sees its own alone."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FunctionType

import psycopg
import pytest
from psycopg import sql

from dashboard import routes
from dashboard.db import Database, TenantConnection, query
from dashboard.screens.alerts import queries as alert_queries
from dashboard.screens.fleet import queries as fleet_queries
from infra.clients.db import open_connection
from infra.contract.downlink import Fleets
from infra.sql import tenants
from infra.sql.migrate import FOLDER, migrate
from infra.stack.stack import Stack
from tests import support_rows
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration
assert routes  # imports every page's queries

A, B, NOBODY = "north", "south", "none"
Whose = dict[str, set[str]]
_VIEWS = """
SELECT c.relname, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'vehicle_id')
FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'v' ORDER BY 1
"""
_FUNCTIONS = """
SELECT p.oid::regproc::text, pg_get_function_arguments(p.oid) FROM pg_proc p
WHERE p.pronamespace = 'tenant'::regnamespace AND p.proretset AND p.pronargs = 1
  AND p.proargtypes[0] IN ('date'::regtype, 'timestamptz'::regtype)
"""


@pytest.fixture(scope="module")
def filled(stack: Stack) -> Iterator[tuple[Lane, Whose]]:
    """Known rows; every other vehicle is of one fleet, the rest of another one, and one of none."""
    with open_lane(stack, topics=False) as lane:
        with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
            support_rows.fill(connection, datetime.now(UTC))
            vins = [
                vin
                for (vin,) in connection.execute("SELECT vehicle_id FROM odograph.vehicle_latest ORDER BY 1")
            ]
        for name, vehicles in ((A, vins[1::2]), (B, vins[2::2])):
            tenants.give(lane.endpoints.db_owner_url, name, vehicles)
        yield lane, {A: set(vins[1::2]), B: set(vins[2::2]), NOBODY: set()}


def session(lane: Lane, *fleets: str, driver: str = "") -> TenantConnection:
    chosen = tenants.session_of(fleets, driver)
    return open_connection(lane.endpoints.db_dashboard_url, TenantConnection, session=chosen, autocommit=True)


def foreign(text: str, own: set[str], fleets: Whose) -> set[str]:
    return {vin for vin in set().union(*fleets.values()) - own if vin in text}


@pytest.mark.parametrize("fleet", [A, B, NOBODY])
def test_every_view_shows_a_fleet_all_of_its_own_rows_and_none_of_others(
    filled: tuple[Lane, Whose], fleet: str
) -> None:
    lane, fleets = filled
    own, whole = fleets[fleet], 0
    with session(lane, fleet) as reader, psycopg.connect(lane.endpoints.db_dashboard_url) as operator:
        serving = operator.execute(_VIEWS, ("serving",)).fetchall()
        views = dict(reader.execute(_VIEWS, ("tenant",)).fetchall())
        assert dict(serving) == views
        for name, of_vehicles in views.items():
            rows = reader.execute(
                sql.SQL("SELECT t::text FROM tenant.{} t").format(sql.Identifier(name))
            ).fetchall()
            assert foreign("".join(row for (row,) in rows), own, fleets) == set(), name
            if of_vehicles and name != "audit_log":
                every = sql.SQL("SELECT count(*) FROM serving.{} WHERE vehicle_id = ANY(%s)")
                (count,) = operator.execute(every.format(sql.Identifier(name)), (list(own),)).fetchone() or (
                    0,
                )
                assert (name, len(rows)) == (name, count)
                whole += count > 0
        for name, arguments in reader.execute(_FUNCTIONS).fetchall():
            given = "current_date" if arguments.endswith("date") else "now()"
            rows = reader.execute(f"SELECT t::text FROM {name}({given}) t".encode()).fetchall()
            assert foreign("".join(row for (row,) in rows), own, fleets) == set(), name
    assert whole >= (20 if own else 0)


def test_a_fleets_session_reaches_nothing_but_its_views(filled: tuple[Lane, Whose]) -> None:
    lane, _ = filled
    with session(lane, A) as reader:
        for asked in (
            "serving.fleet_latest",
            "odograph.vehicle_latest",
            "fleet.vehicle_latest",
            "odograph.fleet_vehicle",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"SELECT 1 FROM {asked}".encode())
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
            reader.execute("UPDATE tenant.vehicle_window SET frames = 0")


def test_every_query_of_the_dashboard_runs_for_a_fleet_and_shows_no_other(
    filled: tuple[Lane, Whose],
) -> None:
    lane, fleets = filled
    made = "query.<locals>.run"
    queries = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__qualname__ == made]
    answered = 0
    for fleet in (A, B):
        with session(lane, fleet) as reader:
            for asked in queries:
                held = dict(zip(asked.__code__.co_freevars, asked.__closure__ or (), strict=True))
                try:
                    found = asked(reader, **dict.fromkeys(held["heads"].cell_contents))
                except (psycopg.errors.IndeterminateDatatype, psycopg.errors.AmbiguousFunction):
                    found = None  # nulls alone do not say which types: the views were all tried above
                answered += found is not None
                text = "" if found is None else found.to_json()
                assert foreign(text, fleets[fleet], fleets) == set(), asked.__name__
    assert answered > len(queries)


def test_an_alert_names_its_incident_to_a_fleet_unless_others_have_a_share_in_it(
    filled: tuple[Lane, Whose],
) -> None:
    lane, _ = filled

    def told(fleet: str) -> object:
        with session(lane, fleet) as reader:
            return alert_queries.alert(reader, 2)["incident_no"].iloc[0]

    of_fleet = "UPDATE odograph.incident SET vehicle_id = %s WHERE incident_no = %s"
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as owner:
        asked = "SELECT vehicle_id, incident_no FROM odograph.alert WHERE alert_no = 2"
        ((vin, number),) = owner.execute(asked).fetchall()
        fleet = next(name for name, own in filled[1].items() if vin in own)
        assert told(fleet) == number
        owner.execute(of_fleet, (None, number))
        assert told(fleet) is None
        assert alert_queries.alert(owner, 2)["incident_no"].iloc[0] == number
        owner.execute(of_fleet, (vin, number))


def test_a_driver_sees_the_vehicle_that_was_lent_and_only_so_long(filled: tuple[Lane, Whose]) -> None:
    lane, fleets = filled
    vin, asked = min(fleets[A]), "SELECT vehicle_id FROM tenant.fleet_latest"
    assert lane.run("fleet", "lend", "dan o\\x", vin, "--for", "1h").returncode == 0
    with session(lane, driver="dan o\\x") as reader:
        assert reader.execute(asked).fetchall() == [(vin,)]
        for driver in ("eve", f"eve\t-c\todograph.fleets={A}", "eve\t-c\nrole=none"):
            with session(lane, driver=driver) as other:
                assert other.execute(asked).fetchall() == []
        with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
            connection.execute(
                "UPDATE odograph.driver_grant SET from_at = now() - interval '1 h', until_at = now()"
            )
        assert reader.execute(asked).fetchall() == []
    moved = max(fleets[B])
    known = Fleets(lane.home)
    for fleet in (A, B):  # webhooks of a fleet are told of its vehicles by this file
        assert lane.run("fleet", "set", fleet, moved).returncode == 0
        assert (known.of(moved), known.of(vin)) == (fleet, A)
        assert lane.run("fleet", "set", "", moved).returncode == 0
    assert lane.run("fleet", "set", B, moved).returncode == 0
    assert lane.run("audit-log", "--vehicle", moved).stdout.count("fleet taken") == 2
    noted = lane.run("audit-log", "--vehicle", vin).stdout
    assert "vehicle lent" in noted
    assert lane.run("fleet", "list").stdout.split() == [
        A, str(len(fleets[A])), "vehicles", B, str(len(fleets[B])), "vehicles"
    ]  # fmt: skip


def test_connections_of_one_fleet_are_no_others(filled: tuple[Lane, Whose]) -> None:
    lane, fleets = filled
    for fleet in (A, B):
        database = Database(lambda: lane.endpoints.db_dashboard_url, tenant=tenants.session_of([fleet]))
        with database.connection() as connection:
            seen = set(query("seen", "SELECT vehicle_id FROM serving.fleet_latest")(connection)["vehicle_id"])
            ended = connection.execute("SHOW idle_session_timeout").fetchone()
        database.close()
        assert (seen, ended) == (fleets[fleet], ("1min",))


def test_a_fleets_frames_a_second_are_those_of_its_own_vehicles(filled: tuple[Lane, Whose]) -> None:
    lane, fleets = filled
    with psycopg.connect(lane.endpoints.db_dashboard_url) as operator:
        minute = (fleet_queries.fleet_hour(operator)["minute"].max() - timedelta(minutes=3)).to_pydatetime()
        asked = "SELECT vehicle_id, frames / 60.0 FROM serving.vehicle_minute WHERE bucket = %s"
        rates = dict(operator.execute(asked, (minute,)).fetchall())
    for fleet in (A, B):
        own = sum(rate for vin, rate in rates.items() if vin in fleets[fleet])
        with session(lane, fleet) as reader:
            told = fleet_queries.fleet_figures(reader, own=True)["frames_per_s"].iloc[0]
        assert 0 < told == pytest.approx(float(own))


def test_a_fleets_connection_that_the_server_has_ended_is_replaced(filled: tuple[Lane, Whose]) -> None:
    lane, _ = filled
    chosen = {**tenants.session_of([A]), "idle_session_timeout": "50ms"}
    database = Database(lambda: lane.endpoints.db_dashboard_url, tenant=chosen)
    with database.connection() as connection:
        pid = connection.info.backend_pid
    there = "SELECT FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as owner:
        eventually(lambda: owner.execute(there, (pid,)).fetchone() is None, 60, "its end")
    with database.connection() as connection:
        assert connection.info.backend_pid != pid
    database.close()


def test_a_migration_of_tables_that_fleets_read_leaves_them_reading(
    filled: tuple[Lane, Whose], tmp_path: Path
) -> None:
    lane, fleets = filled
    left_out = shutil.ignore_patterns("[!0-9]*")
    folder = Path(shutil.copytree(FOLDER, tmp_path / "sql", ignore=left_out))
    (folder / "999_next.sql").write_text(
        "ALTER TABLE odograph.eta_request RENAME TO asked; ALTER TABLE odograph.asked RENAME TO eta_request;"
        "CREATE VIEW serving.newest AS SELECT * FROM odograph.vehicle_latest;"
    )
    assert migrate(lane.endpoints.db_owner_url, folder) == ["999_next.sql"]
    with session(lane, A) as reader:
        assert {vin for (vin,) in reader.execute("SELECT vehicle_id FROM tenant.newest")} == fleets[A]
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as owner:
        tenants.empty(owner)  # and the migration was killed
    assert migrate(lane.endpoints.db_owner_url, folder) == []
    with session(lane, A) as reader:
        assert reader.execute("SELECT count(*) FROM tenant.newest").fetchone() == (len(fleets[A]),)
