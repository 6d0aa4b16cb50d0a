"""The way into the database: one connection that comes back by itself, and statements over staged rows.

While the database is away a write waits and tries again. A row that the database refuses for what it is
leaves its transaction for the dead letters, found among the staged rows by halves; the others are written.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import structlog

from infra.clients import db
from infra.clients.db import Cause, cause_of, open_connection, socket_deadline
from infra.contract.errors import ServiceError
from stream_jobs.app import statements as sql
from stream_jobs.frames.arrays import Flags, Ints

Result = TypeVar("Result")

ATTEMPT_S = 30.0
"""Time for one transaction; a link that answers no more is cut after it."""
ISOLATING: Final = 20
"""A transaction that looks for rows to leave out may take so many times as long."""
BUSY_ATTEMPTS: Final = 20
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
LOG_EVERY_S = 5.0

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


class Database:
    """One connection that comes back by itself; for one thread at a time. ``problem`` is for readiness.

    ``bury`` takes refused rows, and returns when they are safe or raises ServiceError; without it an error of
    a row is one of its transaction.
    """

    def __init__(
        self,
        url: str,
        name: str,
        stop: threading.Event,
        attempt_s: float = ATTEMPT_S,
        bury: Callable[[Sequence[Refused]], None] | None = None,
    ) -> None:
        self._url = url
        self._name = name
        self._stop = stop
        self._attempt_s = attempt_s
        self._bury = bury
        self._connection: Connection | None = None
        self._problem: str | None = None
        self._logged_at = 0.0

    def problem(self) -> str | None:
        """Why the database cannot be reached at present, or None."""
        return self._problem

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """The result of ``work`` in one transaction, tried until the database takes it.

        Raises ServiceError when asked to stop meanwhile. What neither waiting nor leaving staged rows out
        mends goes up as it is, and so does a race lost again and again.
        """
        pause_s, busy, isolating = FIRST_PAUSE_S, 0, False
        while True:
            try:
                result = self._attempt(work, isolating)
            except psycopg.Error as error:
                cause = cause_of(error)
                if cause is Cause.DATA and self._bury is not None and not isolating:
                    isolating = True
                    continue
                busy += cause is Cause.BUSY
                if cause in (Cause.DATA, Cause.SETUP) or busy >= BUSY_ATTEMPTS:
                    raise
                if cause is Cause.AWAY:
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

    def _attempt(self, work: Callable[[Connection], Result], isolating: bool) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self._url, self._name, self._attempt_s)
        connection, bury = self._connection, self._bury
        connection.refused = [] if isolating else None
        limit_s = self._attempt_s * (ISOLATING if isolating else 1)
        with socket_deadline(connection.fileno(), limit_s), connection.transaction():
            result = work(connection)
            if connection.refused and bury is not None:
                bury(connection.refused)  # before the commit: nothing else would know of them
            return result

    def _lost(self, error: Exception) -> None:
        self._problem = f"database: {error}".strip()
        self.close()
        if time.monotonic() - self._logged_at > LOG_EVERY_S:
            self._logged_at = time.monotonic()
            log.warning("database away, trying again", sink=self._name, error=str(error).strip())


def _connect(url: str, name: str, attempt_s: float) -> Connection:
    """A connection that gives up on a dead link: on connect, on unacknowledged bytes, on slow statements."""
    return open_connection(
        url,
        Connection,
        connect_timeout_s=5,
        statement_timeout_s=attempt_s,
        session={"timezone": "UTC"},
        application_name=f"odograph-{name}",
        tcp_user_timeout=10_000,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        autocommit=True,
    )


def csv_of(table: pa.Table) -> bytes:
    """The table as CSV without a header; null is nothing, an empty string is quoted."""
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    # In one piece: Arrow writes rubbish where the first chunk is empty.
    pyarrow.csv.write_csv(table.combine_chunks(), buffer, options)
    return buffer.getvalue()


def stage(connection: Connection, table: str, rows: pa.Table) -> None:
    """``rows`` into the temporary table before ``table``; where rows are left out, those that it takes."""
    connection.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS {sql.staged(table)} (LIKE {table} INCLUDING DEFAULTS) "
        "ON COMMIT DELETE ROWS"
    )
    if connection.refused is not None and rows.num_rows:
        rows = _storable(connection, table, rows, connection.refused)
    _copy(connection, table, rows)


def _storable(connection: Connection, table: str, rows: pa.Table, refused: list[Refused]) -> pa.Table:
    """Those of ``rows`` that ``table`` takes: tried under a savepoint that is given up, then by halves."""
    try:
        with connection.transaction(force_rollback=True):
            _copy(connection, table, rows)
            execute(connection, sql.insert_new(table, rows.column_names))
    except psycopg.Error as error:
        if cause_of(error) is not Cause.DATA:
            raise
        if rows.num_rows == 1:
            refused.append(Refused(table, rows.to_pylist()[0], error))
            return rows.slice(0, 0)
        half = rows.num_rows // 2
        halves = (rows.slice(0, half), rows.slice(half))
        return pa.concat_tables([_storable(connection, table, part, refused) for part in halves])
    return rows


def _copy(connection: Connection, table: str, rows: pa.Table) -> None:
    if table not in connection.types:
        found = fetch(connection, sql.TYPES, {"table": table})
        connection.types = {**connection.types, table: dict(map(tuple, found))}
    packed = binary(rows, connection.types[table])
    form = "csv" if packed is None else "binary"
    statement = sql.copy_into(sql.staged(table), rows.column_names, form)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in [csv_of(rows)] if packed is None else packed:
            copy.write(piece)


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


HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = b"\xff\xff"
ROWS_AT_ONCE: Final = 2000
"""Of 85 columns: 2 MB."""
TEXT_BYTES: Final = 1024
"""A longer text goes as CSV: every text of its column would take its width."""
NULL: Final = 0xFF
EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01, where PostgreSQL begins to count."""
TIME: Final = pa.timestamp("us", "UTC")
FORMS: Final = {
    "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(), "double precision": pa.float64(),
    "boolean": pa.bool_(), "text": pa.string(), "timestamp with time zone": TIME,
}  # fmt: skip
"""Types of PostgreSQL that are written here, and the Arrow type with the same values."""

Bytes = npt.NDArray[np.uint8]


def binary(rows: pa.Table, types: Mapping[str, str]) -> Iterator[bytes] | None:
    """The rows for a table whose columns are of these ``types`` of PostgreSQL.

    None where a column has no exact form here, or a value does not fit: the server is to judge its text.
    """
    columns = [_plain(rows[name], types[name]) for name in rows.column_names]
    return None if any(column is None for column in columns) else _pieces(columns, rows.num_rows)


def _plain(column: pa.ChunkedArray, kind: str) -> pa.Array | None:
    """The column in the Arrow type of its form; None where it says something else, or more than fits."""
    form, held = FORMS.get(kind), column.type
    if form is None or (form == TIME and pa.types.is_timestamp(held) and held.tz is None):
        return None
    alike = any(each(held) and each(form) for each in (pa.types.is_integer, pa.types.is_timestamp))
    if not alike and held not in (form, pa.null()):
        return None
    try:
        plain = column.cast(form).combine_chunks()
    except pa.ArrowInvalid:
        return None
    long = form == pa.string() and (pc.max(pc.binary_length(plain)).as_py() or 0) > TEXT_BYTES
    return None if long else plain


def _pieces(columns: list[pa.Array], rows: int) -> Iterator[bytes]:
    yield HEAD
    for begin in range(0, rows, ROWS_AT_ONCE):
        yield _piece([column.slice(begin, ROWS_AT_ONCE) for column in columns])
    yield END


def _piece(columns: list[pa.Array]) -> bytes:
    """Fields side by side in a matrix [n_rows, n_bytes], each as wide as its longest; the excess goes."""
    fields = [_field(column) for column in columns]
    width = 2 + sum(4 + values.shape[1] for values, _, _ in fields)
    out = np.empty((len(columns[0]), width), np.uint8)
    kept = np.ones(out.shape, np.bool_)
    out[:, :2] = _big_endian(np.full(len(out), len(columns)), ">i2")
    at = 2
    for values, lengths, null in fields:
        until = at + 4 + values.shape[1]
        out[:, at : at + 4] = _big_endian(lengths, ">i4")
        out[:, at + 4 : until] = values
        if null.any():
            out[null, at : at + 4] = NULL
            kept[null, at + 4 : until] = False
        if not np.all(lengths == values.shape[1]):
            kept[:, at + 4 : until] &= np.arange(values.shape[1]) < lengths[:, None]
        at = until
    return (out if kept.all() else out[kept]).tobytes()


def _field(column: pa.Array) -> tuple[Bytes, Ints, Flags]:
    """Bytes [n_rows, n_bytes] of the values, their lengths, and which are null."""
    null, kind = column.is_null().to_numpy(zero_copy_only=False), column.type
    if kind == pa.string():
        return *_texts(column), null
    if kind == TIME:
        values = pc.fill_null(column.cast(pa.int64()), EPOCH_US).to_numpy() - EPOCH_US
    else:
        values = pc.fill_null(column, pa.scalar(0).cast(kind)).to_numpy(zero_copy_only=False)
    packed = _big_endian(values, values.dtype.newbyteorder(">").str)
    return packed, np.full(len(column), packed.shape[1]), null


def _texts(column: pa.StringArray) -> tuple[Bytes, Ints]:
    held = pc.fill_null(column, "")
    ends = np.cumsum(lengths := pc.binary_length(held).to_numpy().astype(np.int64))
    data = np.frombuffer("".join(held.to_pylist()).encode(), np.uint8)
    width = int(lengths.max(initial=0))
    places = (ends - lengths)[:, None] + np.arange(width)
    return data.take(places, mode="clip") if width else np.empty((len(held), 0), np.uint8), lengths


def _big_endian(values: npt.NDArray[np.generic], form: str) -> Bytes:
    return np.ascontiguousarray(values.astype(form)).view(np.uint8).reshape(len(values), -1)
