"""Connections to PostgreSQL: opened with deadlines, their errors classified and turned into ServiceError."""

import heapq
import itertools
import os
import pwd
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from infra.contract.errors import ServiceError, raised_as

CONNECT_S: Final = 3

Connection = psycopg.Connection[tuple[Any, ...]]
Opened = TypeVar("Opened", bound=psycopg.Connection[Any])


def open_connection(
    url: str,
    kind: type[Opened],
    *,
    connect_timeout_s: int | None = CONNECT_S,
    statement_timeout_s: float | None = None,
    session: Mapping[str, str] | None = None,
    actor: str | None = None,
    **driver: Any,
) -> Opened:
    """A connection of this class; ``session`` are settings of the server, ``driver`` arguments of psycopg.

    Its times are in UTC, whatever zone the database or its role has.
    ``actor``: whom the audit log names, who signed in or ``system_user()``; None: the database's role.
    ``connect_timeout_s``: unless the URL has one; None: libpq's default, without end. Raises psycopg.Error.
    """
    settings = {"timezone": "UTC", **(session or {})}
    if statement_timeout_s is not None:
        settings["statement_timeout"] = str(int(statement_timeout_s * 1000))
    if actor is not None:
        settings["odograph.actor"] = actor
    given = conninfo_to_dict(url)
    # The server parts options at any white space: whose name has a tab must not add one.
    texts = {name: re.sub(r"[\\\s]", r"\\\g<0>", value) for name, value in settings.items()}
    ours = " ".join(f"-c {name}={text}" for name, text in texts.items())
    driver["options"] = f"{given.get('options', '')} {ours}".lstrip()  # of two the server takes the last
    if connect_timeout_s is not None:
        driver["connect_timeout"] = given.get("connect_timeout", connect_timeout_s)
    return kind.connect(url, **driver)


def system_user(uid: int | None = None) -> str:
    """A user's name by the system's word, which no variable of the environment changes; this process's."""
    uid = os.getuid() if uid is None else uid
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"uid {uid}"


def sql_of(module: str) -> dict[str, str]:
    """The statements in the SQL file beside a module, by name: a line ``-- name: NAME`` before each."""
    parts = Path(module).with_suffix(".sql").read_text().split("-- name: ")[1:]
    return {name: sql for name, _, sql in (part.partition("\n") for part in parts)}


@contextmanager
def session(url: str, *, answer_s: float | None = None, **options: Any) -> Iterator[psycopg.Connection[Any]]:
    """A connection while the block runs, committed at its end; ``options`` as of ``open_connection``.

    ``answer_s``: the whole block's deadline. Raises psycopg.Error.
    """
    connection = open_connection(url, psycopg.Connection[Any], **options)
    limit = nullcontext() if answer_s is None else socket_deadline(connection.fileno(), answer_s)
    with limit, connection:
        yield connection


@contextmanager
def connected(url: str, service: str = "database", **options: Any) -> Iterator[psycopg.Connection[Any]]:
    """As ``session``; the driver's errors are raised as ServiceError, which begins with ``service``."""
    with service_errors(service), session(url, **options) as connection:
        yield connection


def asked(url: str, query: str, values: Any = None, **options: Any) -> list[Any]:
    """The rows of one query over a connection of its own, as ``connected``; raises ServiceError."""
    with connected(url, **options) as connection:
        return connection.execute(query.encode(), values).fetchall()


def service_errors(service: str = "database") -> AbstractContextManager[None]:
    """The driver's errors as ServiceError."""
    return raised_as(ServiceError, service, psycopg.Error)


class Cause(Enum):
    """What an error is about, and so what helps. Who waits, retries or leaves a row out asks this.

    ``psycopg.OperationalError`` does not say it: "index row requires 40048 bytes" is one, and so is "tuple
    decompression limit exceeded". The SQLSTATE does (PostgreSQL's appendix A).
    """

    AWAY = "away"
    """The service: its connection, memory, disk, or a replica after a failover. It is waited for."""
    BUSY = "busy"  # a race with others, or time that ran out: tried again, a bounded number of times
    DATA = "data"  # a row, each time it is tried: it is left out and dead-lettered, the others go on
    SETUP = "setup"
    """Rights, tables, files of the server, our own code: no row is to blame and waiting mends nothing."""


_STATES: Final = {
    # connection exception; shut down, crashed, starting up; disk full, out of memory, too many connections;
    # read only: the primary is another one now; the server cut the session
    Cause.AWAY: ("08", "57P", "53", "25006", "25P03", "25P04"),
    # serialization failure, deadlock; object in use; lock not available; a statement's time ran out
    Cause.BUSY: ("40", "55006", "55P03", "57"),
    # a configured limit: of the tuples that one statement may decompress
    Cause.DATA: ("53400",),
    # 42: no such table or column, no right to it; XX: data or index of the server corrupted
    Cause.SETUP: ("25", "28", "3D", "3F", "42", "58", "F0", "XX001", "XX002"),
}
_BY_STATE: Final = {state: cause for cause, states in _STATES.items() for state in states}
"""By SQLSTATE or its beginning; the longest that fits counts. All others are about the data."""


def cause_of(error: psycopg.Error) -> Cause:
    """What ``error`` is about. Without a SQLSTATE it is the driver's: a broken link, a value it refuses."""
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Cause.AWAY
        return Cause.DATA if isinstance(error, psycopg.DataError) else Cause.SETUP
    return next((_BY_STATE[state[:n]] for n in (5, 3, 2) if state[:n] in _BY_STATE), Cause.DATA)


def described(error: psycopg.Error) -> str:
    """SQLSTATE, table where it is known, and message, in one line."""
    where = ".".join(name for name in (error.diag.schema_name, error.diag.table_name) if name)
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return ": ".join(filter(None, (error.sqlstate or "no SQLSTATE", where, " ".join(text.split()))))


@dataclass(slots=True)
class Wait:
    """A block that may last ``seconds``. ``over``: the connection was broken off."""

    seconds: float
    own: socket.socket | None = None  # None once the block has ended: nothing is broken off after this
    over: bool = False


@contextmanager
def socket_deadline(fileno: int, seconds: float) -> Iterator[Wait]:
    """Break the connection of this socket off where the block takes longer; its reader then gets an error.

    The statement timeout is the server's: one that stands still (stopped, swapping, behind a link that drops
    packets) does not keep it, and its kernel goes on acknowledging, so no TCP timeout ends the wait either.
    The socket is shut down, not closed: whoever owns it closes it. ``fileno`` may be closed within the block.
    """
    with socket.socket(fileno=os.dup(fileno)) as own:
        wait = Wait(seconds, own)
        _DEADLINES.begin(wait)
        try:
            yield wait
        finally:
            with _DEADLINES.changed:
                wait.own = None


class _Deadlines:
    """One thread for all waits: a page asks many small questions, and a thread for each costs more."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waits: list[tuple[float, int, Wait]] = []  # a heap by their end, s of the monotonic clock
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def begin(self, wait: Wait) -> None:
        """Watch this one until it has no socket."""
        entry = (time.monotonic() + wait.seconds, next(self._numbers), wait)
        with self.changed:
            heapq.heappush(self._waits, entry)
            if self._thread is None or not self._thread.is_alive():  # a forked process has none
                self._thread = threading.Thread(target=self._run, name="socket-deadlines", daemon=True)
                self._thread.start()
            elif self._waits[0] is entry:
                self.changed.notify()

    def _run(self) -> None:
        with self.changed:
            while True:
                left_s = None
                if self._waits:
                    end_s, _, wait = self._waits[0]
                    left_s = end_s - time.monotonic()
                    if wait.own is None or left_s <= 0:
                        heapq.heappop(self._waits)
                        if wait.own is not None:
                            wait.over = True
                            with suppress(OSError):  # it is gone already
                                wait.own.shutdown(socket.SHUT_RDWR)
                        continue
                self.changed.wait(left_s)


_DEADLINES = _Deadlines()
