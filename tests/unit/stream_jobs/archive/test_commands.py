"""The commands ``odograph archive``, as far as they need no service."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_jobs.archive.cli import app
from stream_jobs.archive.writer import now_ms
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, batches


def test_what_is_to_expire_is_listed_and_where_nothing_is_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODOGRAPH_PATHS_HOME", str(tmp_path))
    this_hour_ms = now_ms() // HOUR_MS * HOUR_MS
    batches(tmp_path / "archive", 2, this_hour_ms)
    expire = ["expire", "--keep-days", "30"]
    assert CliRunner().invoke(app, expire).output == "nothing has expired\n"
    batches(tmp_path / "archive", 2, TEN)
    told = CliRunner().invoke(app, expire).output.splitlines()
    assert told[1].startswith("1970-01-01T10Z")
    assert told[-1] == "1 hours would go; do it with --yes"
