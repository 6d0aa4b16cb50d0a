"""Expressions of rules files before anything runs: those that Spark refuses are named; slots are counted."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits
from stream_jobs.app.instant import require_slots
from stream_jobs.rules.evaluation import Evaluator, UntranslatableError, check_translations
from stream_jobs.rules.instant import check_expressions, frame_findings
from stream_jobs.rules.model import INSTANT, SHIPPED, VEHICLES, load_rules, of_query


def test_each_engine_understands_the_shipped_rules_that_it_evaluates(query_spark: SparkSession) -> None:
    check_expressions(query_spark, SHIPPED, of_query(load_rules(), INSTANT))
    check_translations(SHIPPED, load_rules())


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("condition", "coolant_temp_c >", "`condition` is not understood"),
        ("condition", "cooling_c > 3", "`condition` is not understood"),
        ("condition", "max(coolant_temp_c) > 3", "`condition` is not understood"),
        ("condition", "coolant_temp_c", "`condition` gives double, not true or false"),
        ("value", "engine_rpm", "`value` gives array<double>, not a number"),
        ("limit", "'high'", "`limit` gives string, not a number"),
        (
            "condition",
            "reflect('java.lang.System', 'getenv', 'HOME') > ''",
            "reflect is not known, or does more",
        ),
        ("value", "(SELECT count(*) FROM text.`/etc/passwd`)", "a subquery has no place in a rule"),
        ("limit", "length(current_user)", "current_user tells of the machine"),
        ("condition", "EXISTS (SELECT 1)", "a subquery has no place in a rule"),
        (
            "condition",
            "exists(speed_kmh, v -> raise_error('x') > 1)",
            "raise_error is not known, or does more",
        ),
    ],
)
def test_an_expression_that_spark_refuses_is_named(
    query_spark: SparkSession, tmp_path: Path, key: str, text: str, expected: str
) -> None:
    texts = {"condition": "ignition_on", "value": "coolant_temp_c", "limit": "110"} | {key: text}
    path = tmp_path / "mine.yaml"
    path.write_text(
        "rules:\n  - {id: hot, version: 1, severity: MAJOR, source: frame, beyond: above, message: Hot, "
        + ", ".join(f'{name}: "{expression}"' for name, expression in texts.items())
        + "}\n"
    )
    with pytest.raises(ConfigError) as caught:
        check_expressions(query_spark, path, load_rules(path))
    assert str(caught.value).startswith(f"rules file {path}, rule hot: `{key}`")
    assert expected in str(caught.value)


def test_no_query_runs_an_expression_that_does_more_than_compute(query_spark: SparkSession) -> None:
    rules = load_rules()
    instant = replace(next(r for r in rules if r.query == INSTANT), value="reflect('a', 'b')")
    stateful = replace(next(r for r in rules if r.query == VEHICLES), condition="(SELECT true)")
    records = query_spark.createDataFrame([], "received_ms long, key binary, value binary")
    with pytest.raises(ConfigError, match=r"expression \"reflect\('a', 'b'\)\": function reflect"):
        frame_findings(records, [instant], ClockLimits(0, 0, 0))
    with pytest.raises(UntranslatableError, match="may not use"):
        Evaluator((stateful,))


def test_too_few_task_slots_are_refused() -> None:
    stopped = threading.Event()
    stopped.set()  # no executor is waited for
    require_slots(lambda: 6, {"telemetry": 4, "crash": 2}, stopped)
    with pytest.raises(ConfigError, match=r"has 5 task slots and needs 6.*crash 2, telemetry 4"):
        require_slots(lambda: 5, {"telemetry": 4, "crash": 2}, stopped)
