"""The data file of the scorecard: it knows every shipped rule and every fault, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from edge_simulator.faults.kinds import KINDS
from infra.contract.errors import ConfigError
from load_tests.score import definition

RULES = Path(__file__).parents[4] / "stream_jobs" / "rules" / "rules.yaml"
NO_FAULT = {"pothole", "kerb_strike", "emergency_braking"}
"""Nothing may find the first two; the third is harsh driving."""


def test_every_shipped_rule_is_judged_or_named_as_one_that_is_not() -> None:
    known = definition.load()
    rules = [rule["id"] for rule in yaml.safe_load(RULES.read_text())["rules"]]
    assert [rule for rule in rules if not known.known(rule)] == []


def test_every_fault_of_the_simulator_has_to_be_found_by_somebody() -> None:
    found = {fault for detector in definition.load().detectors for fault in detector.finds}
    assert found - {"outage", "clone", "code"} == set(KINDS) - NO_FAULT


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hits.yaml"
    path.write_text(definition.SHIPPED.read_text().replace("finds: [hot_tyre]", "finds: [hot_tire]"))
    with pytest.raises(ConfigError, match="no such fault or detector: hot_tire"):
        definition.load(path)
