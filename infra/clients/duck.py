"""DuckDB as the command line and the periodic tasks use it: one thread, and nothing on standard output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb


@contextmanager
def connected(memory: str | None = None, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own; ``memory`` as 512MB is a limit, beyond which it writes to ``spill``.

    After two seconds DuckDB would draw a progress bar on standard output, into the JSON printed there.
    """
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET preserve_insertion_order = false")
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}'")
        if spill is not None:
            name = str(spill).replace("'", "''")
            connection.execute(f"SET temp_directory = '{name}'")
        yield connection
