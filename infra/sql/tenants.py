"""Schema ``tenant``: the views and functions of schema ``serving`` over the rows of a session's own vehicles.

Row-level security is not for hypertables: TimescaleDB refuses to compress or to aggregate continuously what
has it. So ``fleet.<table>`` is a security-barrier view of each table, and ``tenant.<name>`` is the definition
of ``serving.<name>`` with those in the tables' place. A table says here why a fleet may see its rows; one
that says nothing has none for a fleet. The operator's views are not touched and cost what they did.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from psycopg import errors, sql

from infra.clients.db import Connection, connected, sql_of, system_user
from infra.contract.errors import ConfigError, ServiceError

SQL: Final = sql_of(__file__)
ROLE: Final = "odograph_tenant"
FLEET: Final = r"[A-Za-z0-9_-]{1,40}"
SHARED: Final = frozenset({
    "fuel_factor", "query_progress", "retention", "road_edge", "road_network", "road_rule", "rollup_zone",
    "rule", "score_weight", "trend_metric",
})  # fmt: skip
"""Without vehicles: the catalogue, and how far the pipeline is."""
OWN: Final = "vehicle_id IN (SELECT vehicle_id FROM fleet.own)"
OF_ROWS: Final = {
    "alert_change": ("alert_no", "alert"),
    "alert_evidence": ("alert_no", "alert"),
    "incident_note": ("incident_no", "incident"),
    "eta_prediction": ("request_no", "eta_request"),
}
"""Tables of ``odograph`` whose rows belong to rows of a vehicle: by which column, of which table."""
BY: Final = {
    **{name: f"{key} IN (SELECT {key} FROM fleet.{of})" for name, (key, of) in OF_ROWS.items()},  # noqa: S608
    "audit_log": "false",  # who looked at a vehicle is the operator's business
    "top_key": "false",
}
"""Those, and what is the operator's though it names vehicles."""
ROW_OF: Final = {"crash_digest": "crash_record", "custody_hash": "custody", "audit_hash": "audit_log"}
"""Functions of a table's row, which a view's is not."""
_OF_ROW: Final = re.compile(rf"\bodograph\.({'|'.join(ROW_OF)})\((\w+)\.\*\)")


def is_made(connection: Connection) -> bool:
    """Whether there is a schema tenant: the first fleet makes it."""
    found = connection.execute(SQL["is_made"]).fetchone()
    return bool(found and found[0])


def is_empty(connection: Connection) -> bool:
    """Whether schema tenant waits to be made anew: what emptied it was broken off."""
    return not connection.execute(SQL["tables"], ("tenant",)).fetchall()


def give(owner_url: str, fleet: str, vehicles: Sequence[str]) -> dict[str, str]:
    """Put vehicles into a fleet, an empty name takes them out of theirs; the fleet of each vehicle now.

    Raises ServiceError, ConfigError.
    """
    if fleet and re.fullmatch(FLEET, fleet) is None:
        raise ConfigError(f"fleet {fleet!r}: 1 to 40 letters, digits, _ and - are wanted")
    with connected(owner_url, actor=system_user()) as connection:
        if not is_made(connection):
            rebuild(connection)
        connection.execute(SQL["take"], {"vehicles": list(vehicles), "fleet": fleet})
        if fleet:
            connection.cursor().executemany(
                "INSERT INTO odograph.fleet_vehicle (vehicle_id, fleet) VALUES (%s, %s)",
                [(vehicle, fleet) for vehicle in vehicles],
            )
        return dict(connection.execute("SELECT vehicle_id, fleet FROM odograph.fleet_vehicle").fetchall())


def lend(owner_url: str, driver: str, vehicle: str, seconds: float) -> None:
    """Let a driver, as signed in, look at a vehicle from now on for so long. Raises ServiceError."""
    with connected(owner_url, actor=system_user()) as connection:
        if not is_made(connection):
            rebuild(connection)
        connection.execute(SQL["lend"], (driver, vehicle, seconds))


def session_of(fleets: Sequence[str] = (), driver: str = "") -> dict[str, str]:
    """Settings of a session that sees these fleets' vehicles and the driver's, and nothing else."""
    named = ",".join(fleet for fleet in fleets if re.fullmatch(FLEET, fleet))
    return {"role": ROLE, "odograph.fleets": named, "odograph.driver": driver}


def empty(connection: Connection) -> None:
    """Take all out of schemas tenant and fleet, so that tables can change; a fleet's readers see nothing."""
    with connection.transaction():
        connection.execute("DROP SCHEMA IF EXISTS tenant CASCADE")
        connection.execute("CREATE SCHEMA tenant")
        for name, _ in connection.execute(SQL["tables"], ("fleet",)).fetchall():
            if name != "own":
                connection.execute(
                    sql.SQL("DROP VIEW IF EXISTS fleet.{} CASCADE").format(sql.Identifier(name))
                )


def rebuild(connection: Connection) -> None:
    """Make schema tenant anew from schema serving, in one transaction. Raises ServiceError."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        empty(connection)
        tables = _base_views(connection)
        left = [through_fleet(made, tables) for made, _ in connection.execute(SQL["served"]).fetchall()]
        while left:  # one may read another that comes later
            waiting = [made for made in left if not _made(connection, made)]
            if len(waiting) == len(left):
                raise ServiceError(f"schema tenant: {waiting[0][:200]} reads what is not there")
            left = waiting
        connection.execute(SQL["grants"])


def through_fleet(definition: str, tables: frozenset[str]) -> str:
    """A definition of schema serving over the views of schema fleet, itself in schema tenant."""
    found = re.sub(
        r"\b(odograph|promoted)\.(\w+)\b(?!\s*\()",
        lambda m: f"fleet.{m[2]}" if m[2] in tables else m[0], definition,
    )  # fmt: skip
    found = _OF_ROW.sub(lambda m: f"odograph.{m[1]}(({m[2]}.*)::text::odograph.{ROW_OF[m[1]]})", found)
    return re.sub(r"\bserving\.", "tenant.", found)


def _base_views(connection: Connection) -> frozenset[str]:
    """Make the views of schema fleet; the names of the tables that have one there."""
    tables: dict[str, bool] = dict(connection.execute(SQL["tables"], ("odograph",)).fetchall())
    promoted = {name for name, _ in connection.execute(SQL["tables"], ("promoted",)).fetchall()}
    made: Any = sql.SQL("CREATE VIEW fleet.{} WITH (security_barrier) AS SELECT * FROM {} WHERE {}")
    for name, of_vehicles in sorted(tables.items(), key=lambda table: table[0] in BY):
        seen = BY.get(name, OWN if of_vehicles else "true" if name in SHARED else "false")
        source = sql.Identifier("promoted" if name in promoted else "odograph", name)
        if name != "fleet_minute":
            connection.execute(made.format(sql.Identifier(name), source, sql.SQL(seen)))
    connection.execute(SQL["fleet_minute"])
    return frozenset(tables)


def _made(connection: Connection, statement: str) -> bool:
    """Whether it could be made; what it reads may not be there yet."""
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedObject):
        return False
    return True
