"""The way into the database: one connection that comes back by itself, and statements over staged rows.

While the database is away a write waits and tries again; nothing is skipped.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
import pyarrow.csv
import structlog

from infra.contract.errors import ServiceError
from stream_jobs import statements as sql

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

ATTEMPT_S = 30.0
"""Time for one transaction; a link that answers no more is cut after it."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
LOG_EVERY_S = 5.0

log = structlog.get_logger("stream_jobs.database")


class Database:
    """One connection that comes back by itself; for one thread at a time. ``problem`` is for readiness."""

    def __init__(self, url: str, name: str, stop: threading.Event, attempt_s: float = ATTEMPT_S) -> None:
        self._url = url
        self._name = name
        self._stop = stop
        self._attempt_s = attempt_s
        self._connection: Connection | None = None
        self._problem: str | None = None
        self._logged_at = 0.0

    def problem(self) -> str | None:
        """Why the database cannot be reached at present, or None."""
        return self._problem

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """The result of ``work`` in one transaction, tried until the database takes it.

        Raises ServiceError when asked to stop meanwhile; errors in the statements themselves go up.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                result = self._attempt(work)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._lost(error)
            else:
                self._problem = None
                return result
            if self._stop.wait(pause_s):
                raise ServiceError(f"stopped while the database was away ({self._name})")
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[Connection], Result]) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self._url, self._name, self._attempt_s)
        with _cut_after(self._connection, self._attempt_s), self._connection.transaction():
            return work(self._connection)

    def _lost(self, error: Exception) -> None:
        self._problem = f"database: {error}".strip()
        self.close()
        if time.monotonic() - self._logged_at > LOG_EVERY_S:
            self._logged_at = time.monotonic()
            log.warning("database away, trying again", sink=self._name, error=str(error).strip())


def _connect(url: str, name: str, attempt_s: float) -> Connection:
    """A connection that gives up on a dead link: on connect, on unacknowledged bytes, on slow statements."""
    return psycopg.connect(
        url,
        application_name=f"odograph-{name}",
        connect_timeout=5,
        tcp_user_timeout=10_000,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        options=f"-c statement_timeout={int(attempt_s * 1000)} -c timezone=UTC",
        autocommit=True,
    )


@contextmanager
def _cut_after(connection: Connection, limit_s: float) -> Iterator[None]:
    """Shut the socket after ``limit_s``: a proxy may acknowledge bytes that no server ever reads."""
    with socket.socket(fileno=_duplicate(connection.fileno())) as link:
        timer = threading.Timer(limit_s, _shut, (link,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _duplicate(fileno: int) -> int:
    with socket.socket(fileno=fileno) as own:
        twin = own.dup()
        own.detach()
        return twin.detach()


def _shut(link: socket.socket) -> None:
    link.shutdown(socket.SHUT_RDWR)


def csv_of(table: pa.Table) -> bytes:
    """The table as CSV without a header; null is nothing, an empty string is quoted."""
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(table, buffer, options)
    return buffer.getvalue()


def stage(connection: Connection, table: str, rows: pa.Table) -> None:
    """``rows`` into the temporary table before ``table``."""
    connection.execute(sql.create_staged(table))
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.copy_into(sql.staged(table), rows.column_names)) as copy,
    ):
        copy.write(csv_of(rows))


def execute(connection: Connection, statement: str, parameters: Any = None) -> int:
    """Run a statement of this package; the number of rows it changed."""
    return connection.execute(statement, parameters).rowcount


def fetch(connection: Connection, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """All rows of a query of this package."""
    return connection.execute(statement, parameters).fetchall()


def insert_rows(connection: Connection, table: str, rows: pa.Table) -> None:
    """Rows with natural keys that never change once written."""
    stage(connection, table, rows)
    execute(connection, sql.insert_new(table, rows.column_names))
