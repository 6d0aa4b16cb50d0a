"""``odograph demo``, the whole of it, on a new home and then on the same home with its data."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from infra.stack.processes import all_running, guarded
from tests.support import odograph_command

pytestmark = pytest.mark.e2e

DONE_S = 500.0
SHORT = {"ARCHIVE_TRIGGER_S": "3", "REPAIR_INTERVAL_S": "2", "PUBLISH_S": "2", "LATENESS_S": "5"}
"""Late frames are held back by the simulator for as long as that lateness, 30 s by itself."""


def demo(home: Path) -> tuple[str, dict[str, int]]:
    """What it said, and its ledger."""
    settings = {f"ODOGRAPH_JOBS_{name}": value for name, value in SHORT.items()}
    done = subprocess.run(
        [*odograph_command(), "demo", "-c", "30", "--rate", "30", "--duration-s", "10"],
        env=os.environ | settings | {"ODOGRAPH_PATHS_HOME": str(home)},
        capture_output=True, text=True, timeout=DONE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ *([a-zA-Z ]+?) +([\d,]+)  ", done.stdout, re.MULTILINE)
    return done.stderr, {name: int(number.replace(",", "")) for name, number in rows}


def test_a_demo_runs_on_a_new_home_and_again_on_its_data(tmp_path: Path) -> None:
    with guarded(tmp_path):
        for new in (True, False):
            told, ledger = demo(tmp_path)
            assert new == ("database: applied 001_tables.sql" in told)
            assert ledger["generated"] == pytest.approx(300, abs=60)  # of this fleet alone
            assert (ledger["residual"], ledger["in Kafka"]) == (0, ledger["acked"])
            assert all_running(tmp_path / "run") == []
