"""What was measured into the database: one transaction a look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any, Final

import psycopg

from infra.clients.db import Connection, open_connection, service_errors
from infra.stack.watch.figures import Figures, share
from infra.stack.watch.samples import Place, Sample

PUT_SAMPLE: Final = """
INSERT INTO odograph.stage_sample
    (stage, at, good_until, ready, reason, rate_per_s, errors, lag, saturation, cores, memory_mb, restarts)
VALUES (%s, now(), now() + make_interval(secs => %s), %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
PUT_PLACE: Final = """
INSERT INTO odograph.partition_lag
    (reader, topic, partition, log_end, read_to, rate_per_s, at, good_until)
VALUES (%s, %s, %s, %s, %s, %s, now(), now() + make_interval(secs => %s))
ON CONFLICT (reader, topic, partition) DO UPDATE SET log_end = excluded.log_end, read_to = excluded.read_to,
    rate_per_s = excluded.rate_per_s, at = excluded.at, good_until = excluded.good_until
"""
PUT_STORAGE: Final = """
INSERT INTO odograph.storage_sample (place, at, bytes, free_bytes) VALUES (%s, now(), %s, %s)
ON CONFLICT DO NOTHING
"""
READ_TO: Final = (
    "SELECT topic, partition, next_offset FROM odograph.consumer_offset WHERE consumer = 'events'"
)
OWN: Final = """
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
       (SELECT xact_rollback + deadlocks FROM pg_stat_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::integer
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the database knows: itself, and how far the event store has read (by topic and partition)."""

    own: Figures
    read_to: Mapping[str, Mapping[int, int]]


def connect(url: str) -> Connection:
    """A connection of the watch; raises ServiceError."""
    with service_errors():
        return open_connection(
            url,
            Connection,
            statement_timeout_s=5,
            session={"timezone": "UTC"},
            autocommit=True,
            application_name="odograph-watch",
            tcp_user_timeout=5000,
        )


def look(connection: Connection) -> Seen:
    """Ask it; raises ServiceError."""
    with service_errors():
        commits, failures, clients, most = connection.execute(OWN).fetchone() or (None,) * 4
        read: dict[str, dict[int, int]] = {}
        for topic, partition, offset in connection.execute(READ_TO):
            read.setdefault(topic, {})[partition] = offset
    return Seen(Figures(passed=commits, errors=failures, saturation=share(clients, most or 0)), read)


def put(connection: Connection, samples: Sequence[Sample], found: Sequence[Place], good_s: float) -> None:
    """A look's rows; they count as measured for ``good_s``. Raises ServiceError."""
    rows = [(s[0], good_s, *s[1:]) for s in map(astuple, samples)]
    with _transaction(connection) as cursor:
        cursor.executemany(PUT_SAMPLE, rows)
        if found:
            cursor.executemany(PUT_PLACE, [(*astuple(place), good_s) for place in found])


def put_storage(connection: Connection, bytes_by_place: Mapping[str, int], free: Mapping[str, int]) -> None:
    """How big each place is, and how much its disk has left; raises ServiceError."""
    with _transaction(connection) as cursor:
        cursor.executemany(
            PUT_STORAGE, [(place, size, free.get(place)) for place, size in bytes_by_place.items()]
        )


@contextmanager
def _transaction(connection: Connection) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
    """A cursor within a transaction; the driver's errors as ServiceError."""
    with service_errors(), connection.transaction(), connection.cursor() as cursor:
        yield cursor
