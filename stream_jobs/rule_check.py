"""The expressions of the rules, judged by Spark before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.types import BooleanType, NumericType, StructType

from stream_jobs.rules import Rule, wrong


def check_expressions(
    spark: SparkSession, path: Path, rules: Iterable[Rule], schemas: Mapping[str, StructType]
) -> None:
    """Let Spark analyse every expression against its source's columns; raises ConfigError naming the key.

    ``schemas`` holds the columns of each source. Aggregates, generators and unknown columns are refused too.
    """
    empty = {source: spark.createDataFrame([], schema) for source, schema in schemas.items()}
    for rule in rules:
        rows = empty[rule.source]
        _check_expression(path, rule, "condition", rule.condition, rows, BooleanType)
        _check_expression(path, rule, "value", rule.value, rows, NumericType)
        if rule.limit is not None:
            _check_expression(path, rule, "limit", rule.limit, rows, NumericType)


def _check_expression(
    path: Path, rule: Rule, key: str, text: str, rows: DataFrame, expected: type[BooleanType | NumericType]
) -> None:
    try:
        # A filter, since Spark refuses aggregates and generators there.
        found = rows.where(F.expr(text).isNotNull()).select(F.expr(text)).schema[0].dataType
    except PySparkException as error:
        first_line = str(error).strip().splitlines()[0]
        raise wrong(path, rule.id, key, f"is not understood: {first_line}") from error
    if not isinstance(found, expected):
        wanted = "true or false" if expected is BooleanType else "a number"
        raise wrong(path, rule.id, key, f"gives {found.simpleString()}, not {wanted}")
