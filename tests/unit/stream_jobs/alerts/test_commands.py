"""The commands' words."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.contract.errors import ConfigError
from stream_jobs.alerts.cli import alerts


def test_the_backtests_earlier_name_names_its_name_now() -> None:
    words = ["rehearse", "--rule", "my.yaml", "--from", "2026-11-20T08:00", "--to", "2026-11-20T09:00"]
    with pytest.raises(ConfigError, match="renamed to alerts backtest"):
        CliRunner().invoke(alerts, words, catch_exceptions=False)


def test_a_backtest_of_a_vehicle_that_can_be_none_is_refused() -> None:
    words = ["backtest", "--rule", "my.yaml", "--from", "2026-11-20T08:00", "--to", "2026-11-20T09:00"]
    with pytest.raises(ConfigError, match="--vehicle 'wdb906' is no vehicle id"):
        CliRunner().invoke(alerts, [*words, "--vehicle", "wdb906"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("", "rule hot: `condition` cannot be evaluated"),
        ("causes:\n  - {cause: heat, rules: [hot, warm]}\n", "cause heat: `rules` warm is the id of no rule"),
    ],
)
def test_a_rules_file_is_checked_as_the_programs_check_it(tmp_path: Path, more: str, wanted: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "rules:\n  - {id: hot, query: vehicles, kind: level, version: 1, severity: MAJOR, message: Hot, "
        f'condition: "cool > 1", value: coolant_temp_c, beyond: above, limit: 110}}\n{more}'
    )
    with pytest.raises(ConfigError) as caught:
        CliRunner().invoke(alerts, ["rules", "--rules", str(path)], catch_exceptions=False)
    assert str(caught.value).startswith(f"rules file {path}, {wanted}")
