"""The expressions of the rules, judged by Spark before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, NumericType, StructType

from infra.contract.errors import ConfigError
from stream_jobs.rules.evaluation import BOOLEAN, DOUBLE, NAMES, Kind, UntranslatableError, check
from stream_jobs.rules.model import VEHICLES, Rule, of_query, wrong
from stream_jobs.rules.sql_guard import expression

Expected = type[BooleanType] | type[NumericType] | type[ArrayType]
_WANTED: Final[dict[Expected, str]] = {
    BooleanType: "true or false", NumericType: "a number", ArrayType: "an array of texts",
}  # fmt: skip


_KINDS: Final[dict[Expected, Kind]] = {BooleanType: BOOLEAN, NumericType: DOUBLE, ArrayType: NAMES}


def check_expressions(
    spark: SparkSession, path: Path, rules: Iterable[Rule], schemas: Mapping[str, StructType]
) -> None:
    """Let Spark analyse every expression against its source's columns; raises ConfigError naming the key.

    ``schemas`` holds the columns of each source. Aggregates, generators and unknown columns are refused too.
    """
    empty = {source: spark.createDataFrame([], schema) for source, schema in schemas.items()}
    for rule in rules:
        rows = empty[VEHICLES if rule.query == VEHICLES else rule.source]
        given = [(key, text, expected) for key, text, expected in _expressions(rule) if text is not None]
        if not _all_fit(rows, [(text, expected) for _, text, expected in given]):
            for key, text, expected in given:
                _check_expression(path, rule, key, text, rows, expected)
    check_translations(path, rules)


def check_translations(path: Path, rules: Iterable[Rule]) -> None:
    """Rules of the query vehicles are evaluated by DuckDB: raises ConfigError where it cannot."""
    for rule in of_query(rules, VEHICLES):
        for key, text, expected in _expressions(rule):
            if text is not None:
                _check_translation(path, rule, key, text, _KINDS[expected])


def _check_translation(path: Path, rule: Rule, key: str, text: str, kind: Kind) -> None:
    try:
        check(text, kind)
    except UntranslatableError as error:
        raise wrong(path, rule.id, key, str(error)) from error


def _all_fit(rows: DataFrame, given: Sequence[tuple[str, Expected]]) -> bool:
    """Whether Spark takes all of a rule's expressions, asked at once because asking is what costs."""
    try:
        columns = [expression(text) for text, _ in given]
        there = reduce(lambda a, b: a & b, (column.isNotNull() for column in columns))
        types = [field.dataType for field in rows.where(there).select(*columns).schema]
    except (PySparkException, ConfigError):
        return False
    return all(isinstance(found, expected) for found, (_, expected) in zip(types, given, strict=True))


def _expressions(rule: Rule) -> Iterator[tuple[str, str | None, Expected]]:
    """Each expression of a rule by the key of the file, and what it must give."""
    yield "condition", rule.condition, BooleanType
    yield "value", rule.value, NumericType
    yield "limit", rule.limit, NumericType
    if rule.stateful is not None:
        yield "clear", rule.stateful.clear, BooleanType
        yield "while", rule.stateful.armed, BooleanType
        yield "learn", rule.stateful.learn, BooleanType
        yield "names", rule.stateful.names, ArrayType


def _check_expression(
    path: Path, rule: Rule, key: str, text: str, rows: DataFrame, expected: Expected
) -> None:
    try:
        # A filter, since Spark refuses aggregates and generators there.
        found = rows.where(expression(text).isNotNull()).select(expression(text)).schema[0].dataType
    except (PySparkException, ConfigError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise wrong(path, rule.id, key, f"is not understood: {first_line}") from error
    if not isinstance(found, expected):
        raise wrong(path, rule.id, key, f"gives {found.simpleString()}, not {_WANTED[expected]}")
