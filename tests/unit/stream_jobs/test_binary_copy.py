"""Rows in the binary COPY format, read back as the format's description has it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.app.database import EPOCH_US, ROWS_AT_ONCE, binary, csv_of

TYPES = {
    "a": "text", "b": "bigint", "c": "double precision", "d": "boolean", "e": "timestamp with time zone",
    "f": "smallint",
}  # fmt: skip
SCHEMA = pa.schema(
    {
        "a": pa.string(),
        "b": pa.int64(),
        "c": pa.float64(),
        "d": pa.bool_(),
        "e": pa.timestamp("ms", "UTC"),
        "f": pa.int64(),
    }
)
READ = {"b": ">q", "c": ">d", "d": ">?", "e": ">q", "f": ">h"}


def fields(body: bytes) -> Iterator[list[bytes | None]]:
    """The rows of a body, field by field."""
    assert body[:19] == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    at = 19
    while (count := struct.unpack_from(">h", body, at)[0]) != -1:
        at, row = at + 2, []
        for _ in range(count):
            length = struct.unpack_from(">i", body, at)[0]
            at += 4
            row.append(None if length < 0 else body[at : at + length])
            at += max(0, length)
        yield row
    assert at + 2 == len(body)


def value(name: str, field: bytes | None) -> Any:
    if field is None or name == "a":
        return field if field is None else field.decode()
    found = struct.unpack(READ[name], field)[0]
    return (found + EPOCH_US) // 1000 if name == "e" else found


ROW = st.tuples(
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | st.integers(-(2**40), 2**43),
    st.none() | st.integers(-(2**15), 2**15 - 1),
)


@given(st.lists(ROW, max_size=6), st.sampled_from((1, ROWS_AT_ONCE)))
def test_every_value_is_there_as_it_was(rows: list[tuple[Any, ...]], times: int) -> None:
    rows = rows * times
    columns = [[row[place] for row in rows] for place in range(len(TYPES))]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    pieces = binary(table, TYPES)
    assert pieces is not None
    read = [tuple(map(value, TYPES, row)) for row in fields(b"".join(pieces))]
    assert read == rows


def test_a_column_that_knows_no_value_is_null_whatever_its_type() -> None:
    for kind in TYPES.values():
        pieces = binary(pa.table({"x": pa.nulls(2)}), {"x": kind})
        assert pieces is not None
        assert list(fields(b"".join(pieces))) == [[None], [None]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**15]), "smallint"),
        (pa.array([1.0]), "bigint"),
        (pa.array([1]), "double precision"),
        (pa.array(["1"]), "numeric"),
        (pa.array(["x" * 1025]), "text"),
        (pa.array([1.5]), "real"),
        (pa.array([0], pa.timestamp("ms")), "timestamp with time zone"),
        (pa.array(["2026-01-01"]), "timestamp with time zone"),
    ],
)
def test_what_has_no_exact_form_is_left_to_the_servers_reading_of_text(values: pa.Array, kind: str) -> None:
    assert binary(pa.table({"x": values}), {"x": kind}) is None


def test_rows_whose_first_chunk_is_empty_are_csv_all_the_same() -> None:
    rows = pa.table({"vehicle_id": ["A1", "A2"], "n": [1, None]})
    assert csv_of(pa.concat_tables([rows.schema.empty_table(), rows])) == b'"A1",1\n"A2",\n'
