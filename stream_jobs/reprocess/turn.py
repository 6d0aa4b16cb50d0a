"""One batch writer at a time: it holds the turn from before it reads the archive until it has written.

Else two could read one after the other and write in the other order: a late frame that the first had taken in
would be marked as repaired and be gone. The turn is an advisory lock of a session: who is killed lets go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from infra.contract.errors import ServiceError
from stream_jobs.app.database import Connection, Database, execute, fetch

BATCH: Final = 7020
MAINTENANCE: Final = 7022
"""What a turn is for: keys of the locks."""
_TAKE: Final = "SELECT pg_try_advisory_lock(%(key)s)"
_HELD: Final = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid = %(key)s AND granted
"""
_GIVE: Final = f"SELECT pg_advisory_unlock(%(key)s) WHERE ({_HELD}) > 0"
"""Nothing where the session that took it is gone and another one asks."""


class TurnLostError(Exception):
    """The connection that held the turn is gone: what was read may be old by now, and is read again."""


@contextmanager
def turn(database: Database, key: int) -> Iterator[bool]:
    """Whether the turn is ours while the block runs; False: another writer is at it."""
    if not database.run(lambda c: fetch(c, _TAKE, {"key": key}))[0][0]:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(
            ServiceError
        ):  # asked to stop while the database was away: the lock went with the session
            database.run(lambda c: execute(c, _GIVE, {"key": key}))


def hold(connection: Connection, key: int) -> None:
    """In the transaction that writes: raises TurnLostError where the turn was lost with its session."""
    if fetch(connection, _HELD, {"key": key})[0][0] == 0:
        raise TurnLostError
