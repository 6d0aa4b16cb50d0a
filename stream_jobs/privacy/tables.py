"""The rows of one vehicle in the database, by its catalogue: whatever table names vehicles is found.

Tables of the service, of users' queries, of runs that are copied or promoted, and what TimescaleDB keeps of
aggregates by vehicle.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from psycopg import sql

from infra.clients.db import Connection, sql_of
from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID
from infra.sql.tenants import OF_ROWS

SQL: Final = sql_of(__file__)
OWN: Final = sql.SQL("vehicle_id = {}")


class Table(NamedTuple):
    """A table, and the condition that its rows of the vehicle meet."""

    schema: str
    name: str
    rows: sql.Composed

    @property
    def of(self) -> sql.Composed:
        return sql.SQL("FROM {} WHERE {}").format(sql.Identifier(self.schema, self.name), self.rows)

    def __str__(self) -> str:
        return self.name if self.schema == "odograph" else f"{self.schema}.{self.name}"


def vehicle_id(text: str) -> str:
    """The id, if it is one. Raises ConfigError."""
    if VEHICLE_ID.fullmatch(text) is None:
        raise ConfigError(f"{text!r} is no vehicle id: 17 characters by ISO 3779, without I, O and Q")
    return text


def of_vehicle(connection: Connection, vehicle: str) -> Iterator[Table]:
    """The tables that name vehicles; those first whose rows belong to rows of others."""
    own = OWN.format(sql.Literal(vehicle))
    for name, (column, owner) in OF_ROWS.items():
        rows = sql.SQL("{0} IN (SELECT {0} FROM {1} WHERE {2})").format(
            sql.Identifier(column), sql.Identifier("odograph", owner), own
        )
        yield Table("odograph", name, rows)
    for schema, name in connection.execute(SQL["tables"]).fetchall():
        if (schema, name) not in {("odograph", other) for other in OF_ROWS}:
            yield Table(schema, name, own)
