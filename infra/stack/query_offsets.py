"""How far each streaming query is, as its checkpoint says: end offsets of the newest committed batch.

What a committed batch (``commits/N``) ends at (``offsets/N``) is in the tables, whatever happens next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

Offsets = Mapping[str, Mapping[int, int]]
"""Next offset by topic and partition."""


REAL_TIME = ("instant", "instant-crash")
"""Pass records through when they come; their checkpoints say nothing of one record, or of lag."""


class Committed(NamedTuple):
    """The newest committed batch of a query and where it ends."""

    query: str
    batch_id: int
    ends: Offsets


def committed(home: Path, query: str) -> Committed | None:
    """The newest committed batch of ``query``; None before the first."""
    folder = home / "checkpoints" / query
    for batch_id in sorted(batches(folder / "commits"), reverse=True):
        ends = ends_of(folder, batch_id)
        if ends is not None:
            return Committed(query, batch_id, ends)
    return None


def committed_ends(home: Path, topic: str) -> dict[str, Mapping[int, int]]:
    """Where the newest committed batch of each query that lags ends in a topic, by query."""
    newest = (committed(home, query) for query in queries(home) if query not in REAL_TIME)
    return {done.query: done.ends[topic] for done in newest if done is not None and topic in done.ends}


def queries(home: Path) -> list[str]:
    """Names of all queries that ever ran in this home."""
    return sorted(path.parent.name for path in home.glob("checkpoints/*/offsets"))


def batches(folder: Path) -> list[int]:
    """Numbers of the batches in a folder of a checkpoint: the newest twenty or so."""
    return [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]


def ends_of(checkpoint: Path, batch_id: int) -> Offsets | None:
    """Where a batch ends in its topics; None where the file is gone or half written."""
    try:
        lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    except FileNotFoundError:
        return None
    ends: dict[str, dict[int, int]] = {}
    for line in lines[2:]:  # a version, then the batch's metadata, then a line a source
        try:
            source = json.loads(line)
        except json.JSONDecodeError:
            return None
        for topic, found in source.items() if isinstance(source, dict) else ():
            ends.setdefault(topic, {}).update({int(p): int(offset) for p, offset in found.items()})
    return ends or None


class Taken(NamedTuple):
    """The batch that a record is in; this or an earlier one where not ``exact``: older ones are forgotten."""

    query_id: str
    batch_id: int
    exact: bool


def batch_of(home: Path, query: str, topic: str, partition: int, offset: int) -> Taken | None:
    """The committed batch of ``query`` that took a record; None while none has."""
    folder = home / "checkpoints" / query
    before: int | None = None
    for batch_id in sorted(batches(folder / "commits")):
        ends = ends_of(folder, batch_id)
        if ends is None or topic not in ends:
            continue
        if ends[topic].get(partition, 0) > offset:
            query_id = str(json.loads((folder / "metadata").read_text())["id"])
            return Taken(query_id, batch_id, exact=batch_id == 0 or before is not None)
        before = batch_id
    return None
