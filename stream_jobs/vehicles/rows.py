"""What the query finds, as plain rows; times in ms since 1970."""

from __future__ import annotations

import msgspec


class AlertRow(msgspec.Struct, frozen=True, tag="alert", gc=False):
    """A finding as it goes to the topic ``alerts``: the keys of the contract's ALERT_KEYS."""

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


class BehindRow(msgspec.Struct, frozen=True, tag="behind", gc=False):
    """Frames that came too late for the order: what the batch layer has to look at again."""

    vehicle_id: str
    from_ms: int
    to_ms: int
    received_ms: int
    frames: int


Row = AlertRow | BehindRow


def pack(row: Row) -> bytes:
    """The row as JSON, its kind under ``type``."""
    return msgspec.json.encode(row)
