"""The rules in force, noted in the database when the event store starts: pages show them beside alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from stream_jobs.alerts.text import metric_row, rule_row
from stream_jobs.events.writes import Cursor
from stream_jobs.rules.cohort.metrics import Metric
from stream_jobs.rules.model import NO_VALUE, Rule

Row = Mapping[str, Any]

_NOTE: Final = """
INSERT INTO odograph.rule AS r (rule, version, severity, query, kind, source, condition, value_sql, limit_sql,
    beyond, clear_for_s, message)
SELECT rule, version, severity, query, kind, source, condition, value_sql, limit_sql, beyond, clear_for_s,
       message
FROM jsonb_to_recordset(%(rows)s) AS n(rule text, version integer, severity text, query text, kind text,
    source text, condition text, value_sql text, limit_sql text, beyond text, clear_for_s double precision,
    message text)
ON CONFLICT (rule) DO UPDATE SET (version, severity, query, kind, source, condition, value_sql, limit_sql,
    beyond, clear_for_s, message, in_force, noted_at) = (excluded.version, excluded.severity, excluded.query,
    excluded.kind, excluded.source, excluded.condition, excluded.value_sql, excluded.limit_sql,
    excluded.beyond, excluded.clear_for_s, excluded.message, true, now())
"""
_GONE: Final = "UPDATE odograph.rule SET in_force = false WHERE in_force AND NOT rule = ANY(%(rules)s)"


def rule_notes(rules: Sequence[Rule], metrics: Sequence[Metric]) -> list[Row]:
    """A row a rule, those of cohorts' metrics too; expressions as the rules file has them."""
    return [_of_rule(rule) for rule in rules] + [_of_metric(metric) for metric in metrics]


def note(cursor: Cursor, rows: Sequence[Row]) -> None:
    """Write the rows; rules that are not among them are no longer in force."""
    cursor.execute(_NOTE, {"rows": orjson.dumps(rows).decode()})
    cursor.execute(_GONE, {"rules": [row["rule"] for row in rows]})


def _of_rule(rule: Rule) -> Row:
    value = None if rule.value == NO_VALUE else rule.value
    return {
        **_named(rule_row(rule)),
        "condition": rule.condition,
        "value_sql": value,
        "limit_sql": rule.limit,
    }


def _of_metric(metric: Metric) -> Row:
    return {
        **_named(metric_row(metric)),
        "condition": None,
        "value_sql": None,
        "limit_sql": f"z {metric.z:g}",
    }


def _named(row: Row) -> Row:
    return {"rule": row["id"], **{name: value for name, value in row.items() if name not in ("id", "limit")}}
