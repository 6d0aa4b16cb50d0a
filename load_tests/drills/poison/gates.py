"""Rows 3 and 4: a web site under a rebound name asks the dashboard, a hostile file of SQL is judged."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import functions

from dashboard import auth
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise
from stream_jobs.rules import instant as instant_rules
from stream_jobs.user_sql import queries

COMMAND_S: Final = 240.0
SOCKET: Final = "/_stcore/stream"
ROUTES: Final = (
    *("GET /", "GET /vehicle", "GET /no/such/page", "GET /livez", "GET /readyz", "GET /metrics"),
    *("GET /map/roads.json", "GET /map/vehicles.json", "GET /map/clusters/3/1/1.json"),
    "GET /crash/bundle?vehicle=V&boot=1&crash=c&by=evil",
    *("GET /_stcore/health", "GET /_stcore/metrics", "GET /_stcore/host-config", f"GET {SOCKET}"),
    *("GET /_stcore/script-health-check", "GET /_stcore/bidi-components/x"),
    *("GET /_stcore/agent/openapi.json", "POST /_stcore/agent/interact"),
    *("POST /_stcore/agent/mcp", "OPTIONS /_stcore/upload_file/a/b"),
    *("PUT /_stcore/upload_file/a/b", "DELETE /_stcore/upload_file/a/b", "HEAD /media/x.png"),
    *("GET /media/x.png", "GET /component/x/index.html", "GET /app/static/x.js", "GET /static/js/index.js"),
    *("GET /favicon.png", "GET /auth/login", "GET /auth/logout", "GET /oauth2callback", "TRACE /"),
)  # fmt: skip
"""A request for each route of the server's own and of Streamlit's."""
STRANGE: Final = (
    *(
        "evil:1",
        "evil.localhost",
        "localhost.evil",
        "localhost.",
        "user@localhost",
        "127.1",
        "0.0.0.0",
        "[::2]",
    ),
    *("localhost, evil", "http://localhost", ""),
)
UPGRADE: Final = (
    *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


def status(port: int, request: str, *headers: str) -> int:
    """Send a request as it stands, without any header but these; the status of the answer, 0 for none."""
    lines = (f"{request} HTTP/1.1", *headers, "Connection: close" if UPGRADE[0] not in headers else "X: y")
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        words = connection.makefile("rb").readline().split()
    return int(words[1]) if len(words) > 1 else 0


def handshake(port: int, *headers: str) -> int:
    """The status of a WebSocket handshake; 101 is a reader with all rights where nobody signs in."""
    return status(port, f"GET {SOCKET}", *UPGRADE, *headers)


def host_promises(port: int) -> Iterator[Promise]:
    """What holds of a dashboard on loopback that is told no more hosts."""
    own = f"Host: 127.0.0.1:{port}"
    served = {route: status(port, route, own) for route in ROUTES if route.startswith("GET")}
    yield Promise("every GET is served to loopback", 403 not in served.values(), f"{served}")
    opened = [handshake(port, own), handshake(port, own, "Origin: http://localhost:1")]
    yield Promise("its pages get the socket", opened == [101, 101], f"{opened}")
    rebound = {route: status(port, route, "Host: evil:1") for route in ROUTES}
    let_in = {route: code for route, code in rebound.items() if code != 403}
    yield Promise(f"403 on {len(ROUTES)} routes under a rebound name", not let_in, f"else: {let_in}")
    asked = {route: status(port, route, own, "Origin: http://evil:1") for route in ROUTES}
    let_in = {route: code for route, code in asked.items() if code != 403}
    yield Promise(f"403 on {len(ROUTES)} routes for a page of another site", not let_in, f"else: {let_in}")
    strange = {host: status(port, "GET /livez", f"Host: {host}") for host in STRANGE}
    strange |= {
        "none": status(port, "GET /livez"),
        "two": status(port, "GET /livez", own, "Host: evil"),
        "absolute": status(port, f"GET http://127.0.0.1:{port}/livez", "Host: evil"),
        "forwarded": status(port, "GET /livez", "Host: evil", f"X-Forwarded-{own}"),
    }
    let_in = {host: code for host, code in strange.items() if code not in (400, 403)}
    yield Promise(f"{len(strange)} forms of other hosts are refused", not let_in, f"else: {let_in}")
    sockets = [
        handshake(port, "Host: evil:1", "Origin: http://evil:1"),
        handshake(port, own, "Origin: http://evil:1"),
        handshake(port, own, "Origin: null"),
        handshake(port, "Host: evil:1", f"X-Forwarded-{own}"),
    ]
    yield Promise("no socket for a page of another site", sockets == [403] * 4, f"{sockets}")


def row3(site: Site, mutant: str | None) -> Iterator[Promise]:
    """A page of a site whose name has come to lead to 127.0.0.1 asks the dashboard."""
    site.start("dashboard", program(mutant, "dashboard"))
    site.wait_ready("dashboard")
    yield from host_promises(site.endpoints.http_ports["dashboard"])
    site.stop("dashboard")


HOSTILE_SQL: Final = """-- over: frames
-- key: vehicle_id
WITH t AS (SELECT 'x' AS vehicle_id) INSERT OVERWRITE LOCAL DIRECTORY '{out}' USING csv SELECT * FROM t
"""
HOSTILE_RULE: Final = """rules:
  - {{id: x, version: 1, severity: MINOR, source: frame, message: x, value: "(SELECT 1 FROM csv.`{out}`)"}}
"""


def row4(site: Site, mutant: str | None) -> Iterator[Promise]:
    """A colleague's file is judged before it is used: what it says must not happen at that."""
    folder = site.home / f"row4-{time.time_ns()}"
    folder.mkdir()
    out, query, rule = folder / "out", folder / "mine.sql", folder / "mine.yaml"
    query.write_text(HOSTILE_SQL.format(out=out))
    rule.write_text(HOSTILE_RULE.format(out=out))
    checked = _run(site, program(mutant, "jobs", "sql", "check", str(query)))
    yield Promise(
        "the file wrote nothing", not out.exists(), f"{sorted(each.name for each in folder.iterdir())}"
    )
    named = "mine.sql, line 3: InsertIntoDir" in checked.stderr
    yield Promise("exit 2 names file, line and cause", checked.returncode == 2 and named, _last(checked))
    span = ("--from", "2026-01-01", "--to", "2026-01-02")
    tried = _run(site, program(mutant, "alerts", "backtest", "--rule", str(rule), *span))
    named = "rule x: `value`" in tried.stderr and "a subquery has no place in a rule" in tried.stderr
    yield Promise("a rule reads no file: exit 2 names it", tried.returncode == 2 and named, _last(tried))


def _run(site: Site, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=site.env, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return f"exit {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2][:300]}"


def runs_first() -> None:
    """A statement runs, then it is judged."""
    replace(queries, "query_objection", lambda _: lambda *_: None)


def any_expression() -> None:
    """A rule's expression is whatever Spark takes."""
    replace(instant_rules, "expression", lambda _: functions.expr)


def no_host_check() -> None:
    """Any host is served."""
    replace(auth, "is_ours", lambda _: lambda *_: True)


def http_only() -> None:
    """The check of routes, and none of the socket."""

    def blind(honest: Any) -> Any:
        async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
            await (self.app if scope["type"] == "websocket" else honest.__get__(self))(scope, receive, send)

        return call

    replace(auth.HostCheck, "__call__", blind)


def no_origin() -> None:
    """The host is looked at, who asks is not."""
    replace(auth, "is_ours", lambda honest: lambda hosts, _, names: honest(hosts, [], names))


ATTACKS: Final = (
    Attack(
        "row3",
        "a web site under a rebound name asks the dashboard",
        row3,
        {"no-host-check": no_host_check, "http-only": http_only, "no-origin": no_origin},
    ),
    Attack(
        "row4",
        "a file of SQL and a rules file that do more than compute are judged",
        row4,
        {"runs-first": runs_first, "any-expression": any_expression},
    ),
)
