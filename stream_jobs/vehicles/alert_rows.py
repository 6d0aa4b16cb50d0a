"""What a detector found, as a record of the topic ``alerts``."""

from __future__ import annotations

import hashlib

from stream_jobs.rules import Rule
from stream_jobs.vehicles.beat import Beat, Found
from stream_jobs.vehicles.rows import AlertRow


def alert_row(rule: Rule, found: Found, beat: Beat) -> AlertRow:
    """The record; its id follows from what makes a finding the same one: found again, it is no news."""
    same = (beat.vehicle_id, rule.id, rule.version, beat.boot_id, beat.seq, found.event_ms, found.detail)
    return AlertRow(
        alert_id=hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32],
        vehicle_id=beat.vehicle_id,
        rule=rule.id,
        rule_version=rule.version,
        severity=found.severity or rule.severity,
        event_ms=found.event_ms,
        value=found.value,
        limit=found.limit,
        message=f"{rule.message}: {found.detail}" if found.detail else rule.message,
        boot_id=beat.boot_id,
        seq=beat.seq,
        received_ms=beat.received_ms,
        lat_deg=beat.lat_deg,
        lon_deg=beat.lon_deg,
    )
