"""Questions about alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

ALERT_LIMIT: Final = 500


def alerts(
    connection: Connection,
    vehicle_id: str | None = None,
    severities: Sequence[str] | None = None,
    active: bool | None = None,
) -> pd.DataFrame:
    """Alerts, active and unacknowledged first, then the worst, then the newest; at most ALERT_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT *, extract(epoch FROM duration)::double precision AS duration_s,
               CASE WHEN starts_with(rule, 'crash_') THEN (
                   SELECT v.verdict FROM serving.alert_verdict v WHERE v.alert_no = a.alert_no) END AS verdict
        FROM serving.alert a
        WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
          AND (%(severities)s::text[] IS NULL OR severity = ANY(%(severities)s::text[]))
          AND (%(active)s::boolean IS NULL OR active = %(active)s)
        ORDER BY active DESC, acknowledged_at IS NULL DESC,
                 array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at DESC
        LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        severities=None if severities is None else list(severities),
        active=active,
        limit=ALERT_LIMIT,
    )
