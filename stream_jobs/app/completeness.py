"""Up to when the queries have taken in the whole log: a batch that reaches the latest offsets proves
completeness up to its start time.

The stream application writes it, whatever restates or derives reads it, in any process. It stays true while a
query does not run: then nothing is taken in, and nothing that was taken in is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stream_jobs.app.database import Connection, Database, execute, fetch

_NOTE: Final = """
INSERT INTO odograph.query_completeness AS c (query, complete_until)
SELECT query, to_timestamp(at_ms / 1000.0)
FROM unnest(%(queries)s::text[], %(moments)s::bigint[]) AS n (query, at_ms)
ON CONFLICT (query) DO UPDATE SET complete_until = greatest(c.complete_until, excluded.complete_until)
"""
_NOTE_LATE: Final = """
INSERT INTO odograph.query_completeness (query, late_noted_at)
VALUES (%(query)s, to_timestamp(%(at_ms)s / 1000.0))
ON CONFLICT (query) DO UPDATE SET late_noted_at = excluded.late_noted_at
"""
_COMPLETE: Final = """
WITH noted AS (SELECT coalesce(max(late_noted_at), '-infinity') AS at FROM odograph.query_completeness)
SELECT (extract(epoch FROM min(complete_until)) * 1000)::bigint FROM odograph.query_completeness
WHERE query = ANY(%(queries)s)
HAVING count(complete_until) = cardinality(%(queries)s::text[])
   AND min(complete_until) >= (SELECT at FROM noted)
"""


def note(connection: Connection, moments: Mapping[str, int]) -> None:
    """By query, up to when it has taken in everything, ms since 1970; it never goes back."""
    execute(connection, _NOTE, {"queries": [*moments], "moments": [*moments.values()]})


def note_late(connection: Connection, query: str, now_ms: int) -> None:
    """In the transaction that lists late frames: their windows close when the queries are past ``now_ms``."""
    execute(connection, _NOTE_LATE, {"query": query, "at_ms": now_ms})


def complete_until_ms(connection: Connection, queries: tuple[str, ...]) -> int | None:
    """Up to when all of ``queries`` have taken in every record, ms; None before each has said so once.

    None too while it lies before the last note of late frames: a record may reach the log long after its
    receipt, and then the clock alone does not tell that the queries have seen what came with it.
    """
    found = fetch(connection, _COMPLETE, {"queries": list(queries)})
    return int(found[0][0]) if found else None


def completeness(database: Database, *queries: str) -> Callable[[], int | None]:
    """``complete_until_ms`` of these queries, asked of the database at each call."""
    return lambda: database.run(lambda connection: complete_until_ms(connection, queries))
