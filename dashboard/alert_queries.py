"""Questions about alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

ALERT_LIMIT: Final = 500
CHANGE_LIMIT: Final = 200
FRAME_LIMIT: Final = 300
"""As many frames as are kept of an alert."""
RULE_LIMIT: Final = 1_000
SILENCE_LIMIT: Final = 200


def alerts(
    connection: Connection,
    vehicle_id: str | None = None,
    severities: Sequence[str] | None = None,
    active: bool | None = None,
    rule: str | None = None,
) -> pd.DataFrame:
    """Alerts, active and unacknowledged first, then the worst, then the newest; at most ALERT_LIMIT rows.

    ``rule`` is an id, or one with the part after its point.
    """
    return frame(
        connection,
        """
        SELECT *, CASE WHEN starts_with(rule, 'crash') THEN (
                   SELECT v.verdict FROM serving.alert_verdict v WHERE v.alert_no = a.alert_no) END AS verdict
        FROM serving.alert_triage a
        WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
          AND (%(severities)s::text[] IS NULL OR severity = ANY(%(severities)s::text[]))
          AND (%(active)s::boolean IS NULL OR active = %(active)s)
          AND (%(rule)s::text IS NULL OR %(rule)s IN (rule, split_part(rule, '.', 1)))
        ORDER BY active DESC, acknowledged_at IS NULL DESC,
                 array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at DESC
        LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        severities=None if severities is None else list(severities),
        active=active,
        rule=rule,
        limit=ALERT_LIMIT,
    )


def alerts_numbered(connection: Connection, numbers: Sequence[int]) -> pd.DataFrame:
    """These alerts, as ``alerts`` has them, in no order."""
    return frame(
        connection,
        """
        SELECT *, CASE WHEN starts_with(rule, 'crash') THEN (
                   SELECT v.verdict FROM serving.alert_verdict v WHERE v.alert_no = a.alert_no) END AS verdict
        FROM serving.alert_triage a WHERE alert_no = ANY(%(numbers)s::bigint[]) LIMIT %(limit)s
        """,
        numbers=list(numbers),
        limit=ALERT_LIMIT,
    )


def alert(connection: Connection, alert_no: int) -> pd.DataFrame:
    """All that is known of one alert: one row or none; times of its way in ms."""
    return frame(
        connection,
        """
        SELECT l.*, v.verdict, v.crash_id,
               (SELECT c.boot_id FROM serving.crash_record c
                WHERE c.vehicle_id = l.vehicle_id AND c.crash_id = v.crash_id AND c.event_time
                      BETWEEN l.opened_at - INTERVAL '1 second' AND l.last_at + INTERVAL '1 second'
                ORDER BY c.event_time LIMIT 1) AS crash_boot_id
        FROM serving.alert_life l LEFT JOIN serving.alert_verdict v USING (alert_no)
        WHERE l.alert_no = %(alert_no)s
        """,
        alert_no=alert_no,
    )


def alert_changes(connection: Connection, alert_no: int) -> pd.DataFrame:
    """What happened to an alert, the newest CHANGE_LIMIT changes in their order."""
    return frame(
        connection,
        """
        SELECT * FROM (
            SELECT * FROM serving.alert_change WHERE alert_no = %(alert_no)s
            ORDER BY recorded_at DESC, event_time DESC LIMIT %(limit)s) c
        ORDER BY recorded_at, event_time
        """,
        alert_no=alert_no,
        limit=CHANGE_LIMIT,
    )


def alert_evidence(connection: Connection, alert_no: int) -> pd.DataFrame:
    """The frames around an alert as the vehicle sent them, in the order of their time."""
    return frame(
        connection,
        """
        SELECT * FROM serving.alert_evidence WHERE alert_no = %(alert_no)s
        ORDER BY t0, boot_id, seq LIMIT %(limit)s
        """,
        alert_no=alert_no,
        limit=FRAME_LIMIT,
    )


def rules(connection: Connection) -> pd.DataFrame:
    """The rules as the jobs last started with them; at most RULE_LIMIT rows."""
    return frame(connection, "SELECT * FROM serving.rule ORDER BY rule LIMIT %(limit)s", limit=RULE_LIMIT)


def rule_days(connection: Connection, start: datetime, end: datetime, zone: str) -> pd.DataFrame:
    """Alerts that opened from ``start`` to before ``end``, by rule and day of ``zone``.

    ``worst`` is the gravest severity; ``unseen`` and ``active`` are as they are now.
    """
    return frame(
        connection,
        """
        SELECT split_part(rule, '.', 1) AS rule, (opened_at AT TIME ZONE %(zone)s)::date AS day,
               count(*) AS alerts, count(DISTINCT vehicle_id) AS vehicles,
               count(*) FILTER (WHERE active) AS active,
               count(*) FILTER (WHERE active AND acknowledged_at IS NULL) AS unseen,
               min(array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity)) AS worst,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_s) AS duration_s,
               max(opened_at) AS last_opened_at
        FROM serving.alert_triage
        WHERE opened_at >= %(start)s AND opened_at < %(end)s
        GROUP BY 1, 2 ORDER BY 1, 2
        """,
        start=start,
        end=end,
        zone=zone,
    )


def silences(connection: Connection) -> pd.DataFrame:
    """Silences, those in force first, then the newest; at most SILENCE_LIMIT rows."""
    return frame(
        connection,
        """
        SELECT * FROM serving.alert_silence ORDER BY in_force DESC, from_at DESC LIMIT %(limit)s
        """,
        limit=SILENCE_LIMIT,
    )
