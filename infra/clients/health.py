"""The health page of a serving process: /livez, /readyz and /metrics on the loopback interface."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType, TracebackType
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from infra.contract.errors import ServiceError
from infra.settings.values import LOOPBACK, is_ours

HOST = "127.0.0.1"

Check = Callable[[], str | None]
"""A readiness check: None when all is well, else the reason in a few words. Quick and thread-safe."""

Answer = tuple[int, str, bytes]
"""Status, content type and body."""

ELSEWHERE: Answer = (403, "text/plain; charset=utf-8", b"asked for under a name that is not loopback's\n")


def readiness(checks: Mapping[str, Check]) -> tuple[int, dict[str, str]]:
    """200 and nothing when every check holds; 503 and {check: reason} otherwise.

    A check that raises is not ready: its error is the reason.
    """
    reasons: dict[str, str] = {}
    for name, check in checks.items():
        reason = _reason(check)
        if reason is not None:
            reasons[name] = reason
    return (503 if reasons else 200), reasons


def _reason(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  a broken check must show as a reason, not end the page
        return f"{type(error).__name__}: {error}"


class HealthServer:
    """Serves the health page from a thread of its own while the ``with`` block runs.

    ``port`` 0 takes any free one; the attribute ``port`` holds the one in use. ``remarks`` are shown by
    /readyz too, and change nothing in its status. Raises ServiceError where the port is taken.
    """

    def __init__(
        self,
        port: int,
        checks: Mapping[str, Check],
        registry: CollectorRegistry,
        remarks: Mapping[str, Check] = MappingProxyType({}),
    ) -> None:
        self.port = port
        self._checks = checks
        self._remarks = remarks
        self._registry = registry
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> HealthServer:
        """Bind and serve."""
        try:
            server = ThreadingHTTPServer((HOST, self.port), _handler(self.answer))
        except OSError as error:
            raise ServiceError(
                f"the health page cannot listen on {HOST}:{self.port} ({error}); "
                "stop the other process or choose another port"
            ) from error
        server.daemon_threads = True
        self.port = int(server.server_address[1])
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving and free the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._thread is not None:
            self._thread.join()

    def answer(self, path: str) -> Answer:
        """What the page says under ``path``."""
        if path == "/livez":
            return 200, "text/plain; charset=utf-8", b"ok\n"
        if path == "/readyz":
            status, reasons = readiness(self._checks)
            shown = readiness(self._remarks)[1] | reasons
            return status, "application/json", json.dumps(shown).encode() + b"\n"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        return 404, "text/plain; charset=utf-8", b"only /livez, /readyz and /metrics live here\n"


def _handler(answer: Callable[[str], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hosts, origins = (self.headers.get_all(name, []) for name in ("Host", "Origin"))
            ours = is_ours(hosts, origins, LOOPBACK)
            status, content_type, body = answer(self.path.partition("?")[0]) if ours else ELSEWHERE
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's signature
            """A probe a second is no news."""

    return Handler


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that either signal sets; handlers are as before at the end. Main thread only."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
