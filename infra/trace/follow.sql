-- Statements of follow.py. What the database has of a frame: each query is by key or bounded.

-- name: archived
SELECT filename, file_row_number, topic, partition, log_offset, received_ms, value
FROM read_parquet(?, hive_partitioning = false, filename = true, file_row_number = true)
WHERE vehicle_id = ? AND seq = ? AND (? IS NULL OR boot_id = ?)
ORDER BY received_ms, log_offset

-- name: windows
SELECT window_start, frames, samples, batch_id, revision, restated_at
FROM odograph.vehicle_window WHERE vehicle_id = %s AND window_start = ANY(%s)

-- name: ledger
SELECT committed_at FROM odograph.batch_ledger WHERE query_id = %s AND batch_id = %s

-- name: progress
SELECT at + batch_ms * INTERVAL '1 ms' AS committed_at FROM odograph.query_progress
WHERE query = %s AND query_id = %s AND batch_id = %s LIMIT 1

-- name: dead
SELECT log_offset FROM odograph.dead_letter WHERE vehicle_id = %s AND log_generation IN ('', %s)
ORDER BY log_offset DESC LIMIT %s

-- name: dead_end
SELECT coalesce(max(log_offset), -1) + 1 AS next FROM odograph.dead_letter
WHERE partition = 0 AND log_generation IN ('', %s)

-- name: alerts
SELECT alert_id, rule, rule_version, severity, alerted_at, stored_at FROM odograph.alert_event
WHERE vehicle_id = %s AND event_time BETWEEN to_timestamp(%s / 1000.0) AND to_timestamp(%s / 1000.0)
ORDER BY alerted_at

-- name: latest
SELECT event_time, updated_at FROM odograph.vehicle_latest WHERE vehicle_id = %s
