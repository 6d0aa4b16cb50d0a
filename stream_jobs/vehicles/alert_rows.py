"""What a detector found, as a record of the topic ``alerts``."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from stream_jobs.rules.detect.base import Detection
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.rows import AlertRow


class Head(NamedTuple):
    """The frame that brought a finding; ``received_ms``: its receipt, or when a timer was due."""

    vehicle_id: str
    boot_id: int
    seq: int
    received_ms: int
    lat_deg: float | None
    lon_deg: float | None


def finding_id(vehicle_id: str, rule: str, version: int, event_ms: int, *, ended: bool) -> str:
    """The id of a finding: the same one however often it is found."""
    same = (vehicle_id, rule, version, event_ms, "ended" if ended else "found")
    return hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32]


def alert_row(rule: Rule, found: Detection, head: Head) -> AlertRow:
    """The record.

    Its id follows from what makes a finding the same one, vehicle, rule, version and event time, and not from
    the frame that brought it: found again, it is no news.
    """
    name = rule.id if found.part is None else f"{rule.id}.{found.part}"
    return AlertRow(
        alert_id=finding_id(head.vehicle_id, name, rule.version, found.event_ms, ended=found.ended),
        vehicle_id=head.vehicle_id,
        rule=name,
        rule_version=rule.version,
        severity=found.severity or rule.severity,
        event_ms=found.event_ms,
        value=found.value,
        limit=found.limit,
        message=f"{rule.message}: {found.detail}" if found.detail else rule.message,
        boot_id=head.boot_id,
        seq=head.seq,
        received_ms=head.received_ms,
        lat_deg=head.lat_deg,
        lon_deg=head.lon_deg,
        since_ms=found.since_ms,
        ended=found.ended,
    )
