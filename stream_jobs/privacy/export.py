"""All that is known of a vehicle, in a folder: its rows, its frames as they came, its certificates.

Whatever table names vehicles is found by the database's catalogue: tables of the service, of users' queries,
of runs that are copied or promoted, and what TimescaleDB keeps of aggregates by vehicle.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import psycopg
from psycopg import sql

from infra.clients.db import Connection, connected, sql_of
from infra.clients.duck import connected as duck
from infra.contract.errors import ConfigError
from infra.contract.legal_basis import LAW, LegalBasis
from infra.settings.settings import Settings, endpoints
from infra.settings.values import vehicle_id
from infra.sql import queries
from infra.sql.tenants import OF_ROWS
from infra.stack.access.identity import DEVICES, FOLDER
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of, sha256_of

SQL: Final = sql_of(__file__)

MANIFEST: Final = "manifest.json"
FRAMES: Final = "frames.parquet"


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


def of_vehicle(connection: Connection, vehicle: str) -> Iterator[Table]:
    """The tables that name vehicles; those first whose rows belong to rows of others."""
    own = sql.SQL("vehicle_id = {}").format(sql.Literal(vehicle))
    for name, (column, owner) in OF_ROWS.items():
        rows = sql.SQL("{0} IN (SELECT {0} FROM {1} WHERE {2})").format(
            sql.Identifier(column), sql.Identifier("odograph", owner), own
        )
        yield Table("odograph", name, rows)
    pseudonym = sql.SQL("(SELECT pseudonym FROM odograph.pseudonym WHERE {})").format(own)
    logged = sql.SQL("{} OR vehicle_id = {}").format(own, pseudonym)
    for schema, name in connection.execute(SQL["tables"]).fetchall():
        if (schema, name) not in {("odograph", other) for other in OF_ROWS}:
            yield Table(schema, name, logged if (schema, name) == ("odograph", "audit_log") else own)


def export(settings: Settings, vehicle: str, folder: Path, basis: LegalBasis) -> dict[str, Any]:
    """Write a vehicle's data into ``folder``, which must not exist; what is there, by file.

    A CSV a table with the vehicle's rows, the archived records as they came, certificates without keys, and a
    manifest with rows, bytes and SHA-256 of each. The folder is there whole or not at all. The audit log says
    that it was made, and the legal basis. Raises ConfigError for a vehicle of which nothing is known and for
    a basis that does not let it be named, ServiceError, ArchiveError.
    """
    if not basis.names_vehicle:
        raise ConfigError(f"{basis.kind}: the vehicle must not be named, and a copy of all names it")
    vehicle_id(vehicle)
    if folder.exists():
        raise ConfigError(f"{folder} exists: a folder that does not is wanted")
    where = endpoints(settings, ("db_owner_url",))
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    try:
        files: dict[str, int] = {}
        with connected(where.db_owner_url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for table in [*of_vehicle(connection, vehicle)]:
                if rows := _table(connection, table, draft / f"{table}.csv"):
                    files[f"{table}.csv"] = rows
        if rows := _frames(settings.paths.home, vehicle, draft / FRAMES):
            files[FRAMES] = rows
        for path in (settings.paths.home / FOLDER / DEVICES / "issued" / vehicle).glob("*.pem"):
            shutil.copyfile(path, draft / f"certificate-{path.name}")
            files[f"certificate-{path.name}"] = 1
        if not files:
            raise ConfigError(f"{vehicle}: nothing is known of this vehicle")
        made = {
            "vehicle_id": vehicle,
            "legal_basis": {"law": LAW, "basis": basis.kind, "reference": basis.reference},
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": {
                name: {"rows": n, "bytes": (draft / name).stat().st_size, "sha256": sha256_of(draft / name)}
                for name, n in sorted(files.items())
            },
        }
        (draft / MANIFEST).write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2))
        queries.note(
            where.db_owner_url, "downloaded", vehicle, f"all data of the vehicle, {len(files)} files; {basis}"
        )
        draft.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return made


def _table(connection: Connection, table: Table, path: Path) -> int:
    """A table's rows of the vehicle as CSV with a head; how many there are. Without any there is no file."""
    text = sql.SQL("COPY (SELECT * {}) TO STDOUT (FORMAT csv, HEADER)").format(table.of)
    with path.open("wb") as file, connection.cursor() as cursor:
        with cursor.copy(text) as rows:
            for some in rows:
                file.write(some)
        count = cursor.rowcount
    if not count:
        path.unlink()
    return count


def _frames(home: Path, vehicle: str, path: Path) -> int:
    """The vehicle's archived records in the order of their receipt, with where they lay in the log."""
    files = reader.paths(archive_of(home))
    if not files:
        return 0
    with duck() as connection:
        values = {"files": files, "vehicle": vehicle, "path": str(path)}
        ((rows,),) = connection.execute(SQL["frames"], values).fetchall()
    if not rows:
        path.unlink()
    return int(rows)
