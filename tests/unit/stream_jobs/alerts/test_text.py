"""An alert as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stream_jobs.alerts.text import alert_page

AT = datetime(2026, 11, 20, 8, tzinfo=UTC)
ALERT: dict[str, Any] = {
    "alert_no": 7, "severity": "MAJOR", "rule": "coolant_critical", "rule_version": 1,
    "message": "Coolant above 115 degC", "vehicle_id": "1HGCM82633A004352", "model": None, "since_at": None,
    "opened_at": AT, "last_at": AT, "cleared_at": AT, "duration_s": 0, "value": 117.0, "worst_value": 121.0,
    "limit_value": 115.0, "findings": 2, "late": False, "event_to_received_ms": 400.0,
    "received_to_alerted_ms": 10.0, "alerted_to_stored_ms": 9.0, "history": [], "evidence": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("evidence_at", "evidence_frames", "told"),
    [
        (None, None, "evidence: 0 frames, not collected yet"),
        (AT, 0, "evidence: 0 frames"),
        (AT, 61, "evidence: 61 frames that are no longer kept"),
    ],
)
def test_a_page_without_evidence_says_why(
    evidence_at: datetime | None, evidence_frames: int | None, told: str
) -> None:
    row = ALERT | {"evidence_at": evidence_at, "evidence_frames": evidence_frames}
    assert alert_page(row).splitlines()[-1] == told
