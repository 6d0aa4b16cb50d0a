"""The life of alerts: findings in, alerts out; pure.

An alert is known by (vehicle, rule). It covers the time from its first to its last finding, and a finding
within ``clear_for`` of that belongs to it. Only event times count, not when a finding is stored: a backlog
gives the alerts that were given live.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import msgspec

from infra.contract.messages import ALERT_LATE_MS, SEVERITIES


class AlertRow(msgspec.Struct, frozen=True, tag="alert", gc=False):
    """A finding as it goes to the topic ``alerts``: the keys of the contract's ALERT_KEYS, and two besides.

    ``since_ms``: when it began to hold. ``ended``: no finding but the end of the alert.
    """

    alert_id: str
    vehicle_id: str
    rule: str
    rule_version: int
    severity: str
    event_ms: int
    value: float | None
    limit: float | None
    message: str
    boot_id: int
    seq: int
    received_ms: int
    lat_deg: float | None
    lon_deg: float | None
    since_ms: int | None = None
    ended: bool = False


class Finding(AlertRow, frozen=True, tag="finding", gc=False):
    """One finding off the topic ``alerts``, which has it since ``alerted_ms``."""

    alerted_ms: int = 0

    @property
    def late(self) -> bool:
        """Whether it came too late to notify anybody."""
        return self.received_ms - self.event_ms > ALERT_LATE_MS


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; ``alert_no`` None: not stored yet. ``cleared_ms`` None: active."""

    alert_no: int | None
    vehicle_id: str
    rule: str
    rule_version: int
    severity: str
    message: str
    opened_ms: int
    last_ms: int
    cleared_ms: int | None
    value: float | None
    worst_value: float | None
    limit: float | None
    findings: int
    late: bool
    lat_deg: float | None
    lon_deg: float | None
    first_alert_id: str
    since_ms: int | None = None


_TAKEN: Final = tuple(each.name for each in fields(Alert) if hasattr(Finding, each.name))
"""What an alert has of its first finding."""


def merge(known: Sequence[Alert], findings: Iterable[Finding], clear_for_ms: int | None) -> tuple[Alert, ...]:
    """The alerts of one (vehicle, rule) after ``findings``, which are new, in their order in the log.

    ``known`` are its active alert and those cleared within reach of the findings. ``clear_for_ms`` None: the
    alert stays until somebody clears it.
    """
    alerts = list(known)
    for finding in findings:
        at_ms = finding.event_ms
        if finding.ended:  # over, if it is active and began before; its values stay
            for k, alert in enumerate(alerts):
                if alert.cleared_ms is None and alert.opened_ms <= at_ms:
                    end_ms = max(alert.last_ms, at_ms)
                    alerts[k] = replace(alert, last_ms=end_ms, cleared_ms=end_ms)
            continue
        within = [k for k, alert in enumerate(alerts) if _reaches(alert, at_ms, clear_for_ms)]
        if within:
            place = max(within, key=lambda k: alerts[k].last_ms)
            alerts[place] = _with(alerts[place], finding)
        else:
            taken = {name: getattr(finding, name) for name in _TAKEN}
            alerts.append(Alert(
                alert_no=None, opened_ms=at_ms, last_ms=at_ms, cleared_ms=None, worst_value=finding.value,
                findings=1, first_alert_id=finding.alert_id, **taken,
            ))  # fmt: skip
        alerts = _one_active(alerts, clear_for_ms)
    return tuple(alerts)


def _reaches(alert: Alert, event_ms: int, clear_for_ms: int | None) -> bool:
    if clear_for_ms is None:
        return alert.cleared_ms is None
    return alert.opened_ms - clear_for_ms <= event_ms <= alert.last_ms + clear_for_ms


def _with(alert: Alert, finding: Finding) -> Alert:
    """The alert with one more finding; a finding older than its last one changes no newest value."""
    newer = finding.event_ms >= alert.last_ms
    limit = finding.limit if newer else alert.limit
    return replace(
        alert,
        rule_version=max(alert.rule_version, finding.rule_version),
        severity=max(alert.severity, finding.severity, key=SEVERITIES.index),
        opened_ms=min(alert.opened_ms, finding.event_ms),
        last_ms=max(alert.last_ms, finding.event_ms),
        cleared_ms=None,
        message=finding.message if newer else alert.message,
        value=finding.value if newer and finding.value is not None else alert.value,
        worst_value=worse(alert.worst_value, finding.value, limit),
        limit=limit,
        findings=alert.findings + 1,
        late=alert.late and finding.late,
        lat_deg=finding.lat_deg if newer and finding.lat_deg is not None else alert.lat_deg,
        lon_deg=finding.lon_deg if newer and finding.lon_deg is not None else alert.lon_deg,
        since_ms=min((t for t in (alert.since_ms, finding.since_ms) if t is not None), default=None),
    )


def worse(one: float | None, other: float | None, limit: float | None) -> float | None:
    """The value further beyond the limit (both are on the same side of it); without a limit, the larger."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=lambda value: abs(value - (limit or 0.0)))


def _one_active(alerts: list[Alert], clear_for_ms: int | None) -> list[Alert]:
    """The newest alert may be active; an older one ended ``clear_for`` after its last finding."""
    if clear_for_ms is None:
        return alerts
    newest = max(alert.last_ms for alert in alerts)
    return [
        replace(alert, cleared_ms=alert.last_ms + clear_for_ms)
        if alert.last_ms < newest and alert.cleared_ms is None
        else alert
        for alert in alerts
    ]
