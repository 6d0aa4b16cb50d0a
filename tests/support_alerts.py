"""An alert as the jobs write it to Kafka."""

from __future__ import annotations

from typing import Any

VIN = "WDDWF4KB0FR000001"


def alert(**changes: Any) -> dict[str, Any]:
    """A record of the topic ``alerts``, with ``changes``."""
    body: dict[str, Any] = {
        "alert_id": "0a1b", "vehicle_id": VIN, "rule": "coolant_hot", "rule_version": 1, "severity": "MAJOR",
        "event_ms": 1_700_000_000_000, "value": 121.0, "limit": 115.0, "message": "Coolant at 121 degC",
        "boot_id": 1, "seq": 7, "received_ms": 1_700_000_000_500, "lat_deg": 48.1, "lon_deg": 11.5,
    }  # fmt: skip
    return body | changes
