"""What a detector found, as a record of the topic ``alerts``."""

from __future__ import annotations

import hashlib

from stream_jobs.rules import Rule
from stream_jobs.vehicles.beat import Beat, Found
from stream_jobs.vehicles.rows import AlertRow


def finding_id(vehicle_id: str, rule: str, version: int, event_ms: int, *, ended: bool) -> str:
    """The id of a finding: the same one however often it is found."""
    same = (vehicle_id, rule, version, event_ms, "ended" if ended else "found")
    return hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32]


def alert_row(rule: Rule, found: Found, beat: Beat, received_ms: int | None = None) -> AlertRow:
    """The record; ``received_ms``: when a timer was due, else the frame's receipt.

    Its id follows from what makes a finding the same one, vehicle, rule, version and event time, and not from
    the frame that brought it: found again, it is no news.
    """
    name = rule.id if found.apart is None else f"{rule.id}.{found.apart}"
    return AlertRow(
        alert_id=finding_id(beat.vehicle_id, name, rule.version, found.event_ms, ended=found.ended),
        vehicle_id=beat.vehicle_id,
        rule=name,
        rule_version=rule.version,
        severity=found.severity or rule.severity,
        event_ms=found.event_ms,
        value=found.value,
        limit=found.limit,
        message=f"{rule.message}: {found.detail}" if found.detail else rule.message,
        boot_id=beat.boot_id,
        seq=beat.seq,
        received_ms=beat.received_ms if received_ms is None else received_ms,
        lat_deg=beat.lat_deg,
        lon_deg=beat.lon_deg,
        since_ms=found.since_ms,
        ended=found.ended,
    )
