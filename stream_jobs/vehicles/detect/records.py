"""What was found as a record of the topic `alerts`; pure."""

from __future__ import annotations

import hashlib
from typing import Any

from stream_jobs.rules import Rule
from stream_jobs.vehicles.beat import Found


def alert_record(
    rule: Rule, found: Found, vehicle_id: str, boot_id: int, seq: int, received_ms: int,
    lat_deg: float | None, lon_deg: float | None,
) -> dict[str, Any]:  # fmt: skip
    """The record, by the contract's ALERT_KEYS and ``since_ms`` and ``ended`` besides.

    The id hashes what makes a finding the same one: vehicle, rule, version and event time, not the frame that
    brought it, so a timer that fires in another batch finds the same. ``received_ms``: the frame's, or when
    the timer was due.
    """
    name = rule.id if found.apart is None else f"{rule.id}.{found.apart}"
    same = (vehicle_id, name, rule.version, found.event_ms, "end" if found.ended else "found")
    message = rule.message if found.detail is None else f"{rule.message}: {found.detail}"
    return {
        "alert_id": hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32],
        "vehicle_id": vehicle_id,
        "rule": name,
        "rule_version": rule.version,
        "severity": found.severity or rule.severity,
        "event_ms": found.event_ms,
        "value": found.value,
        "limit": found.limit,
        "message": message,
        "boot_id": boot_id,
        "seq": seq,
        "received_ms": received_ms,
        "lat_deg": lat_deg,
        "lon_deg": lon_deg,
        "since_ms": found.since_ms,
        "ended": found.ended,
    }
