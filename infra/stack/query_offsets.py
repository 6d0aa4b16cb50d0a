"""How far each streaming query is, as the ledger says: end offsets of the batches whose rows are in.

A line of the ledger goes in with the rows of its batch: what it ends at is in the tables, whatever happens
next.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from infra.clients.db import sql_of

SQL: Final = sql_of(__file__)
Offsets = Mapping[str, Mapping[int, int]]  # next offset by topic and partition
Stretches = Mapping[tuple[str, int], tuple[int | None, int]]
"""By topic and partition, the first offset (None: not known) and the next one after the last."""


class Committed(NamedTuple):
    """The newest batch of a query that is in the tables, and where it ends."""

    query: str
    batch_id: int
    ends: Offsets


def all_committed(connection: psycopg.Connection[Any]) -> dict[str, Committed]:
    """The newest batch of each query that ever ran; one that has begun anew ends nowhere yet (-1)."""
    rows = connection.cursor(row_factory=tuple_row).execute(SQL["newest"]).fetchall()
    return {query: Committed(query, batch_id, offsets_of(ends)) for query, batch_id, ends in rows}


def committed(connection: psycopg.Connection[Any], query: str) -> Committed | None:
    """The newest batch of ``query``; None before the first."""
    found = all_committed(connection).get(query)
    return None if found is None or found.batch_id < 0 else found


def committed_ends(connection: psycopg.Connection[Any], topic: str) -> dict[str, Mapping[int, int]]:
    """Where the newest batch of each query ends in a topic, by query."""
    newest = all_committed(connection).values()
    return {done.query: done.ends.get(topic, {}) for done in newest if topic in done.ends or not done.ends}


def offsets_of(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets out of JSON, whose keys are texts."""
    return {topic: {int(p): int(o) for p, o in of.items()} for topic, of in found.items()}


def ends_in(text: str) -> Offsets | None:
    """Where a batch ends, by the text of its file in a checkpoint's ``offsets``; None where half written."""
    ends: dict[str, dict[int, int]] = {}
    for line in text.splitlines()[2:]:  # a version, then the batch's metadata, then a line a source
        try:
            source = json.loads(line)
        except json.JSONDecodeError:
            return None
        for topic, found in source.items() if isinstance(source, dict) else ():
            ends.setdefault(topic, {}).update({int(p): int(offset) for p, offset in found.items()})
    return ends or None
