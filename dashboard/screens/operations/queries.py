"""Queries about the pipeline itself."""

from dashboard.db import Query, query

# The last batch of each streaming query within a day; ``watermark_lag_s`` by the database's clock
queries_now: Query[[]] = query("queries_now")("SELECT * FROM serving.query_last ORDER BY query LIMIT 100")

# Batch time (worst, ms) and records waiting (most) of each query in steps of 10 s
queries_history: Query[[]] = query("queries_history")("""
    SELECT query, time_bucket(INTERVAL '10 seconds', at) AS bucket, max(batch_ms) AS batch_ms,
           max(lag_records) AS lag_records
    FROM serving.query_progress WHERE at > now() - INTERVAL '15 minutes'
    GROUP BY 1, 2 ORDER BY 1, 2
""")

# Frames of the last day that went into no window, by kind and reason
rejected: Query[[]] = query("rejected")("""
    SELECT kind, reason, sum(messages)::bigint AS frames, max(received_at) AS last_at
    FROM (SELECT 'quarantined' AS kind, kind AS reason, received_at, 1 AS messages
          FROM serving.off_time WHERE kind <> 'late'
          UNION ALL SELECT 'dead letter', reason, received_at, messages FROM serving.dead_letter) found
    WHERE received_at > now() - INTERVAL '1 day'
    GROUP BY 1, 2 ORDER BY kind, frames DESC, reason LIMIT 100
""")

# The conservation ledger of the last day, the newest hour first; frames
audit_hours: Query[[]] = query("audit_hours")("""
    SELECT hour, closed_until, vehicles, generated, lost_on_link, dropped_on_board + on_board AS on_board,
           on_the_way, dead, missing, late, quarantined, counted, duplicate, residual
    FROM serving.audit_hour WHERE hour > now() - INTERVAL '1 day'
    ORDER BY hour DESC LIMIT 200
""")

# What is missing or differs in the last day, in ranges
audit_findings: Query[[]] = query("audit_findings")("""
    SELECT hour, stage, vehicle_id, what, frames
    FROM serving.audit_finding WHERE hour > now() - INTERVAL '1 day'
    ORDER BY hour DESC, no LIMIT 200
""")

# From receipt and from event to the alerts topic by rule, ms, over the last hour
alert_latency: Query[[]] = query("alert_latency")("""
    SELECT rule, count(*) AS findings,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY received_ms) AS received_p50_ms,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY received_ms) AS received_p95_ms,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY event_ms) AS event_p50_ms
    FROM (SELECT rule, stored_at, received_to_alert_ms::double precision AS received_ms,
                 event_to_alert_ms::double precision AS event_ms
          FROM serving.alert_latency) l
    WHERE stored_at > now() - INTERVAL '1 hour'
    GROUP BY rule ORDER BY findings DESC, rule LIMIT 100
""")

# The newest sample of each part within a day; ``measured`` false: it says nothing of now
stages: Query[[]] = query("stages")("SELECT * FROM serving.stage_now ORDER BY stage LIMIT 100")

# Periodic tasks, those that fail first; ``ago_s`` since the begin of the last run
tasks: Query[[]] = query("tasks")("""
    SELECT process, task, interval_s, run_at, run_s, success_at, failures, failing_since, error,
           extract(epoch FROM now() - run_at)::double precision AS ago_s
    FROM serving.maintenance_task ORDER BY failing_since NULLS LAST, process, task LIMIT 100
""")

# The rate of each part in steps of 15 s over 15 minutes; per s
stage_rates: Query[[]] = query("stage_rates")("""
    SELECT stage, time_bucket(INTERVAL '15 seconds', at) AS bucket, avg(rate_per_s) AS rate_per_s
    FROM serving.stage_sample WHERE at > now() - INTERVAL '15 minutes'
    GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 5000
""")

# When telemetry of some classes of vehicles went to the archive only; ``waiting``: frames in no window yet
overload: Query[[]] = query("overload")("SELECT * FROM serving.overload ORDER BY began_at DESC LIMIT 10")

# records that wait for each reader, by partition
partition_lag: Query[[]] = query("partition_lag")(
    "SELECT * FROM serving.partition_lag ORDER BY reader, topic, partition LIMIT 500"
)

# The keys that send most, as the watch counted them last; ``share`` of the topic's records
top_keys: Query[[]] = query("top_keys")("""
    SELECT * FROM serving.top_key WHERE at > now() - INTERVAL '1 day'
    ORDER BY share DESC, vehicle_id LIMIT 100
""")

# One row: frames of the last day, how many were off time, and the delay that was needed
watermark_defence: Query[[]] = query("watermark_defence")("SELECT * FROM serving.watermark_defence(24)")

# Late and quarantined frames of the last day by vehicle, most first; ``ahead_s`` of its clock
off_time_vehicles: Query[[]] = query("off_time_vehicles")("""
    SELECT vehicle_id, count(*) FILTER (WHERE kind = 'late') AS late,
           count(*) FILTER (WHERE kind = 'late' AND NOT repaired) AS late_open,
           max(behind_s) FILTER (WHERE kind = 'late') AS late_worst_s,
           count(*) FILTER (WHERE kind <> 'late') AS quarantined,
           max(-behind_s) FILTER (WHERE kind = 'clock_ahead') AS ahead_s,
           bool_or(kind = 'clock_unset') AS unset, max(received_at) AS last_at
    FROM serving.off_time WHERE received_at > now() - INTERVAL '1 day'
    GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 50
""")

# vehicles whose clocks push the watermark within the limit, the furthest first
clocks_ahead: Query[[]] = query("clocks_ahead")(
    "SELECT * FROM serving.clock_ahead ORDER BY ahead_s DESC, vehicle_id LIMIT 10"
)

# How big each folder is, how fast it grows, what its disk has left; bytes
storage: Query[[]] = query("storage")("SELECT * FROM serving.storage ORDER BY bytes DESC LIMIT 50")

# The biggest tables with how long they are kept; bytes, days
table_sizes: Query[[]] = query("table_sizes")("""
    SELECT schema || '.' || name AS table, bytes, about_rows, since, kept_days FROM serving.table_size
    ORDER BY bytes DESC, schema, name LIMIT 15
""")
