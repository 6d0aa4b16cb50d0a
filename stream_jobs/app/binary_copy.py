"""Rows in PostgreSQL's binary COPY format, made by column: the server converts no text.

https://www.postgresql.org/docs/17/sql-copy.html: 19 bytes; of each row the number of its fields (2 bytes),
and each field's length (4 bytes, -1 for null) and value, the most significant byte first; -1 at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Flags, Ints

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
