"""The database's side of restated alerts: what is stored of a vehicle, and the changes in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import orjson

from stream_jobs.alerts.derive import Alert, Finding
from stream_jobs.app.database import Connection, execute, fetch
from stream_jobs.events import sql as event_sql
from stream_jobs.events.writes import ClearTimes
from stream_jobs.reprocess.alert_changes import (
    AlertChanges,
    FindingChanges,
    StoredAlert,
    StoredFinding,
    alert_changes,
    finding_changes,
)
from stream_jobs.reprocess.runs import Counts
from stream_jobs.vehicles.rows import AlertRow

MARGIN_MS: Final = 7 * 86_400_000
"""Alerts and findings are read so far to both sides of what changed: an alert is seldom longer."""

_LOCK: Final = "SELECT 1 FROM odograph.consumer_offset WHERE topic = 'alerts' FOR UPDATE"
"""The event store moves these rows with each batch: while they are ours it opens no alert beside us."""
_MS: Final = "(extract(epoch FROM {0}) * 1000)::bigint"
_FINDINGS: Final = f"""
SELECT e.alert_id, e.vehicle_id, e.rule, coalesce(e.rule_version, 0), e.severity,
       {_MS.format("e.event_time")}, {_MS.format("e.received_at")}, {_MS.format("e.alerted_at")},
       coalesce(e.message, ''), e.value, e.limit_value, e.lat_deg, e.lon_deg,
       {_MS.format("e.since_at")}, e.ended, {_MS.format("e.restated_at")}, e.withdrawn_at IS NOT NULL
FROM odograph.alert_event e
WHERE e.vehicle_id = %(vehicle)s AND split_part(e.rule, '.', 1) = ANY(%(rules)s)
  AND e.event_time BETWEEN to_timestamp(%(low_ms)s / 1000.0) AND to_timestamp(%(high_ms)s / 1000.0)
ORDER BY e.event_time
"""  # noqa: S608  constants of this file
_ALERTS: Final = f"""
SELECT {event_sql.ALERT_COLUMNS}, withdrawn_at IS NOT NULL, cleared_by IS NOT NULL
FROM odograph.alert
WHERE vehicle_id = %(vehicle)s AND rule = ANY(%(names)s)
  AND opened_at <= to_timestamp(%(high_ms)s / 1000.0) AND last_at >= to_timestamp(%(low_ms)s / 1000.0)
ORDER BY opened_at FOR UPDATE
"""  # noqa: S608  constants of this file
_SEEN: Final = f"""
SELECT {_MS.format("event_time")} FROM odograph.vehicle_latest WHERE vehicle_id = %(vehicle)s
"""  # noqa: S608  constants of this file
_BEHIND: Final = f"""
SELECT {_MS.format("max(noted_at)")} FROM odograph.journey_behind WHERE vehicle_id = %(vehicle)s
"""  # noqa: S608  constants of this file
_MARK: Final = "UPDATE odograph.alert_event SET {change} WHERE alert_id = ANY(%(ids)s)"
_CHANGED: Final = """
UPDATE odograph.alert SET revision = revision + 1, restated_at = now(), withdrawn_at = NULL
WHERE alert_no = ANY(%(numbers)s)
"""
_ADDED: Final = "UPDATE odograph.alert SET restated_at = now() WHERE first_alert_id = ANY(%(ids)s)"
_WITHDRAWN: Final = """
UPDATE odograph.alert SET cleared_at = coalesce(cleared_at, last_at), withdrawn_at = now(),
    revision = revision + 1, restated_at = now()
WHERE alert_no = ANY(%(numbers)s)
"""


def restate_alerts(
    connection: Connection, vehicle_id: str, whole: Sequence[AlertRow], streamed: Sequence[AlertRow],
    rules: Sequence[str], clear_times: ClearTimes, now_ms: int,
) -> Counts:  # fmt: skip
    """Findings and alerts of a vehicle as ``whole`` has them where that is not what the stream could see."""
    moments = [row.event_ms for row in (*whole, *streamed)]
    if not moments:
        return Counts()
    execute(connection, _LOCK)
    span = (min(moments), max(moments))
    stored = _findings(connection, vehicle_id, rules, span)
    behind_ms = fetch(connection, _BEHIND, {"vehicle": vehicle_id})[0][0] or 0
    inside = {key: each for key, each in stored.items() if span[0] <= each.finding.event_ms <= span[1]}
    changes = finding_changes(whole, {row.alert_id for row in streamed}, inside, behind_ms, now_ms)
    if not changes:
        return Counts()
    write_findings(connection, changes)
    return _alerts(connection, vehicle_id, stored, changes, clear_times)


def _findings(
    connection: Connection, vehicle_id: str, rules: Sequence[str], span: tuple[int, int]
) -> dict[str, StoredFinding]:
    values = {
        "vehicle": vehicle_id, "rules": list(rules), "low_ms": span[0] - MARGIN_MS,
        "high_ms": span[1] + MARGIN_MS,
    }  # fmt: skip
    rows = fetch(connection, _FINDINGS, values)
    return {row[0]: StoredFinding(Finding(*row[:15]), row[15], row[16]) for row in rows}


def write_findings(connection: Connection, changes: FindingChanges) -> None:
    """The changes to odograph.alert_event."""
    if changes.added:
        rows = [asdict(finding) for finding in changes.added]
        execute(connection, event_sql.INSERT_FINDINGS, {"rows": orjson.dumps(rows).decode()})
        added = [finding.alert_id for finding in changes.added]
        execute(connection, _MARK.format(change="restated_at = now()"), {"ids": added})
    execute(connection, _MARK.format(change="withdrawn_at = now()"), {"ids": [*changes.withdrawn]})
    execute(connection, _MARK.format(change="withdrawn_at = NULL"), {"ids": [*changes.revived]})


def _alerts(
    connection: Connection, vehicle_id: str, stored: Mapping[str, StoredFinding], changes: FindingChanges,
    clear_times: ClearTimes,
) -> Counts:  # fmt: skip
    """The alerts of every rule of which findings changed."""
    by_rule: dict[str, dict[str, StoredFinding]] = defaultdict(dict)
    for key, each in stored.items():
        by_rule[each.finding.rule][key] = each
    moved = {*changes.withdrawn, *changes.revived}
    names = {stored[key].finding.rule for key in moved} | {f.rule for f in changes.added}
    values = {"vehicle": vehicle_id, "names": sorted(names)} | _bounds(stored, changes)
    alerts = [_alert(row) for row in fetch(connection, _ALERTS, values)]
    latest = fetch(connection, _SEEN, {"vehicle": vehicle_id})
    counts = [0, 0, 0]
    for name in sorted(names):
        mine = [each for each in alerts if each.alert.rule == name]
        findings = by_rule.get(name, {})
        part = FindingChanges(
            tuple(f for f in changes.added if f.rule == name),
            changes.withdrawn & findings.keys(),
            changes.revived & findings.keys(),
        )
        seen_ms = latest[0][0] if latest else 0
        made = alert_changes(mine, _told(findings, mine), part, clear_times.ms(name), seen_ms)
        write_alerts(connection, made)
        counts = [
            n + len(each) for n, each in zip(counts, (made.added, made.changed, made.withdrawn), strict=True)
        ]
    return Counts(alerts_added=counts[0], alerts_changed=counts[1], alerts_withdrawn=counts[2])


def _bounds(stored: Mapping[str, StoredFinding], changes: FindingChanges) -> dict[str, int]:
    moments = [stored[key].finding.event_ms for key in (*changes.withdrawn, *changes.revived)]
    moments += [finding.event_ms for finding in changes.added]
    return {"low_ms": min(moments) - MARGIN_MS, "high_ms": max(moments) + MARGIN_MS}


def _told(findings: Mapping[str, StoredFinding], alerts: Sequence[StoredAlert]) -> dict[str, StoredFinding]:
    """Findings with their texts: those stored before there was a column for it have that of their alert."""
    told = {}
    for key, each in findings.items():
        found = each.finding
        at = (s.alert for s in alerts if s.alert.opened_ms <= found.event_ms <= s.alert.last_ms)
        message = found.message or next((alert.message for alert in at), found.rule)
        known = {name: getattr(found, name) for name in found.__slots__}
        told[key] = StoredFinding(Finding(**known | {"message": message}), each.restated_ms, each.withdrawn)
    return told


def _alert(row: tuple[Any, ...]) -> StoredAlert:
    names = [field.name for field in fields(Alert)]
    return StoredAlert(Alert(**dict(zip(names, row[: len(names)], strict=True))), row[-2], row[-1])


def write_alerts(connection: Connection, changes: AlertChanges) -> None:
    """The changes to odograph.alert: what ends first, so that no two of one rule are active at once."""
    execute(connection, _WITHDRAWN, {"numbers": list(changes.withdrawn)})
    for over in (True, False):
        rows = [asdict(alert) for alert in changes.changed if (alert.cleared_ms is not None) is over]
        execute(connection, event_sql.UPDATE_ALERTS, {"rows": orjson.dumps(rows).decode()})
    execute(connection, _CHANGED, {"numbers": [alert.alert_no for alert in changes.changed]})
    if changes.added:
        rows = [asdict(alert) for alert in changes.added]
        execute(connection, event_sql.INSERT_ALERTS, {"rows": orjson.dumps(rows).decode()})
        execute(connection, _ADDED, {"ids": [alert.first_alert_id for alert in changes.added]})
