"""The real-time query and the event store on settings that they cannot take.

What they do is shown end to end (tests/e2e, F9).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]


def test_a_wrong_rules_file_ends_the_process_with_its_place(lane: Lane) -> None:
    path = lane.home / "mine.yaml"
    path.write_text(
        "rules:\n  - {id: hot, version: 1, severity: HIGH, source: frame, value: x, message: Hot}\n"
    )
    wrong = replace(lane, env=lane.env | {"ODOGRAPH_JOBS_RULES": str(path)})
    for command in ("instant", "events"):
        result = wrong.run("jobs", command)
        assert result.returncode == 2
        assert "mine.yaml, rule hot: `severity` 'HIGH': 'WARNING', 'MINOR'" in result.stderr
