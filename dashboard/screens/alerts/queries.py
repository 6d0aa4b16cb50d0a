"""Queries about incidents, alerts, rules and silences; their lists are in ``shared.queries``."""

from datetime import datetime
from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

alert: Query[[int]] = SQL["alert"]
timeline: Query[[int]] = SQL["timeline"]
notes: Query[[int]] = SQL["notes"]
assignees: Query[[]] = SQL["assignees"]
alert_changes: Query[[int]] = SQL["alert_changes"]
alert_evidence: Query[[int]] = SQL["alert_evidence"]
rule_days: Query[[datetime, datetime, str]] = SQL["rule_days"]
silences: Query[[]] = SQL["silences"]
