"""The frame of a serving process: its health page, signals, helper threads."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET6
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from infra.clients import log
from infra.contract.errors import ServiceError
from infra.settings.values import LOOPBACK, host_name, is_ours

if TYPE_CHECKING:
    from infra.clients.leases import Lease

HOST: Final = "127.0.0.1"
LOOKUPS: Final = "/lookups"
TEXT: Final = "text/plain; charset=utf-8"

Check = Callable[[], str | None]  # None when all is well, else why not in a few words; quick and thread-safe

Answer = tuple[int, str, bytes]  # status, content type and body
STRANGER: Final = (403, TEXT, b"asked for under a name that is not in ODOGRAPH_HEALTH_HOSTS\n")


def readiness(checks: Mapping[str, Check]) -> tuple[int, dict[str, str]]:
    """200 and nothing when every check holds; 503 and {check: reason} otherwise.

    A check that raises is not ready: its error is the reason.
    """
    reasons: dict[str, str] = {}
    for name, check in checks.items():
        try:
            reason = check()
        except Exception as error:  # noqa: BLE001  a broken check must show as a reason, not end the page
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            reasons[name] = reason
    return (503 if reasons else 200), reasons


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a health page listens; port 0: any free one. ``hosts``: more names under which it answers."""

    port: int = 0
    address: str = HOST
    hosts: tuple[str, ...] = ()

    def names(self, asked: str | None) -> frozenset[str]:
        """Host names that are ours, ``asked`` too where it is an address: no name server leads one here."""
        own = LOOPBACK.union(self.hosts)
        if asked and self.address not in LOOPBACK:
            with suppress(ValueError):
                return own | {str(ip_address(asked))}
        return own


class HealthServer(ThreadingHTTPServer):
    """Serves /livez, /readyz and /metrics from a thread of its own while the ``with`` block runs.

    The attribute ``port`` holds the port in use. ``remarks`` are shown by /readyz too, and change nothing in
    its status. Files of the folder ``lookups`` are served under /lookups, for workers of other hosts. Who
    stands by for a ``lease`` is ready, and says so. Raises ServiceError where the port is taken.
    """

    daemon_threads = True

    def __init__(
        self,
        listen: Listen,
        checks: Mapping[str, Check],
        registry: CollectorRegistry,
        remarks: Mapping[str, Check] = MappingProxyType({}),
        lookups: Path | None = None,
        lease: "Lease | None" = None,
    ) -> None:
        self._checks, self._remarks, self._registry = checks, remarks, registry
        self._lookups, self._lease = lookups, lease
        self.names = listen.names
        if ":" in listen.address:
            self.address_family = AF_INET6
        try:
            super().__init__((listen.address, listen.port), _Handler)
        except OSError as error:
            raise ServiceError(
                f"the health page cannot listen on {listen.address}:{listen.port} ({error}); "
                "stop the other process, or choose another port or ODOGRAPH_HEALTH_ADDRESS"
            ) from error
        self.port = int(self.server_address[1])
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="health", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def answer(self, path: str) -> Answer:
        """What the page says under ``path``."""
        if path == "/livez":
            return 200, TEXT, b"ok\n"
        if path == "/readyz":
            checks, remarks = self._checks, self._remarks
            if (lease := self._lease) is not None:
                away: dict[str, Check] = {"lease": lambda: lease.problem}
                needed = lease.standby or not lease.optional
                checks = {**({} if lease.standby else checks), **(away if needed else {})}
                remarks = {"standby": lambda: lease.standby, **remarks, **away}
            status, reasons = readiness(checks)
            return status, "application/json", json.dumps(readiness(remarks)[1] | reasons).encode() + b"\n"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if self._lookups is not None and path.startswith(LOOKUPS):
            return self._lookup(self._lookups, path.removeprefix(LOOKUPS).removeprefix("/"))
        return 404, TEXT, b"only /livez, /readyz and /metrics live here\n"

    @staticmethod
    def _lookup(folder: Path, name: str) -> Answer:
        """The version of each file by name; a file by its name."""
        others = (".new", ".json")  # half written; the downlink's alone
        there = {path.name: path for path in folder.glob("[!.]*.*") if path.suffix not in others}
        if not name:
            stats = {name: path.stat() for name, path in there.items()}
            versions = {name: f"{stat.st_mtime_ns}-{stat.st_ino}" for name, stat in stats.items()}
            return 200, "application/json", json.dumps(versions).encode()
        if name not in there:
            return 404, TEXT, b"there is no such lookup\n"
        return 200, "application/octet-stream", there[name].read_bytes()


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer
    timeout = 60.0  # s to ask, and s to take the answer: who does not holds a thread

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        names = self.server.names(host_name(hosts[0]) if hosts else None)
        origins = self.headers.get_all("Origin", [])
        if not (ours := is_ours(hosts, origins, names)):
            log.refused(f"request: host {', '.join(hosts) or '-'} origin {', '.join(origins) or '-'}")
        status, content_type, body = self.server.answer(self.path.partition("?")[0]) if ours else STRANGER
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's signature
        """A probe a second is no news."""


@contextmanager
def stopped_by_signals(
    second_ends: bool = False, told: Callable[[], None] = lambda: None
) -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; handlers are as before at the end. Main thread only.

    ``second_ends``: the same signal once more ends the process at once. The other one does not: Ctrl-C in a
    terminal reaches a child as SIGINT, then as its parent's SIGTERM. ``told`` is called at the first.
    """
    stop = threading.Event()
    come: set[int] = set()

    def heard(number: int, _frame: object) -> None:
        if second_ends and number in come:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        come.add(number)
        if not stop.is_set():
            stop.set()
            told()

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def in_background(name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """A daemon thread does ``work`` until the end of the block sets its event."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
