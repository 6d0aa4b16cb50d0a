"""The site's PostgreSQL and a second one that follows it, for drills: promoted, fenced, joined again.

Whoever is started reads ``standby.signal`` and follows. Both have that file, also the primary, which looks at
it when it starts anew: one that was killed comes back read-only, and takes no writes until it is promoted.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from infra.clients import database_url
from infra.clients.db import session
from infra.contract.errors import ServiceError
from infra.settings.settings import ENDPOINTS_FILE
from infra.stack import cache, postgres, processes, rootfs
from infra.stack.rootfs import DATA
from infra.stack.service import HOST, Service, free_port
from load_tests.drills.site import Site, until

REPLICATION: Final = postgres.ACCESS + postgres.ACCESS.replace("all all", "replication all")
SIGN: Final = f"{DATA}/cluster/standby.signal"
COMMAND_S: Final = 300.0
SYNC_S: Final = 60.0
STREAMS: Final = "SELECT state, sync_state FROM pg_stat_replication"
SENDERS: Final = "SELECT pid FROM pg_stat_replication"


@dataclass(frozen=True, slots=True)
class Node:
    """One server: the name of its process and folders, and its port."""

    name: str
    port: int


class PostgresPair:
    """``primary`` and ``standby``; ``synchronous``: a commit returns when both have it."""

    def __init__(self, site: Site, *, synchronous: bool) -> None:
        self._site, self._synchronous = site, synchronous
        self._root = cache.rootfs(site.settings.paths.cache)
        self._word = urlsplit(site.stack.superuser_url()).password or ""
        self.primary = Node("postgres", site.stack.ports()["postgres"])
        self.standby = Node("postgres-2", free_port([*site.stack.ports().values()]))

    def begin(self) -> None:
        """Copy the site's server, let the copy follow, and give every program both addresses."""
        ports = f"{self.primary.port},{self.standby.port}"
        source = f"host={HOST},{HOST} port={ports} target_session_attrs=read-write {self._login}"
        self._change(self.primary, f"ALTER SYSTEM SET primary_conninfo = '{source}'")
        self._let_replicate(self.primary)
        self._run_in(self.primary, "/usr/bin/touch", SIGN)
        rootfs.furnish(self._data(self.standby), self._config(self.standby), postgres.USER, {})
        copy = ("-D", f"{DATA}/cluster", "-d", source, "-X", "stream", "-c", "fast")
        self._run_in(self.standby, f"{cache.POSTGRES_BIN}/pg_basebackup", *copy)
        self.follow()
        one, found = f"@{HOST}:{self.primary.port}/", self._site.endpoints
        both = f"@{HOST}:{self.primary.port},{HOST}:{self.standby.port}/"
        urls: dict[str, Any] = {
            name: database_url.to_primary(url.replace(one, both), name == "db_dashboard_url")
            for name, url in asdict(found).items()
            if name.startswith("db_")
        }
        self._site.endpoints = replace(found, **urls)
        text = orjson.dumps(asdict(self._site.endpoints)).decode()
        postgres.write_private(self._site.home / ENDPOINTS_FILE, text)

    def follow(self) -> None:
        """Start the standby, and wait until it has all that the primary writes."""
        self._run_in(self.standby, "/usr/bin/touch", SIGN)
        self._site.stack.runner.start(self._service(self.standby))
        if self._synchronous:
            self._change(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        wanted = ("streaming", "sync" if self._synchronous else "async")
        until(lambda: self.row(self.primary, STREAMS) == wanted, SYNC_S, "the standby follows")

    def kill(self) -> None:
        """``kill -9`` the primary, with all its backends."""
        for pid in processes.tree(self._site.pid(self.primary.name)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def hold_back(self) -> None:
        """The primary sends nothing more: a standby that is not waited for never gets what it commits now."""
        os.kill(self.row(self.primary, SENDERS)[0], signal.SIGSTOP)

    def promote(self) -> None:
        """The standby becomes the primary, which waits for nobody, and follows when it is started anew."""
        self._change(self.standby, "ALTER SYSTEM RESET synchronous_standby_names")
        self.row(self.standby, "SELECT pg_promote()")
        self._run_in(self.standby, "/usr/bin/touch", SIGN)
        self.primary, self.standby = self.standby, self.primary

    def bring_back(self) -> None:
        """Start the killed one as it lies, as whatever keeps services running does."""
        self._site.stack.runner.start(self._service(self.standby))

    def rejoin(self) -> None:
        """Take what only the old one had out of it, and let it follow."""
        self._site.stack.runner.stop(self.standby.name)
        source = f"host={HOST} port={self.primary.port} dbname=postgres {self._login}"
        rewind = ("--target-pgdata", f"{DATA}/cluster", "--source-server", source)
        self._run_in(self.standby, f"{cache.POSTGRES_BIN}/pg_rewind", *rewind)
        self.follow()

    def row(self, node: Node, statement: str) -> tuple[Any, ...]:
        """The row that one server gives, as its superuser; nothing where there is none."""
        url = postgres.url(postgres.SUPERUSER, self._word, node.port, postgres.DATABASE)
        with session(url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchone() or ()

    def _change(self, node: Node, statement: str) -> None:
        url = postgres.url(postgres.SUPERUSER, self._word, node.port)
        with session(url, autocommit=True) as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    @property
    def _login(self) -> str:
        return f"user={postgres.SUPERUSER} password={self._word}"

    def _data(self, node: Node) -> Path:
        return self._site.home / "data" / node.name

    def _config(self, node: Node) -> Path:
        return self._site.home / "config" / node.name

    def _service(self, node: Node) -> Service:
        own = postgres.postgres(self._root, self._data(node), self._config(node), node.port, self._word)

        def prepare() -> None:
            own.prepare()
            rootfs.write_config(self._config(node), postgres.USER, {"pg_hba.conf": REPLICATION})

        return replace(own, name=node.name, prepare=prepare)

    def _let_replicate(self, node: Node) -> None:
        rootfs.write_config(self._config(node), postgres.USER, {"pg_hba.conf": REPLICATION})
        self._change(node, "SELECT 1")

    def _run_in(self, node: Node, *command: str) -> None:
        places = (self._root, self._data(node), self._config(node), postgres.USER)
        done = subprocess.run(
            rootfs.inside(*places, *command), capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        if done.returncode != 0:
            raise ServiceError(f"drill: {command[0]} of {node.name}: {(done.stderr or done.stdout).strip()}")
