"""Queries about the pipeline itself."""

from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

queries_now: Query[[]] = SQL["queries_now"]
queries_history: Query[[]] = SQL["queries_history"]
rejected: Query[[]] = SQL["rejected"]
audit_hours: Query[[]] = SQL["audit_hours"]
audit_findings: Query[[]] = SQL["audit_findings"]
alert_latency: Query[[]] = SQL["alert_latency"]
stages: Query[[]] = SQL["stages"]
tasks: Query[[]] = SQL["tasks"]
stage_rates: Query[[]] = SQL["stage_rates"]
overload: Query[[]] = SQL["overload"]
partition_lag: Query[[]] = SQL["partition_lag"]
top_keys: Query[[]] = SQL["top_keys"]
watermark_defence: Query[[]] = SQL["watermark_defence"]
off_time_vehicles: Query[[]] = SQL["off_time_vehicles"]
clocks_ahead: Query[[]] = SQL["clocks_ahead"]
storage: Query[[]] = SQL["storage"]
table_sizes: Query[[]] = SQL["table_sizes"]
