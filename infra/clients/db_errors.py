"""What an error of the database is about. Who waits, tries again or leaves a record out asks here only.

``psycopg.OperationalError`` does not say it: "index row requires 40048 bytes" is one, and so is "tuple
decompression limit exceeded". The SQLSTATE does (PostgreSQL's appendix A).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import psycopg


class Cause(Enum):
    """What an error is about, and so what helps."""

    AWAY = "away"
    """The service: its connection, memory, disk, or a replica after a failover. It is waited for."""
    BUSY = "busy"
    """A race with others, or time that ran out: tried again, a bounded number of times."""
    DATA = "data"
    """A row, each time it is tried: it is left out and dead-lettered, the others go on."""
    SETUP = "setup"
    """Rights, tables, files of the server, our own code: no row is to blame and waiting mends nothing."""


_BY_STATE: Final = {
    "08": Cause.AWAY,  # connection exception
    "57P": Cause.AWAY,  # shut down, crashed, starting up
    "53": Cause.AWAY,  # disk full, out of memory, too many connections
    "53400": Cause.DATA,  # a configured limit: of the tuples that one statement may decompress
    "25006": Cause.AWAY,  # read only: the primary is another one now
    "25P03": Cause.AWAY,  # the server cut the session
    "25P04": Cause.AWAY,
    "40": Cause.BUSY,  # serialization failure, deadlock
    "55006": Cause.BUSY,  # object in use
    "55P03": Cause.BUSY,  # lock not available
    "57": Cause.BUSY,  # cancelled: a statement's time ran out
    "25": Cause.SETUP,
    "28": Cause.SETUP,
    "3D": Cause.SETUP,
    "3F": Cause.SETUP,
    "42": Cause.SETUP,  # no such table or column, no right to it
    "58": Cause.SETUP,
    "F0": Cause.SETUP,
    "XX001": Cause.SETUP,  # data or index of the server corrupted
    "XX002": Cause.SETUP,
}
"""By SQLSTATE or its beginning; the longest that fits counts. All others are about the data."""


def cause_of(error: psycopg.Error) -> Cause:
    """What ``error`` is about. Without a SQLSTATE it is the driver's: a broken link, a value it refuses."""
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Cause.AWAY
        return Cause.DATA if isinstance(error, psycopg.DataError) else Cause.SETUP
    beginnings = (state[:length] for length in (5, 3, 2))
    return next((_BY_STATE[text] for text in beginnings if text in _BY_STATE), Cause.DATA)


def described(error: psycopg.Error) -> str:
    """SQLSTATE, table where it is known, and message, in one line."""
    where = ".".join(name for name in (error.diag.schema_name, error.diag.table_name) if name)
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return ": ".join(
        part for part in (error.sqlstate or "no SQLSTATE", where, " ".join(text.split())) if part
    )
