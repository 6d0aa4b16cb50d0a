"""The embedded PostgreSQL with TimescaleDB: cluster, roles and databases."""

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import errors, sql

from infra.clients import database_url
from infra.clients.db import Connection, session
from infra.contract import policy
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.sections import Db
from infra.sql.migrate import UNBOUNDED, make_roles, restates_compressed
from infra.stack import cache, probes, rootfs
from infra.stack.rootfs import CONFIG, DATA, inside
from infra.stack.service import HOST, Service

USER = "odograph-postgres"
SUPERUSER = "postgres"
DATABASE = "odograph"
OWNER: Final = "odograph_owner"
SHARED: Final = {"ingest": policy.INGEST, "dashboard": policy.DASHBOARD, "dispatch": policy.DISPATCH}
PROGRAMS: Final = {login.removeprefix("odograph_"): login for login in policy.LOGINS}
BY_NAME: Final = {"owner": OWNER, **SHARED, **PROGRAMS}
"""Who logs in, and as which role. Programs that write have a login each, unless the settings name one."""
LIMITS: Final[dict[str, tuple[LiteralString, ...]]] = {
    **dict.fromkeys((policy.INGEST, policy.JOBS, policy.MAINTENANCE), (f"{UNBOUNDED} = 0",)),
    policy.DASHBOARD: ("default_transaction_read_only = on", "statement_timeout = '15s'"),
    policy.DISPATCH: ("statement_timeout = '8s'",),
}
INITDB_S = 120
NEW_PASSWORD_FILE = "new-password"  # noqa: S105  a file's name

TEMPLATE: Final = Path(__file__).with_name("postgresql.conf")
ACCESS = f"host all all {HOST}/32 scram-sha-256\n"
TLS: Final = f"""
ssl = on
ssl_cert_file = '{CONFIG}/server.pem'
ssl_key_file = '{CONFIG}/server.key'
ssl_min_protocol_version = 'TLSv1.3'
"""
NO_FILES: Final[Mapping[str, str]] = MappingProxyType({})
INITDB = f"""
rm -rf {DATA}/cluster.new &&
{cache.POSTGRES_BIN}/initdb -D {DATA}/cluster.new --pwfile={CONFIG}/{NEW_PASSWORD_FILE} "$@" &&
mv -T {DATA}/cluster.new {DATA}/cluster
"""
"""Makes the cluster beside its place and renames it: a half-made one is never taken for a whole one."""


USER_TABLES: Final = """
DO $$
DECLARE
    of_before regclass;
BEGIN
    FOR of_before IN SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('user_sql')
                     AND relkind = 'r' AND relowner = 'odograph_ingest'::regrole LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO odograph_jobs', of_before);
    END LOOP;
END $$
"""
"""Those of users' SQL, made when all programs had one login, go to the stream jobs, which made them."""
ERASES: Final = f"""
GRANT EXECUTE ON FUNCTION pg_switch_wal(), pg_ls_waldir() TO {OWNER};
GRANT pg_checkpoint TO {OWNER};
"""
"""What it takes to write over the server's own log (stream_jobs/privacy)."""


class Passwords(dict[str, str]):
    """Of the cluster's superuser and of who logs in, by name; not to be printed."""

    def __repr__(self) -> str:
        return "Passwords(***)"


def passwords(path: Path) -> Passwords:
    """The passwords kept in ``path``; those that are missing are made up, readable by the owner only."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    missing = {"superuser", *BY_NAME} - kept.keys()
    if missing:
        kept |= {name: secrets.token_urlsafe(24) for name in sorted(missing)}
        write_private(path, json.dumps(kept))
    return Passwords(kept)


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, with mode 0600 from the start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
        file.write(text)
    new.replace(path)


def url(user: str, password: str, port: int, database: str = DATABASE, ca: Path | None = None) -> str:
    """A libpq URL of the embedded server; ``ca``: the authority by which it must show who it is."""
    tls = "" if ca is None else f"?sslmode=verify-full&sslrootcert={quote(str(ca))}"
    return f"postgresql://{user}:{password}@{HOST}:{port}/{database}{tls}"


def postgres(
    root: Path, data: Path, config: Path, port: int, superuser_url: str, tls: Mapping[str, str] = NO_FILES
) -> Service:
    """PostgreSQL on a loopback port with its cluster in ``data``.

    ``tls``: its certificate and key, ``server.pem`` and ``server.key``; then it takes no plain connection.
    """
    server = (
        f"{cache.POSTGRES_BIN}/postgres",
        *("-D", f"{DATA}/cluster"),
        f"--config-file={CONFIG}/postgresql.conf",
        f"--hba-file={CONFIG}/pg_hba.conf",
        f"--ident-file={CONFIG}/pg_ident.conf",
    )
    return Service(
        name="postgres",
        command=inside(root, data, config, USER, *server),
        port=port,
        port_setting="ODOGRAPH_DB_PORT",
        probe=partial(probes.database, superuser_url),
        prepare=partial(_prepare, root, data, config, port, database_url.login(superuser_url)[1], tls),
        stop_signal=signal.SIGINT,  # fast: ends sessions; SIGTERM would wait for them
        ready_s=60.0,
        again_on="is still in use",
    )


def configure(data: Path, config: Path, port: int, tls: Mapping[str, str] = NO_FILES) -> None:
    """The folders of a server, and its settings."""
    settings, access = TEMPLATE.read_text().format(host=HOST, port=port), ACCESS
    if tls:
        settings, access = settings + TLS, ACCESS.replace("host", "hostssl", 1)
    texts = {"postgresql.conf": settings, "pg_hba.conf": access, "pg_ident.conf": ""}
    rootfs.furnish(data, config, USER, {**tls, **texts})


def _prepare(root: Path, data: Path, config: Path, port: int, password: str, tls: Mapping[str, str]) -> None:
    configure(data, config, port, tls)
    if (data / "cluster").exists():
        return
    rootfs.write_config(config, USER, {NEW_PASSWORD_FILE: password})
    options = ("--username=postgres", "--auth=scram-sha-256")
    locale = ("--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums")
    initdb = ("/bin/sh", "-c", INITDB, "initdb", *options, *locale)
    command = inside(root, data, config, USER, *initdb)
    done = subprocess.run(command, capture_output=True, text=True, timeout=INITDB_S, check=False)
    (config / NEW_PASSWORD_FILE).unlink()
    if done.returncode != 0:
        raise ServiceError(f"postgres: initdb in {data} failed: {(done.stderr or done.stdout).strip()}")


as_superuser = partial(session, connect_timeout_s=None, autocommit=True)
"""A connection at the superuser's address."""


def ensure_roles(superuser_url: str, words: Passwords) -> None:
    """Create all roles of the embedded server, or set passwords and limits again. Idempotent."""
    with as_superuser(superuser_url) as connection:
        for name, role in BY_NAME.items():
            _let_log_in(connection, role, words[name], role)
        make_roles(connection, OWNER)
        connection.execute(restates_compressed(OWNER))
        connection.execute(f"ALTER ROLE {OWNER} CREATEDB")  # a shadow run has a database of its own


def _let_log_in(connection: Connection, user: str, password: str, role: str) -> None:
    """Make the user or set its password; with the rights of ``role``, and what holds for its sessions."""

    def there(name: str) -> bool:
        found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
        return found.fetchone() is not None

    of, to = sql.Identifier(role), sql.Identifier(user)
    if user != role and not there(role):
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(of))
    login = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}" if there(user) else "CREATE ROLE {} LOGIN PASSWORD {}")
    connection.execute(login.format(to, sql.Literal(password)))
    if user != role:
        connection.execute(sql.SQL("GRANT {} TO {}").format(of, to))
    for limit in LIMITS.get(role, ()):
        connection.execute(sql.SQL("ALTER ROLE {} SET " + limit).format(to))


def ensure_database(superuser_url: str, name: str) -> None:
    """Create a database of the owner's with TimescaleDB in it, unless it is there. Idempotent."""
    with as_superuser(superuser_url) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE template0")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(OWNER)))
    with as_superuser(superuser_url, dbname=name) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        connection.execute(USER_TABLES)
        connection.execute(ERASES)


ROLES: Final = {f"{name}_url": role for name, role in SHARED.items()}
"""By the setting that may say how to log in."""
CONNECT_S: Final = 10


def check_owner(db: Db) -> None:
    """Raise ConfigError where the settings name an external database, and not as whom to make its tables."""
    if (given := db.given()) and "url" not in given:
        names = ", ".join(f"ODOGRAPH_DB_{key}".upper() for key in given)
        raise ConfigError(f"{names}: ODOGRAPH_DB_URL, the owner's, is missing: it makes tables and roles")


def addresses(db: Db, words: Passwords) -> dict[str, Any]:
    """The ``db_`` fields of Endpoints: who logs in how, as the settings say, else under its own name."""
    given = db.given()

    def own(name: str, role: str) -> str:
        url = database_url.with_user(given["url"], role, words[name])
        return database_url.to_primary(url, reads=role == policy.DASHBOARD)

    found = {f"db_{name}_url": given.get(f"{name}_url") or own(name, role) for name, role in SHARED.items()}
    programs = {} if "ingest_url" in given else {name: own(name, role) for name, role in PROGRAMS.items()}
    return {"db_owner_url": given["url"], **found, "db_program_urls": programs}


def _logins(made: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Of such addresses, but the owner's: the setting that may name one, the role, the address."""
    shared = [(key, role, made[f"db_{key}"]) for key, role in ROLES.items()]
    return shared + [("ingest_url", PROGRAMS[name], url) for name, url in made["db_program_urls"].items()]


def ensure_logins(db: Db, words: Passwords) -> None:
    """Let each role's user log in: with the password of its setting, else of this home. Who can stays as is.

    Raises ConfigError naming the settings whose users are missing where the owner may not make them.
    """
    made, lacking = addresses(db, words), []
    query = "SELECT 1 FROM pg_roles WHERE rolname = %s AND rolcanlogin"
    try:
        with session(made["db_owner_url"], connect_timeout_s=CONNECT_S, autocommit=True) as connection:
            for key, role, url in _logins(made):
                user, password = database_url.login(url)
                if password and not connection.execute(query, (user,)).fetchone():
                    lacking.append(f"ODOGRAPH_DB_{key}".upper())
                    _let_log_in(connection, user, password, role)
    except errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"{lacking[-1]}: its user is not there, and that of ODOGRAPH_DB_URL may not make it ({error}); "
            "make it, or allow the owner CREATEROLE"
        ) from error
    except psycopg.Error as error:
        raise ServiceError(f"ODOGRAPH_DB_URL: {str(error).strip()}") from error


def check_logins(db: Db, words: Passwords) -> None:
    """Log in as each role once; raises ConfigError where that fails or the user is no member of its role."""
    for key, role, url in _logins(addresses(db, words)):
        setting = f"ODOGRAPH_DB_{key}".upper()
        try:
            with session(url, connect_timeout_s=CONNECT_S) as connection:
                query = "SELECT pg_has_role(current_user, %s, 'member')"
                row = connection.execute(query, (role,)).fetchone()
        except psycopg.Error as error:
            own = "" if key in db.given() else f" (not set: {role} with this home's password)"
            raise ConfigError(f"{setting}{own}: {str(error).strip()}") from error
        if row is None or not row[0]:
            user = database_url.user(url)
            raise ConfigError(f"{setting}: {user} is no member of {role}: GRANT {role} TO {user}")
