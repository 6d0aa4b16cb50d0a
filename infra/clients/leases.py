"""Leases: of several processes that are the same singleton one acts, and another takes over when it stalls.

A lease is a row in PostgreSQL: its holder, when it expires by the server's clock, and an epoch, one more with
each taking (the fencing token). The holder moves the expiry on; who stands by takes what has expired. Taking
ends all database sessions of the holder before, and each transaction of a holder checks its epoch: one that
stood still and goes on writes nothing. Effects outside of the database ask ``Term.require`` right before.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from infra.clients.db import Connection, asked, open_connection, service_errors, socket_deadline, sql_of
from infra.contract.errors import ServiceError

if TYPE_CHECKING:
    from infra.settings.settings import Settings

POLL_S: Final = 0.5
RENEWALS: Final = 4  # so often a lease is renewed within its time
WARMING_UP: Final = "; warming up"  # end of what a standby says that would need longer to take over
REASON: Final = 200  # characters
SQL: Final = sql_of(__file__)

log = structlog.get_logger("infra.clients.leases")


class LeaseLostError(ServiceError):
    """Another process holds the lease: nothing more may be written."""


class Term(threading.Event):
    """The time in which a lease is this process's. It is set when that is over, or the process is to stop.

    What is given a term as the event by which to stop is fenced by it.
    """

    def __init__(self, lease: "Lease", epoch: int, until_s: float) -> None:
        super().__init__()
        self.epoch = epoch
        self.lost = threading.Event()
        """Taken by another process, or given back."""
        self.until_s = until_s
        """When it expires unless it is renewed, by ``_now_s``."""
        self._lease = lease
        self._mine = lease.values | {"epoch": epoch}
        self._renewing = threading.Lock()

    def join(self, connection: psycopg.Connection[Any]) -> None:
        """A new session: whoever takes the lease ends it."""
        with socket_deadline(connection.fileno(), self._mine["ttl_s"]):
            connection.execute(SQL["join"], self._mine)

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """In a transaction that writes, of a session that has joined; raises LeaseLostError."""
        if connection.execute(SQL["check"], self._mine).fetchone() is None:
            self._lose()

    @property
    def left_s(self) -> float:
        """How long it is surely this process's unless it is renewed, s."""
        return 0.0 if self.lost.is_set() else self.until_s - _now_s()

    def require(self) -> None:
        """Right before an effect outside of the database. Raises LeaseLostError where the lease is another's.

        ServiceError where it may be: its time has passed, and the database does not say, unless the lease is
        ``optional``.
        """
        if self.lost.is_set() or (self.left_s <= 0 and not (self._lease.optional and self._lease.problem)):
            self.renew()

    def renew(self) -> None:
        """Hold it for its whole time from now on; raises as ``require``."""
        with self._renewing:
            asked_s = _now_s()
            if self.lost.is_set():
                self._lose()
            if self.epoch:
                held = self._lease.ask("renew", self._mine)
            else:  # begun without the database
                held = self._lease.ask("take", self._mine | {"from_itself": True})[0]
                self.epoch = self._mine["epoch"] = held or 0
            if not held:
                self._lose()
            self.until_s = asked_s + self._mine["ttl_s"]

    def give_back(self) -> None:
        """The next one need not wait; raises ServiceError."""
        self.lost.set()
        self._lease.ask("give_back", self._mine)

    def _lose(self) -> None:
        if not self.lost.is_set():
            log.warning("lease lost", lease=self._lease.name, epoch=self.epoch)
        self.lost.set()
        self.set()
        raise LeaseLostError(f"the lease {self._lease.name} was taken by another process")


class Lease:
    """The lease ``name`` as this process sees it. ``standby`` says who has it while this one stands by.

    ``problem`` is why the database does not say, None when all is well. A process that is started anew takes
    over at once from the one before with the same holder, which is host and home unless the settings say.
    Without a ``url`` there is no lease, and the process acts: it must be the only one. Where the lease is
    ``optional``, what it does needs no database and may happen twice: its holder goes on while the database
    is away, when nobody can take the lease, and a process that is started meanwhile acts too. Of two regions
    the programs of one take leases.
    """

    def __init__(
        self, settings: "Settings", url: str, name: str, stop: threading.Event, *, optional: bool = False
    ) -> None:
        terms = settings.lease
        self.optional = optional
        holder = terms.holder or f"{socket.gethostname()}:{settings.paths.home.resolve()}"
        self.name, self._url, self._stop = name, url, stop
        self.values: dict[str, Any] = {"name": name, "holder": holder, "ttl_s": terms.ttl_s}
        self.values["region"] = settings.region.name
        self.problem: str | None = None
        self.standby: str | None = None
        self.succeeds = False
        """Another one had it while this one stood by."""
        self._from_itself = True
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        if not url:
            log.warning("no database is named, so no lease: this must be the only one", lease=name)

    def run(self, work: Callable[[Term], None]) -> None:
        """Call ``work`` each time the lease is this process's, until ``stop``."""
        while not self._stop.is_set():
            with suppress(LeaseLostError), self.held() as term:
                if term is not None:
                    work(term)

    @contextmanager
    def held(self, warm_up: Iterable[bool | None] = ()) -> Iterator[Term | None]:
        """Waits until the lease is this process's, which it is while the block runs; None: stopped before.

        While another one has it, ``warm_up`` gets ready what the block needs, a step with each look at the
        lease, as far as it comes; what it gives is true when all is ready, and is kept so. The block ends by
        LeaseLostError where the lease was lost.
        """
        term = self._take(iter(warm_up))
        try:
            if term is not None:
                threading.Thread(target=self._keep, args=(term,), name="lease", daemon=True).start()
            yield term
            if term is not None and term.lost.is_set():
                term.require()
        finally:
            if term is not None:
                term.set()
                with suppress(ServiceError):  # then it expires
                    term.give_back()
            with self._lock:
                self._close()

    def _take(self, warm_up: Iterator[bool | None]) -> Term | None:
        begun_s = _now_s()
        while not self._stop.is_set():
            asked_s, pause_s = _now_s(), POLL_S
            try:
                epoch, holder = self.ask("take", self.values | {"from_itself": self._from_itself}) or (0, "")
            except ServiceError:
                if self.optional and self._from_itself and _now_s() >= begun_s + self.values["ttl_s"]:
                    log.warning("the database is away: acting without the lease", lease=self.name)
                    return Term(self, 0, begun_s)
                if not self._from_itself:  # who had it before the database was away renews it first
                    pause_s = self.values["ttl_s"] / 2
            else:
                self._from_itself = False
                if epoch:
                    self.standby = None
                    log.info("lease taken", lease=self.name, epoch=epoch)
                    return Term(self, epoch, asked_s + self.values["ttl_s"])
                if self.standby is None:
                    self.succeeds = True
                    log.info("standing by", lease=self.name, holder=holder)
                cold = self._warmer(warm_up)
                self.standby = f"{holder} has the lease {self.name}{WARMING_UP * cold}"
            self._stop.wait(pause_s)
        return None

    def _warmer(self, warm_up: Iterator[bool | None]) -> bool:
        """A step of the warm-up; False when all is ready, or it has failed."""
        try:
            return not next(warm_up, True)
        except ServiceError as error:
            log.warning("warm-up failed: a takeover is slower", lease=self.name, reason=str(error)[:REASON])
            return False

    def _keep(self, term: Term) -> None:
        """Until it is lost or given back: what is under way when the process is to stop still counts."""
        while not term.lost.is_set():
            if self._stop.is_set():
                term.set()
            if not (term.lost if term.is_set() else self._stop).wait(self.values["ttl_s"] / RENEWALS):
                with suppress(ServiceError):  # whoever writes is told
                    term.renew()

    def ask(self, statement: str, values: dict[str, Any]) -> Any:
        """The row that a statement of leases.sql gives; raises ServiceError."""
        if not self._url:
            return 1, self.values["holder"]
        with self._lock:
            try:
                with service_errors():
                    self._connection = self._connection or open_connection(
                        self._url, Connection, statement_timeout_s=values["ttl_s"], autocommit=True,
                        application_name=f"odograph-lease-{self.name}",
                    )  # fmt: skip
                    with socket_deadline(self._connection.fileno(), values["ttl_s"]):
                        row = self._connection.execute(SQL[statement], values).fetchone()
            except ServiceError as error:
                self._close()
                self.problem = str(error)
                raise
            self.problem = None
            return row

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def holder_of(url: str, name: str, region: str) -> str | None:
    """Who has the lease ``name`` and acts in ``region``; None: nobody. Raises ServiceError."""
    held = asked(url, SQL["holder"], {"name": name, "region": region})
    return held[0][0] if held else None


def _now_s() -> float:
    """A clock that goes on while the process stands still or the machine sleeps, s."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
