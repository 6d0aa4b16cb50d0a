"""The web server refuses to be open to others without sign-in."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from dashboard.server import lead_to_tls, options, serve
from infra.contract.errors import ConfigError
from infra.settings.sections import Dashboard
from infra.settings.values import LOOPBACK
from infra.stack.service import free_port


def test_an_address_that_others_reach_is_refused_without_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_DASHBOARD_ADDRESS", "0.0.0.0")
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0: others reach it and nobody has to sign in"):
        serve(1)


def test_streamlit_reads_no_file_of_secrets_but_the_one_that_is_set(tmp_path: Path) -> None:
    assert options(1, Dashboard())["secrets.files"] == []
    assert options(1, Dashboard())["server.address"] == "127.0.0.1"
    assert options(1, Dashboard())["runner.postScriptGC"] is False  # see README, Key design decisions
    assert options(1, Dashboard())["runner.magicEnabled"] is False  # else a constant's words are drawn
    assert options(1, Dashboard(oidc=tmp_path / "o.toml"))["secrets.files"] == [str(tmp_path / "o.toml")]


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("localhost:80", (308, "https://localhost:8501/trips?trip=a%2Fb")),
        ("[::1]", (308, "https://[::1]:8501/trips?trip=a%2Fb")),
        ("elsewhere.example", (403, None)),
    ],
)
def test_plain_http_is_led_to_the_same_address_under_https_at_its_own_names_only(
    plain_port: int, host: str, answer: tuple[int, str | None]
) -> None:
    asking = http.client.HTTPConnection("127.0.0.1", plain_port, timeout=10)
    asking.request("GET", "/trips?trip=a%2Fb", headers={"Host": host})
    told = asking.getresponse()
    assert (told.status, told.headers["location"]) == answer
    asking.close()


@pytest.fixture(scope="module")
def plain_port() -> int:
    chosen = Dashboard(redirect_port=free_port())
    lead_to_tls(chosen, LOOPBACK, 8501)
    return chosen.redirect_port
