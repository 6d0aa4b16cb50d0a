"""A rules file is checked whole, and an error says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.contract.incidents import Causes, Terms
from stream_jobs.rules.cohort.judge import load_metrics
from stream_jobs.rules.model import Rule, load_causes, load_rules

GOOD = """\
rules:
  - id: hot
    version: 2
    severity: MAJOR
    source: frame
    condition: array_min(engine_rpm) > 500
    value: coolant_temp_c
    beyond: above
    limit: 110
    clear_for_s: 30
    message: Too hot
"""


def load(folder: Path, text: str) -> tuple[Rule, ...]:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_rules(path)


def test_a_rule_is_read_as_written(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD) == (
        Rule(
            id="hot",
            version=2,
            severity="MAJOR",
            source="frame",
            condition="array_min(engine_rpm) > 500",
            value="coolant_temp_c",
            limit="110.0D",
            beyond="above",
            clear_for_s=30.0,
            message="Too hot",
        ),
    )


def test_a_rule_without_clear_time_has_a_minute_and_a_crash_has_none(tmp_path: Path) -> None:
    crash = GOOD.replace("source: frame", "source: crash").replace("    clear_for_s: 30\n", "")
    assert load(tmp_path, GOOD.replace("    clear_for_s: 30\n", ""))[0].clear_for_s == 60.0
    assert load(tmp_path, crash)[0].clear_for_s is None


def test_a_rule_knows_the_columns_it_reads() -> None:
    rule = next(rule for rule in load_rules() if rule.id == "overvoltage_12v")
    assert {"engine_rpm", "battery_voltage_v"} <= rule.words()


def test_the_case_of_a_columns_name_means_nothing_as_in_sql(tmp_path: Path) -> None:
    (rule,) = load(tmp_path, GOOD.replace("coolant_temp_c", "Coolant_Temp_C"))
    assert {"engine_rpm", "coolant_temp_c"} <= rule.words()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "severity: MAJOR",
            "severity: HIGH",
            "rule hot: `severity` 'HIGH': 'WARNING', 'MINOR', 'MAJOR' or 'CRITICAL' is wanted",
        ),
        ("severity: MAJOR", "sevrity: MAJOR", "rule hot: `sevrity` is unknown"),
        ("    severity: MAJOR\n", "", "rule hot: `severity` is missing"),
        ("version: 2", "version: '2'", "rule hot: `version` '2': a whole number is wanted"),
        ("version: 2", "version: true", "rule hot: `version` True: a whole number is wanted"),
        ("source: frame", "source: trip", "rule hot: `source` 'trip': 'frame' or 'crash' is wanted"),
        ("id: hot", "id: Too Hot", "rule Too Hot: `id` 'Too Hot': a text like ^[a-z]"),
        ("    beyond: above\n", "", "rule hot: `beyond` is missing"),
        ("    limit: 110\n", "", "rule hot: `limit` is missing"),
        ("beyond: above", "beyond: over", "rule hot: `beyond` 'over': 'above' or 'below' is wanted"),
        ("clear_for_s: 30", "clear_for_s: -1", "rule hot: `clear_for_s` -1: more than 0 is wanted"),
        ("value: coolant_temp_c", "value: 7", "rule hot: `value` 7: a text is wanted"),
        ("limit: 110", "limit: .nan", "rule hot: `limit` nan: a text is wanted"),
        ("limit: 110", f"limit: 1{'0' * 400}", "rule hot: `limit` 1000"),
        ("source: frame", "source: crash", "rule hot: `clear_for_s` has no meaning for a crash"),
    ],
)
def test_a_wrong_rule_is_refused_by_file_rule_and_key(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert f"rules file {tmp_path / 'mine.yaml'}, {expected}" in str(caught.value)


def test_an_id_is_used_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rule hot: `id` is used twice"):
        load(tmp_path, GOOD + GOOD.removeprefix("rules:\n"))


def test_a_file_that_is_no_rules_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one key, `rules`"):
        load(tmp_path, "alerts: []\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, "rules: [\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rules(tmp_path / "none.yaml")


def test_the_shipped_rules_load() -> None:
    assert [rule.id for rule in load_rules() if rule.source == "crash"] == [
        "crash_airbag",
        "crash_severe",
        "crash_impact",
    ]


CAUSES = """
causes:
  - cause: cooling
    rules: [hot, cohort_coolant]
    codes: [P0217]
    fleet: {vehicles: 10, within_s: 300}
"""


def load_table(folder: Path, text: str) -> Causes:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_causes(path, load_rules(path), ["cohort_coolant"])


def test_causes_are_read_with_the_rules_and_last_as_long_as_their_alerts(tmp_path: Path) -> None:
    long = GOOD.replace("clear_for_s: 30", "clear_for_s: 7200")
    assert load_table(tmp_path, long + CAUSES) == Causes(
        {"hot": "cooling", "cohort_coolant": "cooling", ".P0217": "cooling"},
        {"cooling": Terms(7_200_000, vehicles=10, within_ms=300_000)},
    )


def test_every_shipped_rule_and_metric_has_a_cause_also_for_a_file_without_any(tmp_path: Path) -> None:
    rules, metrics = load_rules(), [metric.id for metric in load_metrics()]
    causes = load_causes(None, rules, metrics)
    named = {name for name in causes.by_rule if not name.startswith(".")}
    assert named == {*(rule.id for rule in rules), *metrics}
    assert causes.of("dtc_active.P0217") == causes.of("coolant_critical") == "cooling"
    assert causes.terms("silence") == Terms(3_600_000, vehicles=10, within_ms=300_000)
    assert load_table(tmp_path, GOOD).by_rule == causes.by_rule


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[hot,", "[hott,", "cause cooling: `rules` hott is the id of no rule"),
        ("[hot,", "[hot, hot,", "cause cooling: `rules` hot is of the cause cooling already"),
        ("[hot, cohort_coolant]", "hot", "cause cooling: `rules` 'hot': a list is wanted"),
        (
            "codes:",
            "code:",
            "cause cooling: `code` is unknown; known: cause, rules, codes, apart, join_s, fleet",
        ),
        (
            "codes: [P0217]",
            "join_s: 5",
            "cause cooling: `join_s` is below 30, the `clear_for_s` of one of its",
        ),
        ("vehicles: 10", "vehicles: 1", "cause cooling: `fleet` vehicles 1: at least 2 is wanted"),
        (
            "codes:",
            "apart: true\n    codes:",
            "cause cooling: `fleet` has no meaning where each part is `apart`",
        ),
        (", within_s: 300", "", "cause cooling: `fleet` within_s {'vehicles': 10}: the key is missing"),
        ("{vehicles: 10, within_s: 300}", "10", "cause cooling: `fleet` 10: Input should be a tuple"),
    ],
)
def test_a_wrong_cause_is_refused_by_file_cause_and_key(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_table(tmp_path, GOOD + CAUSES.replace(old, new))
    assert f"rules file {tmp_path / 'mine.yaml'}, {expected}" in str(caught.value)
