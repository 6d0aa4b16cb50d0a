"""The command's word on a log, by what the database answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from infra.contract.errors import ConfigError
from infra.sql import queries
from stream_jobs.audit_log.cli import audit_log

ENTRY = {
    "entry": 7,
    "at": datetime(2026, 11, 20, tzinfo=UTC),
    "actor": "ada",
    "role": "odograph_dispatch",
    "action": "signed in",
    "vehicle_id": None,
    "detail": "",
}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setenv("ODOGRAPH_DB_INGEST_URL", "postgresql://nobody@localhost/none")
    app = typer.Typer()
    app.command()(audit_log)
    return app


@pytest.mark.parametrize(
    ("broken", "told", "code"),
    [(0, "no entries\n", 0), (2, "no entries\n2 entries do not hold: the log was changed\n", 1)],
)
def test_a_changed_log_is_told_where_nothing_of_the_person_is_left(
    monkeypatch: pytest.MonkeyPatch, command: typer.Typer, broken: int, told: str, code: int
) -> None:
    def stored(_url: str, _vehicle: str | None, actor: str | None, _limit: int) -> list[dict[str, Any]]:
        return [] if actor == "eve" else [ENTRY | {"broken": broken}]

    monkeypatch.setattr(queries, "audit_log", stored)
    found = CliRunner().invoke(command, ["--actor", "eve"], catch_exceptions=False)
    assert (found.stdout, found.exit_code) == (told, code)


def test_a_head_is_not_passed_over_in_silence(command: typer.Typer) -> None:
    with pytest.raises(ConfigError, match="--head is looked for with --verify only"):
        CliRunner().invoke(command, ["--head", "0" * 64], catch_exceptions=False)
