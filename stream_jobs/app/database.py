"""The way into the database: one connection that comes back by itself, and statements over staged rows.

While the database is away a write waits and tries again. A row that the database refuses for what it is
leaves its transaction for the dead letters, found among the staged rows by halves; the others are written.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from infra.clients import db
from infra.clients.db import Cause, cause_of, open_connection, socket_deadline, sql_of
from infra.clients.leases import Term
from infra.contract.errors import ServiceError
from stream_jobs.app import statements as sql

Result = TypeVar("Result")

TYPES: Final = sql_of(__file__)["types"]
ATTEMPT_S = 30.0  # time for one transaction; a link that answers no more is cut after it
ISOLATING: Final = 20  # a transaction that looks for rows to leave out may take so many times as long
BUSY_ATTEMPTS: Final = 20
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
LOG_EVERY_S = 5.0

FORMS: Final = {
    "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(), "real": pa.float32(),
    "double precision": pa.float64(), "boolean": pa.bool_(), "text": pa.string(),
    "timestamp with time zone": pa.timestamp("us", "UTC"), "date": pa.date32(),
}  # fmt: skip
"""Types of PostgreSQL and the Arrow types with the same values: the cast to these tells of a value that does
not fit, which the driver's binary form would cut.
"""
TIMES: Final = {
    "timestamp with time zone": ("bigint", pa.int64(), 946_684_800_000_000),
    "date": ("integer", pa.int32(), 10_957),
}
"""PostgreSQL's binary form of times: the number that it is, and 2000 in us or days since 1970. As Python's
values they would end with the year 9999.
"""
ROWS_AT_ONCE: Final = 2000  # of 85 columns: some MB as Python's values

log = structlog.get_logger("stream_jobs.app.database")


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that ``table`` does not take, and the error that says why."""

    table: str
    row: dict[str, Any]
    error: psycopg.Error


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """``refused``: rows left out of the transaction at hand; None where an error of a row goes up.

    ``types``: of the columns of tables that were written to.
    """

    refused: list[Refused] | None = None
    types: Mapping[str, dict[str, str]] = {}


@dataclass(slots=True)
class Database:
    """One connection that comes back by itself; for one thread at a time.

    ``bury`` takes refused rows, and returns when they are safe or raises ServiceError; without it an error of
    a row is one of its transaction. Where ``stop`` is the term of a lease, each transaction is fenced by it.
    """

    url: str
    name: str
    stop: threading.Event
    attempt_s: float = ATTEMPT_S
    bury: Callable[[Sequence[Refused]], None] | None = None
    problem: str | None = field(default=None, init=False)
    """Why the database cannot be reached at present."""
    _connection: Connection | None = field(default=None, init=False)
    _logged_at: float = field(default=0.0, init=False)

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """The result of ``work`` in one transaction, tried until the database takes it.

        Raises ServiceError when asked to stop meanwhile, LeaseLostError where the term is over. What neither
        waiting nor leaving staged rows out mends goes up as it is, and so does a race lost again and again.
        """
        pause_s, busy, isolating = FIRST_PAUSE_S, 0, False
        while True:
            try:
                result = self._attempt(work, isolating)
            except psycopg.Error as error:
                cause = cause_of(error)
                if cause is Cause.DATA and self.bury is not None and not isolating:
                    isolating = True
                    continue
                busy += cause is Cause.BUSY
                if cause in (Cause.DATA, Cause.SETUP) or busy >= BUSY_ATTEMPTS:
                    raise
                if cause is Cause.AWAY:
                    self._lost(error)
            else:
                self.problem = None
                return result
            if self.stop.wait(pause_s):
                raise ServiceError(f"stopped while the database was away ({self.name})")
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[Connection], Result], isolating: bool) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self.url, self.name, self.attempt_s, self.stop)
        connection, bury = self._connection, self.bury
        connection.refused = [] if isolating else None
        limit_s = self.attempt_s * (ISOLATING if isolating else 1)
        with socket_deadline(connection.fileno(), limit_s), connection.transaction():
            if isinstance(self.stop, Term):
                self.stop.check(connection)
            result = work(connection)
            if connection.refused and bury is not None:
                bury(connection.refused)  # before the commit: nothing else would know of them
            return result

    def _lost(self, error: Exception) -> None:
        self.problem = f"database: {error}".strip()
        self.close()
        if time.monotonic() - self._logged_at > LOG_EVERY_S:
            self._logged_at = time.monotonic()
            log.warning("database away, trying again", sink=self.name, error=str(error).strip())


def _connect(url: str, name: str, attempt_s: float, stop: threading.Event) -> Connection:
    """A connection that gives up on a dead link: on connect, on unacknowledged bytes, on slow statements."""
    opened = open_connection(
        url, Connection, connect_timeout_s=5, statement_timeout_s=attempt_s, autocommit=True,
        application_name=f"odograph-{name}", tcp_user_timeout=10_000, keepalives_idle=5,
        keepalives_interval=2, keepalives_count=3,
    )  # fmt: skip
    try:
        if isinstance(stop, Term):
            stop.join(opened)
    except BaseException:
        opened.close()
        raise
    return opened


def stage(connection: Connection, table: str, rows: pa.Table) -> None:
    """``rows`` into the temporary table before ``table``; where rows are left out, those that it takes."""
    made = f"CREATE TEMP TABLE IF NOT EXISTS {sql.staged(table)} (LIKE {table} INCLUDING DEFAULTS)"
    execute(connection, f"{made} ON COMMIT DELETE ROWS")
    if connection.refused is not None and rows.num_rows:
        rows = _storable(connection, table, rows, connection.refused)
    copy_rows(connection, table, rows)


def _storable(connection: Connection, table: str, rows: pa.Table, refused: list[Refused]) -> pa.Table:
    """Those of ``rows`` that ``table`` takes: tried under a savepoint that is given up, then by halves."""
    try:
        with connection.transaction(force_rollback=True):
            copy_rows(connection, table, rows)
            execute(connection, sql.insert_new(table, rows.column_names))
    except psycopg.Error as error:
        if cause_of(error) is not Cause.DATA:
            raise
        if rows.num_rows == 1:
            texts = [f.with_type(pa.string()) if pa.types.is_temporal(f.type) else f for f in rows.schema]
            refused.append(Refused(table, rows.cast(pa.schema(texts)).to_pylist()[0], error))
            return rows.slice(0, 0)
        half = rows.num_rows // 2
        halves = (rows.slice(0, half), rows.slice(half))
        return pa.concat_tables([_storable(connection, table, part, refused) for part in halves])
    return rows


def copy_rows(connection: Connection, table: str, rows: pa.Table, into: str | None = None) -> None:
    """Rows of ``table`` into the one before it, or ``into`` another; raises psycopg.Error, also for a value
    that its column cannot hold.
    """
    if table not in connection.types:
        found = fetch(connection, TYPES, {"table": table})
        connection.types = {**connection.types, table: dict(map(tuple, found))}
    kinds = [connection.types[table][name] for name in rows.column_names]
    forms = (FORMS.get(kind, held.type) for kind, held in zip(kinds, rows.schema, strict=True))
    target = f"{into or sql.staged(table)} ({sql.quoted(rows.column_names)})"
    try:
        plain = rows.cast(pa.schema(zip(rows.column_names, forms, strict=True)))
        for place, kind in enumerate(kinds):
            if kind in TIMES:
                kinds[place], number, begin = TIMES[kind]
                numbers = pc.subtract_checked(plain[place].cast(number), pa.scalar(begin, number))
                plain = plain.set_column(place, rows.column_names[place], numbers)
        with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(kinds)
            for batch in plain.to_batches(max_chunksize=ROWS_AT_ONCE):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise psycopg.DataError(f"{table}: {error}") from error


def execute(connection: db.Connection, statement: str, parameters: Any = None) -> int:
    """Run a statement of this package; the number of rows it changed."""
    return connection.execute(statement, parameters).rowcount


def fetch(connection: db.Connection, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """All rows of a query of this package."""
    return connection.execute(statement, parameters).fetchall()


def insert_row(connection: db.Connection, table: str, row: Mapping[str, object], end: str = "") -> None:
    """A row of a table of odograph, by column."""
    execute(connection, sql.insert(table, row, end), row)


def insert_rows(connection: Connection, table: str, rows: pa.Table) -> None:
    """Rows with natural keys that never change once written."""
    stage(connection, table, rows)
    execute(connection, sql.insert_new(table, rows.column_names))
