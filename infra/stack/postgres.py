"""The embedded PostgreSQL with TimescaleDB: cluster, roles and databases; and a primary with a standby."""

import json
import secrets
import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import errors, sql

from infra.clients import database_url
from infra.clients.db import Connection, connected, session, sql_of
from infra.clients.waiting import looks
from infra.contract import policy
from infra.contract.errors import ConfigError, ServiceError, raised_as
from infra.settings.files import read_json, write_private
from infra.settings.sections import Db
from infra.sql.migrate import UNBOUNDED, has_role, make_roles, restates_compressed
from infra.stack import probes, processes
from infra.stack.downloads import cache, rootfs
from infra.stack.downloads.rootfs import CONFIG, DATA, inside
from infra.stack.service import HOST, Runner, Service

SQL: Final = sql_of(__file__)
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
TLS: Final = Path(__file__).with_name("postgresql-secure.conf")
NO_FILES: Final[Mapping[str, str]] = MappingProxyType({})
NEW: Final = f"{DATA}/cluster.new"
MAKE: Final = ("/bin/sh", "-c", f'rm -rf {NEW} && "$@" && mv -T {NEW} {DATA}/cluster', "make")
"""Before what makes the cluster as NEW: a half-made one is never taken for a whole one."""


class Passwords(dict[str, str]):
    """Of the cluster's superuser and of who logs in, by name; not to be printed."""

    def __repr__(self) -> str:
        return "Passwords(***)"


def passwords(path: Path) -> Passwords:
    """The passwords kept in ``path``; those that are missing are made up, readable by the owner only."""
    kept = read_json(path)
    missing = {"superuser", *BY_NAME} - kept.keys()
    if missing:
        kept |= {name: secrets.token_urlsafe(24) for name in sorted(missing)}
        write_private(path, json.dumps(kept))
    return Passwords(kept)


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
        again_on=("is still in use", "Is another postmaster"),
    )


def configure(data: Path, config: Path, port: int, tls: Mapping[str, str] = NO_FILES) -> None:
    """The folders of a server, and its settings."""
    settings, access = TEMPLATE.read_text().format(host=HOST, port=port), ACCESS
    if tls:
        settings += TLS.read_text().format(folder=CONFIG)
        access = ACCESS.replace("host", "hostssl", 1)
    texts = {"postgresql.conf": settings, "pg_hba.conf": access, "pg_ident.conf": ""}
    rootfs.furnish(data, config, USER, {**tls, **texts})


def _prepare(root: Path, data: Path, config: Path, port: int, password: str, tls: Mapping[str, str]) -> None:
    configure(data, config, port, tls)
    if (data / "cluster").exists():
        return
    rootfs.write_config(config, USER, {NEW_PASSWORD_FILE: password})
    options = (f"--pwfile={CONFIG}/{NEW_PASSWORD_FILE}", "--username=postgres", "--auth=scram-sha-256")
    locale = ("--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums")
    initdb = (f"{cache.POSTGRES_BIN}/initdb", "-D", NEW, *options, *locale)
    command = inside(root, data, config, USER, *MAKE, *initdb)
    try:
        processes.finished(f"postgres: initdb in {data} failed", command, INITDB_S)
    finally:
        (config / NEW_PASSWORD_FILE).unlink()


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
    of, to = sql.Identifier(role), sql.Identifier(user)
    for name in dict.fromkeys((role, user)):
        if not has_role(connection, name):
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    connection.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(to, sql.Literal(password)))
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
        connection.execute(SQL["user_tables"])
        connection.execute(SQL["erases"])


ROLES: Final = {f"{name}_url": role for name, role in SHARED.items()}
"""By the setting that may say how to log in."""
CONNECT_S: Final = 10


def check_owner(db: Db) -> None:
    """Raise ConfigError where the settings name an external database, and not as whom to make its tables."""
    if (given := db.given()) and "url" not in given:
        names = ", ".join(f"ODOGRAPH_DB_{key}".upper() for key in given)
        raise ConfigError(f"{names}: ODOGRAPH_DB_URL, the owner's, is missing: it makes tables and roles")


def addresses(given: Mapping[str, str], words: Passwords) -> dict[str, Any]:
    """The ``db_`` fields of Endpoints: who logs in how, as the settings say, else under its own name.

    ``given``: addresses by the key of the setting, the owner's ``url`` at least.
    """

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
    made = addresses(db.given(), words)
    query = "SELECT 1 FROM pg_roles WHERE rolname = %s AND rolcanlogin"
    options: dict[str, Any] = {"connect_timeout_s": CONNECT_S, "autocommit": True}
    with connected(made["db_owner_url"], "ODOGRAPH_DB_URL", **options) as connection:
        for key, role, url in _logins(made):
            user, password = database_url.login(url)
            if not password or connection.execute(query, (user,)).fetchone():
                continue
            try:
                _let_log_in(connection, user, password, role)
            except errors.InsufficientPrivilege as error:
                raise ConfigError(
                    f"ODOGRAPH_DB_{key}".upper() + ": its user is not there, and that of ODOGRAPH_DB_URL may "
                    f"not make it ({error}); make it, or allow the owner CREATEROLE"
                ) from error


def check_logins(db: Db, words: Passwords) -> None:
    """Log in as each role once; raises ConfigError where that fails or the user is no member of its role."""
    for key, role, url in _logins(addresses(db.given(), words)):
        setting = f"ODOGRAPH_DB_{key}".upper()
        own = "" if key in db.given() else f" (not set: {role} with this home's password)"
        opened = session(url, connect_timeout_s=CONNECT_S)
        with raised_as(ConfigError, f"{setting}{own}", psycopg.Error), opened as connection:
            row = connection.execute("SELECT pg_has_role(current_user, %s, 'member')", (role,)).fetchone()
        if row is None or not row[0]:
            user = database_url.login(url)[0]
            raise ConfigError(f"{setting}: {user} is no member of {role}: GRANT {role} TO {user}")


REPLICATION: Final = ACCESS + ACCESS.replace("all all", "replication all")
LOGIN_FILE: Final = "pgpass"
LOGIN: Final = f"user={SUPERUSER} passfile={CONFIG}/{LOGIN_FILE}"
"""As the superuser; other programs of this machine can read a command's arguments."""
SIGN: Final = f"{DATA}/cluster/standby.signal"
COMMAND_S: Final = 300.0
SYNC_S: Final = 60.0
POLL_S: Final = 0.05


BOTH: Final = ("postgres-1", "postgres-2")


class PostgresPair:
    """``primary`` and ``standby`` by name, on ``ports``; ``synchronous``: a commit returns when both have it.

    Whoever is started reads ``standby.signal`` and follows. Both have that file, also the primary, which
    looks at it when it starts anew: one that was killed comes back read-only, and takes no writes until it
    is promoted, by hand (README, runbooks).
    """

    def __init__(self, home: Path, cache_dir: Path, runner: Runner, ports: Mapping[str, int]) -> None:
        self._home, self._cache, self.runner, self.ports = home, cache_dir, runner, ports
        self._words, self.synchronous = passwords(home / "secrets.json"), True
        self.file = home / "postgres-primary"

    def names(self) -> list[str]:
        """The primary first: at its end it sends all it has."""
        first = self.file.read_text() if self.file.exists() else BOTH[0]
        return [first, *({*BOTH} - {first})]

    @property
    def primary(self) -> str:
        return self.names()[0]

    @property
    def standby(self) -> str:
        return self.names()[1]

    def url(self) -> str:
        """How the owner logs in, at both addresses."""
        one, other = (f"{HOST}:{self.ports[name]}" for name in BOTH)
        return url(OWNER, self._words["owner"], self.ports[BOTH[0]]).replace(one, f"{one},{other}")

    def begin(self) -> None:
        """Start both, with database and roles. Who was promoted by hand is the primary.

        A standby that is not there is copied.
        """
        primary = next(filter(self._takes_writes, self.names()), self.primary)
        self.runner.start(self.service(primary))
        if self.row(primary, SQL["follows"], "postgres")[0]:
            self.promote(primary)
        self.file.write_text(primary)
        ports = ",".join(f"{self.ports[name]}" for name in BOTH)
        both = f"host={HOST},{HOST} port={ports} target_session_attrs=read-write {LOGIN}"
        self._change(primary, f"ALTER SYSTEM SET primary_conninfo = '{both}'")
        self.run_in(primary, "/usr/bin/touch", SIGN)
        if not (self._data(self.standby) / "cluster").exists():
            self.service(self.standby).prepare()
            copy = ("-D", NEW, "-d", both, "-X", "stream", "-c", "fast")
            self.run_in(self.standby, *MAKE, f"{cache.POSTGRES_BIN}/pg_basebackup", *copy)
        self.follow()  # first: a commit waits for the standby
        ensure_roles(self._url(primary, "postgres"), self._words)
        ensure_database(self._url(primary, "postgres"), DATABASE)

    def _takes_writes(self, name: str) -> bool:
        """Whether it does, or did when it ended: PostgreSQL takes the sign away when it promotes."""
        if self.runner.find(name) is not None:
            self.runner.start(self.service(name))  # which answers then
            return not self.row(name, SQL["follows"], "postgres")[0]
        sign = self._data(name) / Path(SIGN).relative_to(DATA)
        return sign.parent.exists() and not sign.exists()

    def follow(self) -> None:
        """Start the standby, and wait until it has all that the primary writes."""
        self.run_in(self.standby, "/usr/bin/touch", SIGN)
        self.runner.start(self.service(self.standby))
        names = "'*'" if self.synchronous else "''"
        self._change(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = {names}")
        wanted = ("streaming", "sync" if self.synchronous else "async")
        for last in looks(SYNC_S, POLL_S):
            if (found := self.row(self.primary, SQL["streams"], "postgres")) == wanted:
                break
            if last:
                raise ServiceError(
                    f"{self.standby} does not follow {self.primary} within {SYNC_S:g} s: {found}; to have it "
                    "copied anew (what it alone has is lost): odograph down, remove "
                    f"{self._data(self.standby)}, odograph up"
                )

    def role(self, name: str) -> str:
        """Primary, and who follows it how far behind; or standby. Raises ServiceError."""
        if self.row(name, SQL["follows"], "postgres")[0]:
            return "standby"
        sync, behind = self.row(name, SQL["lag"], "postgres") or ("", 0)
        return f"primary, standby {sync}, {behind:,} bytes behind" if sync else "primary, nobody follows"

    def row(self, name: str, statement: str, database: str = DATABASE) -> tuple[Any, ...]:
        """The row that one server gives, as its superuser; nothing where there is none."""
        with self._session(name, database) as connection:
            return connection.execute(statement.encode()).fetchone() or ()

    def service(self, name: str) -> Service:
        """One of the two."""
        places = (self._data(name), self._home / "config" / name)
        own = postgres(cache.rootfs(self._cache), *places, self.ports[name], self._url(name, "postgres"))

        def prepare() -> None:
            if name == self.primary:
                own.prepare()
            else:  # what it holds is a copy of the other one's
                configure(*places, self.ports[name])
            rootfs.write_config(places[1], USER, {"pg_hba.conf": REPLICATION})
            login = {LOGIN_FILE: f"*:*:*:{SUPERUSER}:{self._words['superuser']}\n"}
            rootfs.write_config(places[1], USER, login, own=True)

        return replace(own, name=name, prepare=prepare)

    def promote(self, name: str) -> None:
        """Let it take writes; it waits for nobody."""
        self._change(name, "ALTER SYSTEM RESET synchronous_standby_names")
        self.row(name, "SELECT pg_promote()")
        self.run_in(name, "/usr/bin/touch", SIGN)

    def _change(self, name: str, statement: str) -> None:
        with self._session(name, "postgres") as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    def _session(self, name: str, database: str) -> AbstractContextManager[Connection]:
        return session(self._url(name, database), autocommit=True)

    def _url(self, name: str, database: str) -> str:
        return url(SUPERUSER, self._words["superuser"], self.ports[name], database)

    def _data(self, name: str) -> Path:
        return self._home / "data" / name

    def run_in(self, name: str, *command: str) -> None:
        places = (self._data(name), self._home / "config" / name, USER)
        run = rootfs.inside(cache.rootfs(self._cache), *places, *command)
        processes.finished(f"{command[0]} of {name}", run, COMMAND_S)
