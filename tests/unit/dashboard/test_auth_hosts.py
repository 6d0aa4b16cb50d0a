"""Under which names the dashboard answers, and what is refused before any route has looked at it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashboard.auth import HostCheck, Roles, served_names
from infra.contract.errors import ConfigError
from infra.settings.sections import Dashboard
from infra.settings.settings import load
from infra.settings.values import LOOPBACK


def answer(kind: str, *headers: tuple[str, str]) -> list[Any]:
    """What reaches the client: the status or message sent, ``passed`` where the pages were asked."""
    said: list[Any] = []

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        said.append("passed")

    async def send(message: Any) -> None:
        said.append(message.get("status") or message["type"])

    async def receive() -> Any:
        raise AssertionError("nothing is read before the check")

    scope = {"type": kind, "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers]}
    names = served_names(Dashboard(hosts="Fleet.Example.org"), None)
    asyncio.run(HostCheck(pages, names)(scope, receive, send))
    return said


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8501",
        "127.0.0.1:1",
        "127.0.0.1",
        "[::1]",
        "[0:0::1]:80",
        "fleet.example.ORG:443",
    ],
)
def test_loopback_and_the_hosts_of_the_settings_are_served_at_any_port(host: str) -> None:
    assert answer("http", ("Host", host)) == ["passed"]
    assert answer("websocket", ("Host", host), ("Origin", f"https://{host}")) == ["passed"]


@pytest.mark.parametrize(
    "host",
    [
        *("evil", "evil:1", "127.0.0.1.evil", "localhost.evil:8501", "evil.localhost", "xfleet.example.org"),
        *("localhost.", "127.0.0.1.", "127.1", "0.0.0.0", "2130706433", "0x7f.1", "127.0.0.2"),
        *("::1", "[::2]", "[::1", "[::1]evil", "localhost:", "localhost:x", "localhost:80:80", "*", "", " "),
        *("user@localhost", "localhost@evil", "localhost:80@evil", "http://localhost", "localhost/evil"),
        *("localhost evil", "localhost,evil", "localhost#", "localhost%00"),
        *("localh\xf6st", "localhost\t", "localhost\n"),
    ],
)  # fmt: skip
def test_any_other_host_gets_403(host: str) -> None:
    assert answer("http", ("Host", host))[0] == 403
    assert answer("websocket", ("Host", host)) == ["websocket.close"]


def test_one_host_is_wanted_and_a_forwarded_one_is_not_believed() -> None:
    assert answer("http")[0] == 403
    assert answer("http", ("Host", "localhost"), ("Host", "localhost"))[0] == 403
    assert (
        answer("http", ("Host", "evil"), ("X-Forwarded-Host", "localhost"), ("Forwarded", "host=localhost"))[
            0
        ]
        == 403
    )
    assert answer("http", ("Host", "localhost"), ("X-Forwarded-Host", "evil")) == ["passed"]


@pytest.mark.parametrize(
    "origin",
    ["http://evil:1", "null", "", "localhost", "ws://localhost", "file://localhost", "http://localhost/", "http://localhost@evil"],
)  # fmt: skip
def test_a_page_of_another_site_gets_neither_page_nor_socket(origin: str) -> None:
    assert answer("http", ("Host", "localhost"), ("Origin", origin))[0] == 403
    assert answer("websocket", ("Host", "localhost"), ("Origin", origin)) == ["websocket.close"]


def test_two_origins_are_refused() -> None:
    ours = ("Origin", "http://localhost")
    assert answer("websocket", ("Host", "localhost"), ours, ours) == ["websocket.close"]


def test_where_it_listens_and_where_signing_in_leads_back_to_are_names_of_its_own() -> None:
    known = Roles("email", {}, "fleet.example.org")
    assert served_names(Dashboard(address="10.0.0.5"), known) == LOOPBACK | {"10.0.0.5", "fleet.example.org"}
    assert served_names(Dashboard(address="0.0.0.0", hosts="a.b, [FE80::1]"), None) == LOOPBACK | {
        "a.b",
        "fe80::1",
    }


@pytest.mark.parametrize(
    ("host", "kept"), [("fleet.example.org:8501", True), ("localhost", False), ("[::1]:1", False)]
)
def test_over_tls_every_cookie_is_for_tls_and_browsers_keep_to_it_beyond_loopback(
    host: str, kept: bool
) -> None:
    sent: list[Any] = []
    cookies = [(b"set-cookie", b"a=1; HttpOnly"), (b"set-cookie", b"b=2; secure; Path=/")]

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": cookies})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"host", host.encode())]}
    checked = HostCheck(pages, LOOPBACK | {"fleet.example.org"}, secure=True)
    asyncio.run(checked(scope, send, send))
    assert sent[0]["headers"][:2] == [(b"set-cookie", b"a=1; HttpOnly; Secure"), cookies[1]]
    assert sent[0]["headers"][2:] == [(b"strict-transport-security", b"max-age=31536000")] * kept
    assert sent[1] == {"type": "http.response.body", "body": b"x"}


@pytest.mark.parametrize("hosts", ["https://a.b", "a.b:443", "*", "*.a.b", "a b", "a.b,c/d"])
def test_a_setting_that_is_no_list_of_hosts_is_refused_by_its_name(hosts: str) -> None:
    with pytest.raises(ConfigError, match=r"ODOGRAPH_DASHBOARD_HOSTS: .* is no host name or address"):
        load(dashboard={"hosts": hosts})
