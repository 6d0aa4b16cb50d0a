"""The way to the database: the only place of the dashboard that knows the driver.

The questions themselves are in ``fleet_queries``, ``alert_queries``, ``vehicle_queries`` and
``operations_queries``: one function per view of schema ``serving``, connection and parameters in, frame
out. Every one is bounded in rows and, where the view holds history, in time. Times are UTC. A missing value
is null in the frame, never 0.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import pandas as pd
import psycopg

from infra.clients.db import CONNECT_S, Cause, Wait, cause_of, open_connection, socket_deadline
from infra.contract.errors import ServiceError

Connection = psycopg.Connection[tuple[Any, ...]]

STATEMENT_S: Final = 8.0
ANSWER_S: Final = 10.0
"""Longer than the server gives a statement: only one that stands still does not answer by then."""
REST_S: Final = 1.0
"""After a failed connection the next attempt waits this long, s: a page asks for many frames at once."""
SPARE: Final = 4
NUMBER: Final = "number"


class Database:
    """Connections to the views; a broken one is dropped, the next question opens another.

    ``locate`` gives the libpq URL each time a connection is opened, so that a stack started later is found.
    """

    def __init__(self, locate: Callable[[], str], answer_s: float = ANSWER_S) -> None:
        self._locate = locate
        self._answer_s = answer_s
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._rest_until = 0.0

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one question; raises ServiceError where the database is away or stands still."""
        connection, wait = self._take(), Wait(self._answer_s)
        try:
            with socket_deadline(connection.fileno(), self._answer_s) as wait:
                yield connection
        except psycopg.Error as error:
            self._drop(connection)
            mine = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)  # the role writes nowhere
            if not mine and cause_of(error) in (Cause.AWAY, Cause.BUSY):
                raise ServiceError(f"the database {_went(wait, error)}; see: odograph status") from error
            raise ServiceError(f"the database refused ({_short(error)}); see: odograph doctor") from error
        self._give_back(connection)

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            spare, self._idle = self._idle, []
        for connection in spare:
            connection.close()

    def _take(self) -> Connection:
        with self._lock:
            spare = self._idle.pop() if self._idle else None
            resting = time.monotonic() < self._rest_until
        if spare is not None and self._alive(spare):
            return spare
        if resting:
            raise ServiceError("the database is away; see: odograph status")
        return self._open()

    def _alive(self, spare: Connection) -> bool:
        """Whether an idle connection still works: the database may have been restarted since."""
        try:
            with socket_deadline(spare.fileno(), min(CONNECT_S, self._answer_s)):
                spare.execute("SELECT 1")
        except psycopg.Error:
            self._drop(spare)
            return False
        return True

    def _open(self) -> Connection:
        try:
            return open_connection(
                self._locate(),
                Connection,
                statement_timeout_s=STATEMENT_S,
                session={"default_transaction_read_only": "on", "timezone": "UTC"},
                autocommit=True,
                application_name="odograph-dashboard",
                tcp_user_timeout=5000,
            )
        except psycopg.OperationalError as error:
            self._rest_until = time.monotonic() + REST_S
            raise ServiceError(f"the database is away ({_short(error)}); see: odograph status") from error

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < SPARE:
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: Connection) -> None:
        """One broken connection means that the others of its age are broken too."""
        connection.close()
        self.close()


def _went(wait: Wait, error: psycopg.Error) -> str:
    return f"did not answer for {wait.seconds:g} s" if wait.over else f"went away ({_short(error)})"


def _short(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def frame(connection: Connection, sql: LiteralString, **parameters: Any) -> pd.DataFrame:
    """The rows of one question; column names are the query's.

    ``attrs[NUMBER]`` tells this answer from every other one; copies for several readers have the same.
    """
    cursor = connection.execute(sql, parameters)
    columns = [column.name for column in cursor.description or ()]
    found = pd.DataFrame(cursor.fetchall(), columns=columns)
    found.attrs[NUMBER] = uuid.uuid4().hex
    return found
