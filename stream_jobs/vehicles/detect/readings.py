"""A rule's expressions over the frame's columns as columns: what `Reading` holds. Native Spark only."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from stream_jobs.rule_kinds import Baseline, Count, Geofence, Lasting, Level, Silence
from stream_jobs.rules import Rule
from stream_jobs.sql_guard import expression

TYPES: Final = {
    "holds": "boolean", "clears": "boolean", "value": "double", "limit": "double", "armed": "boolean",
    "learns": "boolean", "names": "array<string>",
}  # fmt: skip
"""Of the columns of a reading."""
_JUDGED_BY_SPARK: Final = (Count, Geofence, Silence)
"""Kinds for which the condition alone is what holds, besides a level of the frame's own value."""


def reading(rule: Rule) -> dict[str, Column]:
    """One rule's reading, a column for each of TYPES: a struct would be evaluated for each of its fields.
    Where a kind works on a value of its own, the value is null unless it counts."""
    lasting = rule.lasting
    if lasting is None:
        raise ValueError(f"rule {rule.id} is none of the query vehicles")
    condition, value = expression(rule.condition), expression(rule.value).cast("double")
    limit = F.lit(None) if rule.limit is None else expression(rule.limit)
    own = isinstance(lasting.spec, Level) and lasting.spec.mean_s == 0
    holds = clears = F.lit(None)
    if own:
        holds = _holds(rule, condition, value, limit)
        clears = ~condition | _clears(rule, lasting, holds)
    elif isinstance(lasting.spec, (*_JUDGED_BY_SPARK, Baseline)):
        holds = condition
    counted = value if own or isinstance(lasting.spec, (Baseline, Count)) else F.when(condition, value)
    columns = {
        "holds": holds,
        "clears": clears,
        "value": counted,
        "limit": limit,
        "armed": _or_null(lasting.armed),
        "learns": _or_null(lasting.learn) if lasting.learn else condition,
        "names": _or_null(lasting.names),
    }
    return {name: column.cast(TYPES[name]) for name, column in columns.items()}


def _holds(rule: Rule, condition: Column, value: Column, limit: Column) -> Column:
    if rule.limit is None:
        return condition
    return condition & (value > limit if rule.beyond == "above" else value < limit)


def _clears(rule: Rule, lasting: Lasting, holds: Column) -> Column:
    if lasting.clear is not None:
        return expression(lasting.clear)
    if lasting.clear_level is not None:
        level, value = F.lit(lasting.clear_level), expression(rule.value)
        return value <= level if rule.beyond == "above" else value >= level
    return ~holds


def _or_null(text: str | None) -> Column:
    return F.lit(None) if text is None else expression(text)
