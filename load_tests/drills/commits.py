"""The gap between two commits of a batch: the database has it, Spark's own log of commits has not."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from infra.clients.db import session
from infra.stack import query_offsets
from load_tests.drills.site import Site, until

CATCH_S: Final = 120.0
TABLES: Final = (
    *("vehicle_window", "road_cell_window", "road_edge_window", "vehicle_latest"),
    *("road_share", "road_share_bucket", "batch_ledger"),
)
"""What the query ``telemetry`` writes of windows."""
NEWEST: Final = "SELECT max(batch_id) FROM odograph.batch_ledger WHERE query_id = %s"


@dataclass(frozen=True, slots=True)
class Gap:
    """A batch of a query that is in the database only; its application is dead."""

    query: str
    query_id: str
    batch_id: int


def caught(site: Site, query: str, total: int) -> Gap | None:
    """Kill the jobs in the gap of the batch that ends the log (``total`` records); None where it was missed.

    The ledger is asked again and again; at its new line the application is stopped, looked at, killed.
    """
    checkpoint = site.home / "checkpoints" / query
    query_id = str(json.loads((checkpoint / "metadata").read_text())["id"])
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        before = _newest(connection, query_id)
        end = time.monotonic() + CATCH_S
        while (newest := _newest(connection, query_id)) == before and time.monotonic() < end:
            pass
    site.signal_group("jobs", signal.SIGSTOP)
    if newest == before or _committed(checkpoint, newest) or _ends_at(checkpoint, newest) != total:
        site.signal_group("jobs", signal.SIGCONT)
        return None
    site.kill_group("jobs")
    return Gap(query, query_id, newest)


def _newest(connection: psycopg.Connection[tuple[Any, ...]], query_id: str) -> int:
    row = connection.execute(NEWEST, (query_id,)).fetchone()
    return -1 if row is None or row[0] is None else int(row[0])


def _committed(checkpoint: Path, batch_id: int) -> bool:
    return (checkpoint / "commits" / str(batch_id)).exists()


def _ends_at(checkpoint: Path, batch_id: int) -> int:
    """Records of all partitions before the batch's end."""
    ends = ends_of(checkpoint, batch_id) or {}
    return sum(offset for partitions in ends.values() for offset in partitions.values())


def ends_of(checkpoint: Path, batch_id: int) -> query_offsets.Offsets | None:
    """Where a batch ends by Spark's own file; None where that is gone or half written."""
    path = checkpoint / "offsets" / str(batch_id)
    return query_offsets.ends_in(path.read_text()) if path.exists() else None


def newest_ends(checkpoint: Path) -> query_offsets.Offsets:
    """Where the newest batch that Spark committed ends; nowhere before the first."""
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdecimal()]
    return (ends_of(checkpoint, max(batches)) if batches else None) or {}


def replayed(site: Site, gap: Gap, deadline_s: float) -> None:
    """Wait until Spark has committed the batch as well."""
    checkpoint = site.home / "checkpoints" / gap.query
    until(lambda: _committed(checkpoint, gap.batch_id), deadline_s, f"batch {gap.batch_id} is replayed")


def digest(site: Site) -> dict[str, str]:
    """Rows and digest of each table that the query writes, and of its ledger.

    The transaction that wrote a row (xmin) counts: a row written anew is a change, also with equal values.
    """
    with session(site.endpoints.db_owner_url) as connection:
        return {table: _digest(connection, table) for table in TABLES}


def _digest(connection: psycopg.Connection[tuple[Any, ...]], table: str) -> str:
    own = "WHERE query = 'telemetry'" if table == "batch_ledger" else ""
    rows = f"SELECT md5(t::text || '/' || t.xmin::text) AS d FROM odograph.{table} t {own}"
    statement = f"SELECT count(*) || ' ' || md5(string_agg(d, '' ORDER BY d)) FROM ({rows}) r"
    row = connection.execute(statement.encode()).fetchone()
    return str(row[0]) if row else ""
