"""Questions about the pipeline itself."""

from __future__ import annotations

import pandas as pd

from dashboard.queries import Connection, frame


def queries_now(connection: Connection) -> pd.DataFrame:
    """The last batch of each streaming query within a day; ``watermark_lag_s`` by the database's clock."""
    return frame(connection, "SELECT * FROM serving.query_last ORDER BY query LIMIT 100")


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


def rejected(connection: Connection, hours: int = 24) -> pd.DataFrame:
    """Frames of the last ``hours`` that went into no window, by kind and reason."""
    return frame(
        connection,
        """
        SELECT kind, reason, sum(messages)::bigint AS frames, max(received_at) AS last_at
        FROM (SELECT 'quarantined' AS kind, kind AS reason, received_at, 1 AS messages
              FROM serving.off_time WHERE kind <> 'late'
              UNION ALL SELECT 'dead letter', reason, received_at, messages FROM serving.dead_letter) found
        WHERE received_at > now() - make_interval(hours => %(hours)s)
        GROUP BY 1, 2 ORDER BY kind, frames DESC, reason LIMIT 100
        """,
        hours=hours,
    )


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


def stages(connection: Connection) -> pd.DataFrame:
    """The newest sample of each part within a day; ``measured`` false: it says nothing of now."""
    return frame(connection, "SELECT * FROM serving.stage_now ORDER BY stage LIMIT 100")


def tasks(connection: Connection) -> pd.DataFrame:
    """Periodic tasks, those that fail first; ``ago_s`` since the begin of the last run."""
    return frame(
        connection,
        """
        SELECT process, task, interval_s, run_at, run_s, success_at, failures, failing_since, error,
               extract(epoch FROM now() - run_at)::double precision AS ago_s
        FROM serving.maintenance_task ORDER BY failing_since NULLS LAST, process, task LIMIT 100
        """,
    )


def stage_rates(connection: Connection, minutes: int = 15) -> pd.DataFrame:
    """The rate of each part in steps of 15 s over the last ``minutes``; per s."""
    return frame(
        connection,
        """
        SELECT stage, time_bucket(INTERVAL '15 seconds', at) AS bucket, avg(rate_per_s) AS rate_per_s
        FROM serving.stage_sample WHERE at > now() - make_interval(mins => %(minutes)s)
        GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 5000
        """,
        minutes=minutes,
    )


def partition_lag(connection: Connection) -> pd.DataFrame:
    """Records that wait for each reader, by partition."""
    return frame(
        connection, "SELECT * FROM serving.partition_lag ORDER BY reader, topic, partition LIMIT 500"
    )


def watermark_defence(connection: Connection, hours: int = 24) -> pd.DataFrame:
    """One row: frames of the last ``hours``, how many were off time, and the delay that was needed."""
    return frame(connection, "SELECT * FROM serving.watermark_defence(%(hours)s)", hours=hours)


def off_time_vehicles(connection: Connection, hours: int = 24) -> pd.DataFrame:
    """Late and quarantined frames of the last ``hours`` by vehicle, most first; ``ahead_s`` of its clock."""
    return frame(
        connection,
        """
        SELECT vehicle_id, count(*) FILTER (WHERE kind = 'late') AS late,
               count(*) FILTER (WHERE kind = 'late' AND NOT repaired) AS late_open,
               max(behind_s) FILTER (WHERE kind = 'late') AS late_worst_s,
               count(*) FILTER (WHERE kind <> 'late') AS quarantined,
               max(-behind_s) FILTER (WHERE kind = 'clock_ahead') AS ahead_s,
               bool_or(kind = 'clock_unset') AS unset, max(received_at) AS last_at
        FROM serving.off_time WHERE received_at > now() - make_interval(hours => %(hours)s)
        GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 50
        """,
        hours=hours,
    )


def clocks_ahead(connection: Connection) -> pd.DataFrame:
    """Vehicles whose clocks push the watermark within the limit, the furthest first."""
    return frame(connection, "SELECT * FROM serving.clock_ahead ORDER BY ahead_s DESC, vehicle_id LIMIT 10")


def storage(connection: Connection) -> pd.DataFrame:
    """How big each folder is, how fast it grows, what its disk has left; bytes."""
    return frame(connection, "SELECT * FROM serving.storage ORDER BY bytes DESC LIMIT 50")


def table_sizes(connection: Connection) -> pd.DataFrame:
    """The biggest tables with how long they are kept; bytes, days."""
    return frame(
        connection,
        """
        SELECT schema, name, bytes, about_rows, since, kept_days FROM serving.table_size
        ORDER BY bytes DESC, schema, name LIMIT 15
        """,
    )
