"""One batch writer at a time: it holds the lock from before it reads the archive until it has written.

Else two could read one after the other and write in the other order: a late frame that the first had taken in
would be marked as repaired and be gone. An advisory lock of a session: a killed process releases it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from infra.contract.errors import ServiceError
from stream_jobs.app.database import Connection, Database, execute, fetch

BATCH: Final = 7020
MAINTENANCE: Final = 7022
_TAKE: Final = "SELECT pg_try_advisory_lock(%(key)s)"
_HELD: Final = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid = %(key)s AND granted
"""
_RELEASE: Final = f"SELECT pg_advisory_unlock(%(key)s) WHERE ({_HELD}) > 0"
"""Nothing where the session that took it is gone and another one asks."""


class LockLostError(Exception):
    """The connection that held the lock is gone: what was read may be old by now, and is read again."""


@contextmanager
def writer_lock(database: Database, key: int) -> Iterator[bool]:
    """Whether the lock ``key`` is ours while the block runs; False: another process holds it."""
    if not database.run(lambda c: fetch(c, _TAKE, {"key": key}))[0][0]:
        yield False
        return
    try:
        yield True
    finally:
        # Asked to stop while the database was away: the lock went with the session.
        with suppress(ServiceError):
            database.run(lambda c: execute(c, _RELEASE, {"key": key}))


def require_lock(connection: Connection, key: int) -> None:
    """In the transaction that writes: raises LockLostError where the lock went with its session."""
    if fetch(connection, _HELD, {"key": key})[0][0] == 0:
        raise LockLostError
