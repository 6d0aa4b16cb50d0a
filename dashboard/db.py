"""The database: the dashboard's only module that knows the driver.

The SQL of each page is in its ``queries.sql``, and named in ``queries.py``: one query per view of schema
``serving``, bounded in rows and, where the view holds history, in time. Times are UTC. A missing value is
null, never 0.
"""

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any, Concatenate, Final, ParamSpec

import pandas as pd
import psycopg

from infra.clients.db import CONNECT_S, Cause, Wait, cause_of, open_connection, socket_deadline, sql_of
from infra.contract.errors import ServiceError

P = ParamSpec("P")
Connection = psycopg.Connection[tuple[Any, ...]]


class TenantConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose role may read schema tenant only: the views of serving over its own vehicles."""


class SlowError(ServiceError):
    """The database answers, but gave up this question: its time ran out, or others were in its way."""


Query = Callable[Concatenate[Connection, P], pd.DataFrame]

STATEMENT_S: Final = 8.0
ANSWER_S: Final = 10.0
"""Longer than the server gives a statement: only a server that stands still does not answer by then."""
RETRY_S: Final = 1.0  # wait after a failed connection: a page runs many queries at once
IDLE_MOST: Final = 4
TENANT_IDLE: Final = "60s"  # the server ends them then: each set of vehicles has connections of its own
NUMBER: Final = "number"
NO_SCHEMA: Final = (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable)


class Database:
    """Connections to the views; a broken one is dropped. ``locate`` gives the URL each time one is opened.

    ``tenant``: settings of the sessions of who may see some vehicles only (infra.sql.tenants.session_of).
    """

    def __init__(
        self, locate: Callable[[], str], answer_s: float = ANSWER_S, tenant: Mapping[str, str] | None = None
    ) -> None:
        self._locate, self._tenant = locate, tenant
        self._answer_s = answer_s
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._retry_at_s = 0.0

    @contextmanager
    def connection(self, what: str = "a question") -> Iterator[Connection]:
        """A connection for one query; raises ServiceError where the database is away or stands still.

        SlowError where it gave up the query, which is called ``what`` then.
        """
        connection, wait = self._take(), Wait(self._answer_s)
        try:
            with socket_deadline(connection.fileno(), self._answer_s) as wait:
                yield connection
        except psycopg.Error as error:
            short, cause = _short(error), cause_of(error)
            if cause is Cause.BUSY:
                raise SlowError(f"{what} took too long ({short})") from error
            self._drop(connection)
            if self._tenant and isinstance(error, NO_SCHEMA):  # the first fleet makes it
                raise ServiceError("no fleet has been set yet; set one: odograph fleet set") from error
            # the role writes nowhere
            if cause is not Cause.AWAY or isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                raise ServiceError(f"the database refused ({short}); see: odograph doctor") from error
            went = f"did not answer for {wait.seconds:g} s" if wait.over else f"went away ({short})"
            raise ServiceError(f"the database {went}; see: odograph status") from error
        finally:  # also where whoever asked found nothing to go on with
            with self._lock:
                if len(self._idle) < IDLE_MOST and not connection.closed:
                    self._idle.append(connection)
                else:
                    connection.close()

    def run(self, query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
        """The rows of one query over a connection of its own, with the whole time that an answer may take."""
        with self.connection(name_of(query)) as connection:
            return query(connection, *args, **kwargs)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection:
        with self._lock:
            idle = self._idle.pop() if self._idle else None
            waiting = time.monotonic() < self._retry_at_s
        if idle is not None:  # the database may have ended it, or been restarted since
            try:
                with socket_deadline(idle.fileno(), min(CONNECT_S, self._answer_s)):
                    idle.execute("SELECT 1")
                return idle
            except psycopg.Error:
                self._drop(idle)
        if waiting:
            raise ServiceError("the database is away; see: odograph status")
        try:
            return open_connection(
                self._locate(),
                Connection if self._tenant is None else TenantConnection,
                statement_timeout_s=STATEMENT_S,
                session={
                    "default_transaction_read_only": "on",
                    "search_path": "replay,pg_catalog,public",  # a replay's clock, where there is one
                    **({"idle_session_timeout": TENANT_IDLE} | dict(self._tenant) if self._tenant else {}),
                },
                autocommit=True,
                application_name="odograph-dashboard",
                tcp_user_timeout=5000,
            )
        except psycopg.OperationalError as error:
            self._retry_at_s = time.monotonic() + RETRY_S
            raise ServiceError(f"the database is away ({_short(error)}); see: odograph status") from error

    def _drop(self, connection: Connection) -> None:
        """One broken connection means that the others of its age are broken too."""
        connection.close()
        self.close()


def name_of(query: Callable[..., pd.DataFrame]) -> str:
    """A query in words, as readers are told of it."""
    return query.__name__.replace("_", " ")


def _short(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def query(head: str, sql: str) -> Any:
    """A query by its head, ``name(parameter, other = 20)``, and its SQL; called, it returns the rows.

    A parameter with a value, a whole number or NULL, may be left out. Their types stand where it is named, as
    ``Query[[str, datetime]]``. ``attrs[NUMBER]`` of the rows tells this result from every other one.
    """
    name, _, parameters = head.rstrip(")").partition("(")
    heads = dict(re.findall(r"(\w+)(?: = (\w+))?", parameters))
    defaults = {key: None if value == "NULL" else int(value) for key, value in heads.items() if value}

    def run(connection: Connection, /, *values: Any, **named: Any) -> pd.DataFrame:
        bound = defaults | dict(zip(list(heads)[: len(values)], values, strict=True)) | named
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in bound.items()}
        mine = sql.replace("serving.", "tenant.") if isinstance(connection, TenantConnection) else sql
        cursor = connection.execute(mine.encode(), lists)
        found = pd.DataFrame(cursor.fetchall(), columns=[column.name for column in cursor.description or ()])
        found.attrs[NUMBER] = uuid.uuid4().hex
        return found

    run.__name__ = name
    return run


def queries_of(module: str) -> dict[str, Any]:
    """The queries of the SQL file beside a module, by name; each is named by its head.

    A head in braces, as ``{measures}``, is a part of those below it: its text stands where they say so.
    """
    parts: dict[str, str] = {}
    found: dict[str, Any] = {}
    for head, text in sql_of(module).items():
        sql = reduce(lambda whole, part: whole.replace(*part), parts.items(), text.rstrip())
        if head.startswith("{"):
            parts[head] = sql
        else:
            found[head.partition("(")[0]] = query(head, sql)
    return found
