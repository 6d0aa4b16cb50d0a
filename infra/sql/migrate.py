"""Applies the numbered SQL files of this folder, each once, in order, each in a transaction of its own.

A file beside a module of its name is none of these: it holds that module's statements.
``NNN_name.community.sql`` only where TimescaleDB's license allows its community features. A file that took in
a later one says so, ``-- Formerly SHA-256, with NNN_name.sql after it.``: both, applied, count as the file.
"""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from psycopg import sql

from infra.clients.db import Connection, connected, service_errors, sql_of
from infra.contract import policy
from infra.contract.errors import ConfigError
from infra.sql import tenants

FOLDER = Path(__file__).parent
NAME = re.compile(r"\d{3}_[a-z0-9_]+(\.community)?\.sql")
FORMER = re.compile(r"^-- Formerly ([0-9a-f]{64}), with (\S+) after it\.$", re.MULTILINE)
LOCK_KEY = 0x0D06_12AF
ROLES = (policy.INGEST, policy.DASHBOARD, policy.DISPATCH, policy.TENANT, *policy.LOGINS, policy.AGGREGATES)
UNBOUNDED = "timescaledb.max_tuples_decompressed_per_dml_transaction"


class Migration(NamedTuple):
    """One file: its name, its text, whether it needs the community edition."""

    name: str
    text: str

    @property
    def community(self) -> bool:
        return self.name.endswith(".community.sql")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def stands_in(self, applied: dict[str, str]) -> bool:
        """Whether the database has it as it is now; ``applied``: checksums by name."""
        found = applied.get(self.name)
        former = {sha for sha, after in FORMER.findall(self.text) if after in applied}
        return found in {self.sha256, *former}


def migrations(folder: Path = FOLDER) -> list[Migration]:
    """The files of ``folder`` in the order they are applied; raises ConfigError on a wrong or double name."""
    names = sorted(path.name for path in folder.glob("*.sql") if not path.with_suffix(".py").exists())
    wrong = [name for name in names if NAME.fullmatch(name) is None]
    if wrong:
        raise ConfigError(f"{folder}: {', '.join(wrong)} is not of the form 001_name[.community].sql")
    keys = [name.partition("_")[0] for name in names]
    double = sorted({key for key in keys if keys.count(key) > 1})
    if double:
        raise ConfigError(f"{folder}: number {', '.join(double)} is used twice")
    return [Migration(name, (folder / name).read_text()) for name in names]


def migrate(url: str, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing in the database at ``url``; the names of the files applied now.

    Waits for another migration of the same database to end. Raises ServiceError, ConfigError.
    """
    todo = migrations(folder)
    with connected(url, "database: migration failed", connect_timeout_s=None, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        if connection.execute("SELECT current_setting(%s, true)", (UNBOUNDED,)).fetchone() != ("0",):
            connection.execute(restates_compressed("CURRENT_USER"))
        make_roles(connection, connection.info.user)
        connection.execute(sql_of(__file__)["ledger"])
        applied = _applied(connection)
        changed = [m.name for m in todo if m.name in applied and not m.stands_in(applied)]
        if changed:
            raise ConfigError(
                f"database: {', '.join(changed)} changed after it was applied; put the change into a new "
                "file, or start from an empty database"
            )
        community = license_of(connection) == "timescale"
        missing = [m for m in todo if m.name not in applied and (community or not m.community)]
        for_fleets = tenants.is_made(connection) and (missing or tenants.is_empty(connection))
        if for_fleets:
            tenants.empty(connection)
        for migration in missing:
            with service_errors(f"database: {migration.name}"), connection.transaction():
                connection.execute(migration.text.encode())
                record = "INSERT INTO odograph.migration (name, sha256) VALUES (%s, %s)"
                connection.execute(record, (migration.name, migration.sha256))
        if for_fleets:
            tenants.rebuild(connection)
        return [migration.name for migration in missing]


def make_roles(connection: Connection, owner: str) -> None:
    """The roles that the files grant to, and who has their rights too. Idempotent.

    That of the aggregates may log in, as TimescaleDB asks of who owns a job, and has no password to do it by.
    """
    for role in ROLES:
        if not has_role(connection, role):  # who owns a job must be let log in; without a password none can
            connection.execute(f"CREATE ROLE {role} {'LOGIN' if role == policy.AGGREGATES else 'NOLOGIN'}")
    for role, member in (*policy.MEMBERS, (policy.JOBS, owner)):
        if connection.execute("SELECT pg_has_role(%s, %s, 'USAGE')", (member, role)).fetchone() != (True,):
            grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(member))
            connection.execute(grant)


def has_role(connection: Connection, name: str) -> bool:
    """Whether the server has the role."""
    return connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None


def pending(url: str) -> list[str]:
    """Files that this database lacks or that changed since; raises ServiceError."""
    with connected(url, connect_timeout_s=None, autocommit=True) as connection:
        applied = _applied(connection)
        allowed = license_of(connection) == "timescale"
    return [m.name for m in migrations() if not m.stands_in(applied) and (allowed or not m.community)]


def _applied(connection: Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sha256 FROM odograph.migration").fetchall())


def license_of(connection: Connection) -> str:
    """TimescaleDB's license in force, ``apache`` or ``timescale``; empty without the extension."""
    row = connection.execute("SELECT current_setting('timescaledb.license', true)").fetchone()
    return str(row[0] or "") if row else ""


def restates_compressed(role: str) -> str:
    """SQL by which ``role`` may write into compressed chunks as much as it has to, in later sessions.

    A window of 150 vehicles, restated there, is beyond TimescaleDB's own limit (SQLSTATE 53400).
    """
    return f"ALTER ROLE {role} SET {UNBOUNDED} = 0"
