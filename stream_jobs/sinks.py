"""The way into the database: the only module here that knows psycopg.

Every write is one transaction and may be run again: a batch claims its line in the ledger first, values are
absolute, keys are natural. While the database is away a write waits and tries again; nothing is skipped.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
import pyarrow.csv
import structlog
from pyspark.sql import DataFrame

from infra.contract.errors import ServiceError
from stream_jobs import statements as sql
from stream_jobs import windows
from stream_jobs.roads.history_sql import mark
from stream_jobs.rollups.statements import NOTE_CHANGES
from stream_jobs.schema import EDGE_KEYS, ROAD_KEYS, WINDOW_KEYS

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

ATTEMPT_S = 30.0
"""Time for one transaction; a link that answers no more is cut after it."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
LOG_EVERY_S = 5.0

log = structlog.get_logger("stream_jobs.sinks")


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


@dataclass(frozen=True, slots=True)
class WindowTable:
    """A table of windows, its keys and what to do where the stream meets a restated window.

    ``also`` are statements on the staged rows that belong to the same transaction.
    """

    name: str
    keys: tuple[str, ...]
    reopen: str
    also: tuple[str, ...]


VEHICLE = WindowTable(sql.VEHICLE_TABLE, WINDOW_KEYS, sql.REOPEN_VEHICLE, (sql.upsert_latest(), NOTE_CHANGES))
ROAD, EDGE = (
    WindowTable(name, keys, sql.reopen_road(name, keys), (mark(sql.staged(name)),))
    for name, keys in ((sql.ROAD_TABLE, ROAD_KEYS), (sql.EDGE_TABLE, EDGE_KEYS))
)
TABLES = (VEHICLE, ROAD, EDGE)
"""Tables of windows, in the order in which windows.split gives their rows."""


class BatchClaims:
    """The ledger lines of one query: its id is the checkpoint's, so a new checkpoint starts a new account."""

    def __init__(self, query: str, checkpoint: Path) -> None:
        self._query = query
        self._checkpoint = checkpoint

    @property
    def query_id(self) -> str:
        """The id that Spark wrote into the checkpoint at its creation."""
        return str(json.loads((self._checkpoint / "metadata").read_text())["id"])

    def claim(self, connection: Connection, batch_id: int, rows: int) -> bool:
        """Enter the batch; False where it, or a later one, is in already."""
        line = {"query_id": self.query_id, "batch_id": batch_id, "query": self._query, "rows": rows}
        return bool(fetch(connection, sql.CLAIM_BATCH, line))


class WindowSink:
    """foreachBatch writer of all tables of windows, in one transaction."""

    def __init__(self, database: Database, claims: BatchClaims) -> None:
        self._database = database
        self._claims = claims

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, whatever it takes."""
        rows = batch.toArrow()
        if rows.num_rows:
            tagged = rows.append_column("batch_id", pa.array([batch_id] * rows.num_rows, pa.int64()))
            tables = dict(zip(TABLES, windows.split(tagged, ["batch_id"]), strict=True))
            self._database.run(lambda connection: self.write(connection, tables, batch_id))

    def write(self, connection: Connection, tables: Mapping[WindowTable, pa.Table], batch_id: int) -> None:
        """The batch in the transaction at hand; nothing where the ledger has it."""
        if self._claims.claim(connection, batch_id, sum(rows.num_rows for rows in tables.values())):
            for table, rows in tables.items():
                if rows.num_rows:
                    write_windows(connection, table, rows)


def write_windows(connection: Connection, table: WindowTable, rows: pa.Table) -> None:
    """Rows of the speed layer; restated windows among them are left alone and marked for restating."""
    stage(connection, table.name, rows)
    written = execute(connection, sql.upsert(table.name, rows.column_names, table.keys))
    if written < rows.num_rows:
        execute(connection, table.reopen)
    for statement in table.also:
        execute(connection, statement)


def restate_windows(connection: Connection, table: WindowTable, rows: pa.Table) -> None:
    """Rows of the batch layer, each as the next revision of its window."""
    stage(connection, table.name, rows)
    execute(connection, sql.restate(table.name, rows.column_names, table.keys))
    for statement in table.also:
        execute(connection, statement)


def insert_rows(connection: Connection, table: str, rows: pa.Table) -> None:
    """Rows with natural keys that never change once written."""
    stage(connection, table, rows)
    execute(connection, sql.insert_new(table, rows.column_names))


def insert_progress(connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Lines of query_progress."""
    marks = ", ".join(["%s"] * len(sql.PROGRESS_COLUMNS))
    names = ", ".join(sql.PROGRESS_COLUMNS)
    statement = f"INSERT INTO odograph.query_progress ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)
