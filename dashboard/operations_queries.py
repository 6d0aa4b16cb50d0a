"""Questions about the pipeline itself."""

from __future__ import annotations

import pandas as pd

from dashboard.queries import Connection, frame


def queries_now(connection: Connection) -> pd.DataFrame:
    """The last batch of each streaming query within a day; ``watermark_lag_s`` by the database's clock."""
    return frame(
        connection,
        """
        SELECT DISTINCT ON (query) query, at, batch_id, input_rows, rows_per_s, batch_ms, watermark,
               extract(epoch FROM now() - watermark)::double precision AS watermark_lag_s,
               state_rows, state_bytes, dropped_late, dropped_duplicates, lag_records
        FROM serving.query_progress WHERE at > now() - INTERVAL '1 day'
        ORDER BY query, at DESC
        """,
    )


def queries_history(connection: Connection, minutes: int = 15) -> pd.DataFrame:
    """Batch time (worst, ms) and records waiting (most) of each query in steps of 10 s."""
    return frame(
        connection,
        """
        SELECT query, time_bucket(INTERVAL '10 seconds', at) AS bucket, max(batch_ms) AS batch_ms,
               max(lag_records) AS lag_records
        FROM serving.query_progress WHERE at > now() - make_interval(mins => %(minutes)s)
        GROUP BY 1, 2 ORDER BY 1, 2
        """,
        minutes=minutes,
    )


def rejected(connection: Connection) -> pd.DataFrame:
    """Frames that went into no window, by kind and reason."""
    return frame(connection, "SELECT * FROM serving.rejected ORDER BY kind, frames DESC, reason")


def audit_hours(connection: Connection, hours: int = 24) -> pd.DataFrame:
    """The conservation ledger of the last ``hours``, the newest hour first; frames."""
    return frame(
        connection,
        """
        SELECT hour, closed_until, vehicles, generated, lost_on_link, dropped_on_board + on_board AS on_board,
               on_the_way, dead, missing, late, quarantined, counted, duplicate, residual
        FROM serving.audit_hour WHERE hour > now() - make_interval(hours => %(hours)s)
        ORDER BY hour DESC LIMIT 200
        """,
        hours=hours,
    )


def audit_findings(connection: Connection, hours: int = 24) -> pd.DataFrame:
    """What is missing or differs in the last ``hours``, in ranges."""
    return frame(
        connection,
        """
        SELECT hour, stage, vehicle_id, what, frames
        FROM serving.audit_finding WHERE hour > now() - make_interval(hours => %(hours)s)
        ORDER BY hour DESC, no LIMIT 200
        """,
        hours=hours,
    )


def alert_latency(connection: Connection, minutes: int = 60) -> pd.DataFrame:
    """From receipt and from event to the alerts topic by rule, ms, over the last ``minutes``."""
    return frame(
        connection,
        """
        SELECT rule, count(*) AS findings,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY received_ms) AS received_p50_ms,
               percentile_cont(0.95) WITHIN GROUP (ORDER BY received_ms) AS received_p95_ms,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY event_ms) AS event_p50_ms
        FROM (SELECT rule, stored_at, received_to_alert_ms::double precision AS received_ms,
                     event_to_alert_ms::double precision AS event_ms
              FROM serving.alert_latency) l
        WHERE stored_at > now() - make_interval(mins => %(minutes)s)
        GROUP BY rule ORDER BY findings DESC, rule LIMIT 100
        """,
        minutes=minutes,
    )
