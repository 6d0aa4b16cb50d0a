"""The commands' words."""

from __future__ import annotations

from typer.testing import CliRunner

from stream_jobs.crashes.cli import crash_app


def test_a_verdict_that_there_is_not_is_refused_and_not_taken_for_one_without_records() -> None:
    found = CliRunner().invoke(crash_app, ["list", "--verdict", "suspected"])
    assert found.exit_code == 2
    assert "'suspect'" in found.output
