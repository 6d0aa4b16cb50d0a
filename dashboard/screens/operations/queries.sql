-- Queries about the pipeline itself.

-- name: queries_now
-- The last batch of each streaming query within a day; ``watermark_lag_s`` by the database's clock
SELECT * FROM serving.query_last ORDER BY query LIMIT 100

-- name: queries_history
-- Batch time (worst, ms) and records waiting (most) of each query in steps of 10 s
SELECT query, time_bucket(INTERVAL '10 seconds', at) AS bucket, max(batch_ms) AS batch_ms,
       max(lag_records) AS lag_records
FROM serving.query_progress WHERE at > now() - INTERVAL '15 minutes'
GROUP BY 1, 2 ORDER BY 1, 2

-- name: rejected
-- Frames of the last day that went into no window, by kind and reason
SELECT kind, reason, sum(messages)::bigint AS frames, max(received_at) AS last_at
FROM (SELECT 'quarantined' AS kind, kind AS reason, received_at, 1 AS messages
      FROM serving.off_time WHERE kind <> 'late'
      UNION ALL SELECT 'dead letter', reason, received_at, messages FROM serving.dead_letter) found
WHERE received_at > now() - INTERVAL '1 day'
GROUP BY 1, 2 ORDER BY kind, frames DESC, reason LIMIT 100

-- name: audit_hours
-- The conservation ledger of the last day, the newest hour first; frames
SELECT hour, closed_until, vehicles, generated, lost_on_link, dropped_on_board + on_board AS on_board,
       on_the_way, dead, missing, late, quarantined, counted, duplicate, residual
FROM serving.audit_hour WHERE hour > now() - INTERVAL '1 day'
ORDER BY hour DESC LIMIT 200

-- name: audit_findings
-- What is missing or differs in the last day, in ranges
SELECT hour, stage, vehicle_id, what, frames
FROM serving.audit_finding WHERE hour > now() - INTERVAL '1 day'
ORDER BY hour DESC, no LIMIT 200

-- name: alert_latency
-- From receipt and from event to the alerts topic by rule, ms, over the last hour
SELECT rule, count(*) AS findings,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY received_ms)) AS received_p50_ms,
       round(percentile_cont(0.95) WITHIN GROUP (ORDER BY received_ms)) AS received_p95_ms,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY event_ms)) AS event_p50_ms
FROM (SELECT rule, stored_at, received_to_alert_ms::double precision AS received_ms,
             event_to_alert_ms::double precision AS event_ms
      FROM serving.alert_latency) l
WHERE stored_at > now() - INTERVAL '1 hour'
GROUP BY rule ORDER BY findings DESC, rule LIMIT 100

-- name: stages
-- The newest sample of each part within a day; ``measured`` false: it says nothing of now
SELECT * FROM serving.stage_now ORDER BY stage LIMIT 100

-- name: tasks
-- Periodic tasks, those that fail first; ``ago_s`` since the begin of the last run
SELECT process, task, interval_s, run_at, run_s, success_at, failures, failing_since, error,
       extract(epoch FROM now() - run_at)::double precision AS ago_s
FROM serving.maintenance_task ORDER BY failing_since NULLS LAST, process, task LIMIT 100

-- name: stage_rates
-- The rate of each part in steps of 15 s over 15 minutes; per s
SELECT stage, time_bucket(INTERVAL '15 seconds', at) AS bucket, avg(rate_per_s) AS rate_per_s
FROM serving.stage_sample WHERE at > now() - INTERVAL '15 minutes'
GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 5000

-- name: overload
-- When telemetry of some classes of vehicles went to the archive only; ``waiting``: frames in no window yet
SELECT * FROM serving.overload ORDER BY began_at DESC LIMIT 10

-- name: partition_lag
-- records that wait for each reader, by partition
SELECT * FROM serving.partition_lag ORDER BY reader, topic, partition LIMIT 500

-- name: top_keys
-- The keys that send most, as the watch counted them last; ``share`` of the topic's records
SELECT * FROM serving.top_key WHERE at > now() - INTERVAL '1 day'
ORDER BY share DESC, vehicle_id LIMIT 100

-- name: watermark_defence
-- One row: frames of the last day, how many were off time, and the delay that was needed
SELECT * FROM serving.watermark_defence(24)

-- name: off_time_vehicles
-- Late and quarantined frames of the last day by vehicle, most first; ``ahead_s`` of its clock
SELECT vehicle_id, count(*) FILTER (WHERE kind = 'late') AS late,
       count(*) FILTER (WHERE kind = 'late' AND NOT repaired) AS late_open,
       max(behind_s) FILTER (WHERE kind = 'late') AS late_worst_s,
       count(*) FILTER (WHERE kind <> 'late') AS quarantined,
       max(-behind_s) FILTER (WHERE kind = 'clock_ahead') AS ahead_s,
       bool_or(kind = 'clock_unset') AS unset, max(received_at) AS last_at
FROM serving.off_time WHERE received_at > now() - INTERVAL '1 day'
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 50

-- name: clocks_ahead
-- vehicles whose clocks push the watermark within the limit, the furthest first
SELECT * FROM serving.clock_ahead ORDER BY ahead_s DESC, vehicle_id LIMIT 10

-- name: storage
-- How big each folder is, how fast it grows, what its disk has left; bytes
SELECT * FROM serving.storage ORDER BY bytes DESC LIMIT 50

-- name: table_sizes
-- The biggest tables with how long they are kept; bytes, days
SELECT schema || '.' || name AS table, bytes, about_rows, since, kept_days FROM serving.table_size
ORDER BY bytes DESC, schema, name LIMIT 15
