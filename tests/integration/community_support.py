"""The files of TimescaleDB's community edition, run by the Apache edition as far as it goes.

Plain materialized views stand in for continuous aggregates. Stubs with the names and parameters of the real
functions stand in for policies: a wrong name, parameter or table is an error here too. What the license alone
can do (compression, background refresh) is not run.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import sql

from infra.sql.migrate import migrations
from tests.support import Lane

LICENSED = (
    "add_compression_policy", "add_retention_policy", "remove_retention_policy",
    "add_continuous_aggregate_policy", "remove_continuous_aggregate_policy",
)  # fmt: skip
COMPRESS = re.compile(r"ALTER TABLE \S+ SET \(\s*timescaledb\.compress[^;]*;")
REFRESH = """
CREATE TABLE stub.refreshed (
    no integer GENERATED ALWAYS AS IDENTITY, name text, since timestamptz, until timestamptz
);
CREATE PROCEDURE stub.refresh_continuous_aggregate(
    continuous_aggregate regclass, window_start timestamptz, window_end timestamptz
)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('REFRESH MATERIALIZED VIEW %s', continuous_aggregate);
    INSERT INTO stub.refreshed (name, since, until)
    VALUES (continuous_aggregate::text, window_start, window_end);
END $$;
GRANT USAGE ON SCHEMA stub TO PUBLIC;
GRANT INSERT ON stub.refreshed TO PUBLIC
"""
SIGNATURES = (
    "SELECT proname, pg_get_function_arguments(oid) FROM pg_proc"
    " WHERE proname = ANY(%s) AND pronamespace = 'public'::regnamespace"
)


def apply_community_files(lane: Lane) -> None:
    """All of them, in order, on the lane's database."""
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        _make_stubs(connection)
        connection.execute("SET LOCAL search_path = stub, public")
        statement = "ALTER DATABASE {} SET search_path = stub, public"  # later sessions find the stubs too
        connection.execute(sql.SQL(statement).format(sql.Identifier(connection.info.dbname)))
        for migration in (m for m in migrations() if m.community):
            text = COMPRESS.sub("", migration.text).replace("WITH (timescaledb.continuous)", "")
            connection.execute(text.encode())


def _make_stubs(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE SCHEMA stub")
    found = connection.execute(SIGNATURES, (list(LICENSED),)).fetchall()
    assert {name for name, _ in found} == set(LICENSED)
    for name, arguments in found:
        typed = arguments.replace('"any"', "interval").replace("NULL::unknown", "NULL")
        statement = f"CREATE FUNCTION stub.{name}({typed}) RETURNS integer LANGUAGE sql AS 'SELECT 1'"
        connection.execute(statement.encode())
    connection.execute(REFRESH)


def refreshed(lane: Lane) -> list[tuple[Any, ...]]:
    """Aggregate, begin and end of each refresh that was asked for, in order."""
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        return connection.execute("SELECT name, since, until FROM stub.refreshed ORDER BY no").fetchall()
