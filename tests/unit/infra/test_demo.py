"""A home has one pipeline: who starts one and stops it at its end is alone in it."""

from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.demo import run
from infra.settings.settings import Settings
from infra.stack import supervisor


def test_a_second_demo_in_a_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.fetch, "fetch_all", lambda *_: None)
    settings, said = Settings(paths={"home": tmp_path}), list[str]()
    with (
        supervisor.alone(tmp_path),
        pytest.raises(ServiceError, match="a demo runs here"),
        run.running(settings, said.append),
    ):
        pass
    assert not (tmp_path / "run").exists(), "nothing was started"
