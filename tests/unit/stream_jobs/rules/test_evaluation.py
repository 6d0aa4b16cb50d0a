"""Spark and the evaluator agree on generated frames for every shipped rule, null included."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from infra.contract.signals import BY_NAME, SIGNALS
from stream_jobs.rules.evaluation import Evaluator, UntranslatableError, check
from stream_jobs.rules.model import (
    VEHICLES,
    Baseline,
    Count,
    Level,
    Rule,
    Unchanged,
    load_rules,
    of_query,
)
from stream_jobs.vehicles.features import CLASSES, POWERTRAINS
from stream_jobs.vehicles.lookups import COLUMNS, HISTORY
from tests.support_vehicles import Evaluation, evaluation
from tests.unit.stream_jobs.rules.traces import rule as rule_of

RULES = of_query(load_rules(), VEHICLES)
WORDS = {word for rule in RULES for word in rule.words()}
NAMED = [signal.name for signal in SIGNALS if signal.name in WORDS]
FRAMES = 800
TEXTS = {
    "model": ("compact-1.8", "sedan-ev-54", "unheard of"),
    "powertrain": POWERTRAINS,
    "vehicle_class": CLASSES,
}
TYPES = {
    "holds": "boolean", "clears": "boolean", "value": "double", "limit": "double", "armed": "boolean",
    "learns": "boolean", "names": "array<string>",
}  # fmt: skip


def spark_reading(rule: Rule) -> dict[str, Column]:
    """What a rule says of a frame, in Spark's own words: the definition that the evaluator is held to."""
    condition, value = F.expr(rule.condition), F.expr(rule.value).cast("double")
    limit_of = rule.limit or rule.follows()
    limit = F.lit(None) if limit_of is None else F.expr(limit_of)
    own = isinstance(rule.spec, Level) and rule.spec.mean_s == 0
    holds, clears = condition, F.lit(None)
    if own:
        beyond = (
            F.lit(True) if rule.limit is None else value > limit if rule.beyond == "above" else value < limit
        )
        holds = condition & beyond
        clears = ~condition | spark_clears(rule, holds)
    everywhere = own or isinstance(rule.spec, (Baseline, Count, Unchanged))
    counted = value if everywhere else F.when(condition, value)
    names = F.array_compact(or_null(rule.names).cast(TYPES["names"]))
    columns = {
        "holds": holds, "clears": clears, "value": counted, "limit": limit, "armed": or_null(rule.armed),
        "learns": or_null(rule.learn) if rule.learn else condition,
        "names": F.coalesce(names, F.array().cast(TYPES["names"])),
    }  # fmt: skip
    return {name: column.cast(TYPES[name]) for name, column in columns.items()}


def spark_clears(rule: Rule, holds: Column) -> Column:
    if rule.clear is not None:
        return F.expr(rule.clear)
    if rule.clear_level is None:
        return ~holds
    level, value = F.lit(rule.clear_level), F.expr(rule.value)
    return value <= level if rule.beyond == "above" else value >= level


def or_null(expression: str | None) -> Column:
    return F.lit(None) if expression is None else F.expr(expression)


def any_frames(rng: np.random.Generator) -> pa.Table:
    """Every column that rules name: absent, at the edges of its range, inside it, about the usual limits."""
    columns: dict[str, pa.Array] = {}
    for name in NAMED:
        columns[name] = pa.array([_signal(name, rng) for _ in range(FRAMES)], _arrow(name))
    for name in (*HISTORY, *COLUMNS):
        texts = TEXTS.get(name)
        drawn = [None if rng.random() < 0.2 else rng.choice(texts) if texts else rng.uniform(-10, 130)
                 for _ in range(FRAMES)]  # fmt: skip
        columns[name] = pa.array(drawn, pa.string() if texts else pa.float64())
    return pa.table(columns)


def _arrow(name: str) -> pa.DataType:
    signal = BY_NAME[name]
    kind = {"flag": pa.bool_(), "codes": pa.list_(pa.string()), "number": pa.float64()}[signal.kind]
    return pa.list_(kind) if signal.rate == "fast" else kind


def _signal(name: str, rng: np.random.Generator) -> Any:
    signal = BY_NAME[name]
    if rng.random() < 0.15:
        return None
    if signal.kind == "flag":
        return bool(rng.random() < 0.5)
    if signal.kind == "codes":
        return [f"P{k:04}" for k in range(rng.integers(0, 4))]
    if signal.rate == "slow":
        return _number(signal.minimum, signal.maximum, rng)
    drawn = [_number(signal.minimum, signal.maximum, rng) for _ in range(rng.integers(0, 4))]
    return [None if rng.random() < 0.2 else each for each in drawn]


def _number(low: float, high: float, rng: np.random.Generator) -> float:
    return float(rng.choice([low, high, 0.0, -273.15, 5, 10, 18, 300, 500, round(rng.uniform(low, high), 2)]))


def readings(rows: list[dict[str, Any]], place: int) -> list[Evaluation]:
    return [Evaluation(**{**{name: row[f"{name}{place}"] for name in TYPES},
                       "names": tuple(row[f"names{place}"])}) for row in rows]  # fmt: skip


def test_spark_and_the_evaluator_agree_on_every_shipped_rule(query_spark: SparkSession) -> None:
    frames = any_frames(np.random.default_rng(1))
    columns = [
        column.alias(f"{name}{place}")
        for place, rule in enumerate(RULES)
        for name, column in spark_reading(rule).items()
    ]
    judged = query_spark.createDataFrame(frames).select(*columns).toArrow().to_pylist()
    said = Evaluator(RULES)(frames)
    for place, rule in enumerate(RULES):
        wanted = readings(judged, place)
        assert [evaluation(said, place, row) for row in range(FRAMES)] == wanted, rule.id
        assert rule.limit is None or any(w.limit is not None for w in wanted), rule.id
    answers = {name for row in judged for name, value in row.items() if value not in (None, [])}
    assert len(answers) > 100  # the frames do tell


def test_an_expression_that_fails_for_a_frame_is_not_known_of_that_frame_and_ends_nothing(
    tmp_path: Path,
) -> None:
    terms = {"condition": "CAST(n * 1e9 AS INT) > 0", "value": "n", "limit": 0, "beyond": "above"}
    large = rule_of(tmp_path, kind="level", **terms)
    inputs = Evaluator((large,))(pa.table({"n": pa.array([1, 10], pa.int64())}))
    assert inputs.values[0].tolist() == [1.0, 10.0]
    assert evaluation(inputs, 0, 0).holds is True
    assert evaluation(inputs, 0, 1).holds is None


def test_inside_of_a_size_a_cast_cuts_off_and_null_has_the_size_minus_one_too(tmp_path: Path) -> None:
    frames = pa.table({"gear": [2.6, 3.2], "dtc_codes": [["P0217"], ["P0217"]]})

    def sizes(of: str) -> list[float]:
        mine = rule_of(tmp_path, kind="level", value=f"size({of})", limit=0, beyond="above")
        found: list[float] = Evaluator((mine,))(frames).values[0].tolist()
        return found

    second = "CASE WHEN CAST(gear AS INT) = 2 THEN dtc_codes END"
    assert sizes(second) == [1, -1]
    assert sizes(f"CASE WHEN size({second}) < 0 THEN array(gear, gear) END") == [-1, 2]


def test_a_frame_of_which_no_rule_can_tell_anything_gives_nothing() -> None:
    empty = pa.table({name: pa.nulls(2, _arrow(name)) for name in NAMED}
                     | {name: pa.nulls(2, pa.float64()) for name in HISTORY}
                     | {name: pa.nulls(2, pa.string()) for name in COLUMNS})  # fmt: skip
    inputs = Evaluator(RULES)(empty)
    assert np.isnan(inputs.values).all()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("reflect('java.lang.System', 'getenv', 'HOME') IS NOT NULL", "REFLECT"),
        ("(SELECT max(x) FROM t) > 1", "SELECT"),
        ("rand() < 0.5", "RAND"),
        ("speed_kmh >", "not understood"),
        ("(" * 2000 + "true" + ")" * 2000, "not understood: maximum recursion depth"),
        ("gear" + " + gear" * 5000 + " > 1", "not understood|cannot be evaluated"),
        ("no_such_column > 1", "no_such_column"),
        ("model = 3", "cannot be evaluated: Conversion Error"),
        ("transform(speed_kmh, x -> x + 1)", "TRANSFORM"),
    ],
)
def test_what_the_engines_do_not_agree_on_is_refused(text: str, what: str) -> None:
    with pytest.raises(UntranslatableError, match=what):
        check(text, "BOOLEAN")


@pytest.mark.parametrize(
    ("text", "gives"), [("model", "DOUBLE"), ("'high'", "DOUBLE"), ("powertrain", "BOOLEAN"),
                        ("coolant_temp_c", "BOOLEAN"), ("ignition_on", "DOUBLE"), ("speed_kmh", "DOUBLE"),
                        ("dtc_codes", "DOUBLE"), ("model", "VARCHAR[]"), ("gear", "VARCHAR[]")],
)  # fmt: skip
def test_what_is_no_number_or_no_condition_is_refused_before_a_frame_comes(text: str, gives: Any) -> None:
    with pytest.raises(UntranslatableError, match=rf"gives .*, not {re.escape(gives)}"):
        check(text, gives)


def test_a_division_by_zero_is_not_known() -> None:
    rule = next(each for each in RULES if each.id == "transmission_slip")
    frames = pa.table({
        "engine_load_pct": [50.0], "gear": [2.0], "engine_rpm": [[2000.0]], "speed_kmh": [[0.0]],
    })  # fmt: skip
    value = Evaluator((rule,))(frames).values[0, 0]
    assert math.isnan(value)
