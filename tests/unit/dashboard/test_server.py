"""The web server refuses to be open to others without sign-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.server import options, serve
from infra.contract.errors import ConfigError
from infra.settings.sections import Dashboard


def test_an_address_that_others_reach_is_refused_without_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_DASHBOARD_ADDRESS", "0.0.0.0")
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0: others reach it and nobody has to sign in"):
        serve(1)


def test_streamlit_reads_no_file_of_secrets_but_the_one_that_is_set(tmp_path: Path) -> None:
    assert options(1, Dashboard())["secrets.files"] == []
    assert options(1, Dashboard())["server.address"] == "127.0.0.1"
    assert options(1, Dashboard())["runner.postScriptGC"] is False  # see README, How fast
    assert options(1, Dashboard())["runner.magicEnabled"] is False  # else a constant's words are drawn
    assert options(1, Dashboard(oidc=tmp_path / "o.toml"))["secrets.files"] == [str(tmp_path / "o.toml")]
