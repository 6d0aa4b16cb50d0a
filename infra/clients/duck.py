"""DuckDB as the command line and the periodic tasks use it: one thread, and nothing on standard output."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from infra.contract.errors import ArchiveError


@contextmanager
def connected(memory: str | None = None, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own; ``memory`` as 512MB is a limit, beyond which it writes to ``spill``.

    After two seconds DuckDB would draw a progress bar on standard output, into the JSON printed there.
    Raises ArchiveError for what DuckDB refuses: a file whose bytes are damaged, a full disk, no memory.
    """
    given = {"memory_limit": memory, "temp_directory": None if spill is None else str(spill)}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    try:
        with duckdb.connect(config={"threads": 1, "preserve_insertion_order": False, **limits}) as connection:
            connection.execute("SET enable_progress_bar = false")
            yield connection
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveError(f"{reason} (damaged files are named by: odograph archive verify)") from error


def table_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows by the order of the columns as a table, to be registered or written."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


class _Source:
    """What a planned query reads: whatever table is here at the time."""

    table: pa.Table | None = None

    def __arrow_c_schema__(self) -> Any:
        assert self.table is not None
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        assert self.table is not None
        return self.table.__arrow_c_stream__(requested_schema)


class PlannedQuery:
    """A query over the Arrow table ``name``, planned once for tables of one schema; of one thread.

    A plan of many expressions costs more than to evaluate them over a thousand rows.
    """

    def __init__(self, statement: str, name: str) -> None:
        self._statement, self._name, self._source = statement, name, _Source()
        self._connection = duckdb.connect(config={"threads": 1, "enable_external_access": False})

    def __call__(self, table: pa.Table) -> pa.Table:
        """What the query says of ``table``. Raises duckdb.Error."""
        before, self._source.table = self._source.table, table
        if before is None or not before.schema.equals(table.schema):
            self._connection.register(self._name, self._source)
            self._connection.execute(f"PREPARE planned AS {self._statement}")
        try:
            return self._connection.sql("EXECUTE planned").to_arrow_table()
        finally:
            self._source.table = table.schema.empty_table()
