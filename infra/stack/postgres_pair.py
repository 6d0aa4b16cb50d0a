"""A primary of PostgreSQL and the standby that follows it; promoting is done by hand (README, runbooks).

Whoever is started reads ``standby.signal`` and follows. Both have that file, also the primary, which looks at
it when it starts anew: one that was killed comes back read-only, and takes no writes until it is promoted.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from infra.clients.db import Connection, session
from infra.clients.waiting import looks
from infra.contract.errors import ServiceError
from infra.stack import cache, postgres, processes, rootfs
from infra.stack.rootfs import CONFIG, DATA
from infra.stack.service import HOST, Runner, Service

REPLICATION: Final = postgres.ACCESS + postgres.ACCESS.replace("all all", "replication all")
LOGIN_FILE: Final = "pgpass"
LOGIN: Final = f"user={postgres.SUPERUSER} passfile={CONFIG}/{LOGIN_FILE}"
"""As the superuser; other programs of this machine can read a command's arguments."""
SIGN: Final = f"{DATA}/cluster/standby.signal"
COMMAND_S: Final = 300.0
SYNC_S: Final = 60.0
POLL_S: Final = 0.05
STREAMS: Final = "SELECT state, sync_state FROM pg_stat_replication"
LAG: Final = """
SELECT sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication
WHERE state = 'streaming'
"""
FOLLOWS: Final = "SELECT pg_is_in_recovery()"


@dataclass(frozen=True, slots=True)
class Node:
    """One server: the name of its process and folders, and its port."""

    name: str
    port: int


class PostgresPair:
    """``primary`` and ``standby``; ``synchronous``: a commit returns when both have it."""

    def __init__(self, home: Path, cache_dir: Path, runner: Runner, words: postgres.Passwords) -> None:
        self._home, self._cache, self.runner, self._words = home, cache_dir, runner, words
        self.synchronous = True
        self.file = home / "postgres-primary"
        self.primary, self.standby = Node("postgres-1", 0), Node("postgres-2", 0)

    def names(self) -> list[str]:
        """The primary first: at its end it sends all it has."""
        first = self.file.read_text() if self.file.exists() else "postgres-1"
        return [first, *({"postgres-1", "postgres-2"} - {first})]

    def url(self) -> str:
        """How the owner logs in, at both addresses."""
        both = ",".join(f"{HOST}:{node.port}" for node in sorted((self.primary, self.standby), key=str))
        url = postgres.url(postgres.OWNER, self._words["owner"], self.primary.port)
        return url.replace(f"{HOST}:{self.primary.port}", both)

    def know_ports(self, ports: tuple[int, int]) -> None:
        """Of the first and the second one."""
        numbered = zip(("postgres-1", "postgres-2"), ports, strict=True)
        by_name = {name: Node(name, port) for name, port in numbered}
        self.primary, self.standby = (by_name[name] for name in self.names())

    def begin(self) -> None:
        """Start both, with database and roles. A standby that is not there is copied."""
        self.runner.start(self.service(self.primary))
        if self.row(self.primary, FOLLOWS, "postgres")[0]:
            self.promote(self.primary)
        self.file.write_text(self.primary.name)
        postgres.ensure_roles(self._url(self.primary, "postgres"), self._words)
        postgres.ensure_database(self._url(self.primary, "postgres"), postgres.DATABASE)
        ports = ",".join(f"{node.port}" for node in sorted((self.primary, self.standby), key=str))
        both = f"host={HOST},{HOST} port={ports} target_session_attrs=read-write {LOGIN}"
        self._change(self.primary, f"ALTER SYSTEM SET primary_conninfo = '{both}'")
        self.run_in(self.primary, "/usr/bin/touch", SIGN)
        if not (self._data(self.standby) / "cluster").exists():
            self.service(self.standby, empty=True).prepare()
            copy = ("-D", f"{DATA}/cluster", "-d", both, "-X", "stream", "-c", "fast")
            self.run_in(self.standby, f"{cache.POSTGRES_BIN}/pg_basebackup", *copy)
        self.follow()

    def follow(self) -> None:
        """Start the standby, and wait until it has all that the primary writes."""
        self.run_in(self.standby, "/usr/bin/touch", SIGN)
        self.runner.start(self.service(self.standby))
        names = "'*'" if self.synchronous else "''"
        self._change(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = {names}")
        wanted = ("streaming", "sync" if self.synchronous else "async")
        for last in looks(SYNC_S, POLL_S):
            if (found := self.row(self.primary, STREAMS)) == wanted:
                break
            if last:
                raise ServiceError(f"{self.standby.name} does not follow within {SYNC_S:g} s: {found}")

    def role(self, name: str) -> str:
        """Primary, and who follows it how far behind; or standby. Raises ServiceError."""
        node = self.primary if self.primary.name == name else self.standby
        if self.row(node, FOLLOWS, "postgres")[0]:
            return "standby"
        sync, behind = self.row(node, LAG, "postgres") or ("", 0)
        return f"primary, standby {sync}, {behind:,} bytes behind" if sync else "primary, nobody follows"

    def row(self, node: Node, statement: str, database: str = postgres.DATABASE) -> tuple[Any, ...]:
        """The row that one server gives, as its superuser; nothing where there is none."""
        with self._session(node, database) as connection:
            return connection.execute(statement.encode()).fetchone() or ()

    def service(self, node: Node, *, empty: bool = False) -> Service:
        """One of the two; ``empty``: prepared for a copy of the other one."""
        places = (self._data(node), self._home / "config" / node.name)
        own = postgres.postgres(cache.rootfs(self._cache), *places, node.port, self._url(node, "postgres"))

        def prepare() -> None:
            if empty:
                postgres.configure(*places, node.port)
            else:
                own.prepare()
            rootfs.write_config(places[1], postgres.USER, {"pg_hba.conf": REPLICATION})
            login = {LOGIN_FILE: f"*:*:*:{postgres.SUPERUSER}:{self._words['superuser']}\n"}
            rootfs.write_config(places[1], postgres.USER, login, own=True)

        return replace(own, name=node.name, prepare=prepare)

    def promote(self, node: Node) -> None:
        """Let it take writes; it waits for nobody."""
        self._change(node, "ALTER SYSTEM RESET synchronous_standby_names")
        self.row(node, "SELECT pg_promote()")
        self.run_in(node, "/usr/bin/touch", SIGN)

    def _change(self, node: Node, statement: str) -> None:
        with self._session(node, "postgres") as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    def _session(self, node: Node, database: str) -> AbstractContextManager[Connection]:
        return session(self._url(node, database), autocommit=True)

    def _url(self, node: Node, database: str) -> str:
        return postgres.url(postgres.SUPERUSER, self._words["superuser"], node.port, database)

    def _data(self, node: Node) -> Path:
        return self._home / "data" / node.name

    def run_in(self, node: Node, *command: str) -> None:
        places = (self._data(node), self._home / "config" / node.name, postgres.USER)
        run = rootfs.inside(cache.rootfs(self._cache), *places, *command)
        processes.finished(f"{command[0]} of {node.name}", run, COMMAND_S)
