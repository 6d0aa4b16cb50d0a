"""TimescaleDB's own aggregates, where its license has them: a restated span made anew.

Their policies look back less than a day; what is restated further back is theirs only after a refresh.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from infra.clients.db import connected
from infra.sql.migrate import license_of

AGGREGATES: Final = ("odograph.vehicle_minute_continuous", "odograph.vehicle_hour_continuous")
"""Hours are made of minutes: in this order."""
PIECE: Final = timedelta(days=1)
_SPAN: Final = """
SELECT greatest(date_trunc('hour', %(since)s::timestamptz), dropped_before),
       least(date_trunc('hour', %(until)s::timestamptz) + INTERVAL '1 hour', date_trunc('hour', now()))
FROM odograph.retention WHERE table_name = 'vehicle_window'
"""
"""Whole hours of windows that are still there: a refresh over dropped ones deletes their aggregates."""
REFRESH: Final = "CALL refresh_continuous_aggregate(%s::regclass, %s::timestamptz, %s::timestamptz)"


def refresh(owner_url: str, since: datetime, until: datetime, piece_s: float) -> int:
    """Make the aggregates of the span anew, a day at a time in at most ``piece_s`` each; days made.

    Only the owner of the tables may. Changes nothing in the Apache edition; raises ServiceError.
    """
    with connected(
        owner_url, "database: continuous aggregates", autocommit=True, application_name="odograph-continuous",
        connect_timeout_s=5, tcp_user_timeout=10_000, statement_timeout_s=piece_s,
        session={"timezone": "UTC"},
    ) as connection:  # fmt: skip
        if license_of(connection) != "timescale":
            return 0
        found = pieces(*connection.execute(_SPAN, {"since": since, "until": until}).fetchall()[0])
        for name in AGGREGATES:
            for begin, end in found:
                connection.execute(REFRESH, (name, begin, end))
        return len(found)


def pieces(since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The span in days, the last one shorter; none where it is empty."""
    found = []
    while since < until:
        found.append((since, min(since + PIECE, until)))
        since += PIECE
    return found
