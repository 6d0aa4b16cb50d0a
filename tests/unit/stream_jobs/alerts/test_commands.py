"""The commands' words."""

from __future__ import annotations

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
