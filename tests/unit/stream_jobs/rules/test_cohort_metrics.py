"""The file of metrics: what ships is sound, and a wrong one is named by metric and key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from infra.contract.errors import ConfigError
from infra.settings.settings import load as settings
from load_tests.score.definition import load
from stream_jobs.rules.cohort.judge import SHIPPED, load_metrics


def test_shipped_metrics_are_sound_and_known_to_the_score() -> None:
    known = load()
    for metric in load_metrics():
        assert 0 < metric.clear_z < metric.z
        assert known.known(metric.id)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("side", "up", "'up': 'above', 'below' or 'both' is wanted"),
        ("floor", 0, "0: more than 0 is wanted"),
        ("buckets", 0, "0: at least 1 is wanted"),
        ("clear_z", 9, "9 is not above 0 and at most z"),
        ("severity", "BAD", "'BAD': 'WARNING', 'MINOR', 'MAJOR' or 'CRITICAL' is wanted"),
        ("metric", "Coolant", "'Coolant': a text like ^[a-z]"),
        ("value", " ", "' ': a text is wanted"),
        ("value", "coolant_c + abs(rpm_mean)", "no column of odograph.vehicle_minute: coolant_c"),
        ("when", "rpm_mean > 500 AND warm", "no column of odograph.vehicle_minute: warm"),
        ("value", "pg_sleep(9) + rpm_mean", "calls pg_sleep; functions are abs, ceil, coalesce"),
        ("value", "pg_read_file ('/etc/passwd')", "has more than columns, numbers, operators and functions"),
        ("value", 'rpm_mean + "pg_sleep"(9)', "has more than columns"),
        ("value", "rpm_mean); DROP TABLE x; SELECT (1", "has more than columns"),
        ("value", "rpm_mean -- off", "has more than columns"),
        ("when", "pg_sleep/**/(9) > 0", "has more than columns"),
        ("when", "(SELECT 1) > 0", "no column of odograph.vehicle_minute: select"),
        ("colour", "red", "is unknown"),
    ],
)
def test_a_wrong_metric_is_named(tmp_path: Path, key: str, value: object, reason: str) -> None:
    entry = yaml.safe_load(SHIPPED.read_text())["metrics"][0] | {key: value}
    file = tmp_path / "metrics.yaml"
    file.write_text(yaml.safe_dump({"metrics": [entry]}))
    with pytest.raises(ConfigError, match=f"metric {entry['metric']}: `{key}` .*{re.escape(reason)}"):
        load_metrics(file)


def test_a_missing_key_and_a_name_used_twice_are_named(tmp_path: Path) -> None:
    entry = yaml.safe_load(SHIPPED.read_text())["metrics"][0]
    file = tmp_path / "metrics.yaml"
    file.write_text(yaml.safe_dump({"metrics": [{k: v for k, v in entry.items() if k != "floor"}]}))
    with pytest.raises(ConfigError, match="metric coolant: `floor` is missing"):
        load_metrics(file)
    file.write_text(yaml.safe_dump({"metrics": [entry, entry]}))
    with pytest.raises(ConfigError, match="metric coolant: `metric` is used twice"):
        load_metrics(file)


def test_the_length_of_a_bucket_is_read_from_the_environment_and_fits_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODOGRAPH_COHORT_BUCKET_MIN", "15")
    assert settings().cohort.bucket_min == 15
    monkeypatch.setenv("ODOGRAPH_COHORT_BUCKET_MIN", "7")
    with pytest.raises(ConfigError, match="7 min do not fit into an hour"):
        settings()
