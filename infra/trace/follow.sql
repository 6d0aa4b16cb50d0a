-- Statements of follow.py. What the database has of a frame: each query is by key or bounded.

-- name: archived
SELECT filename, file_row_number, topic, partition, log_offset, received_ms, value
FROM read_parquet(?, hive_partitioning = false, filename = true, file_row_number = true)
WHERE vehicle_id = ? AND seq = ? AND (? IS NULL OR boot_id = ?)
ORDER BY received_ms, log_offset

-- name: windows
SELECT window_start, frames, samples, batch_id, revision, restated_at
FROM odograph.vehicle_window WHERE vehicle_id = %s AND window_start = ANY(%s)

-- name: taken
-- The batch of a query, since it last began anew, that took a record: the first that ends behind it. Where that is the
-- oldest line kept, and not of the query's first batch, it may have been an earlier one: exact is false.
SELECT batch_id, committed_at, batch_id = 0 OR place > 1 AS exact
FROM (SELECT batch_id, committed_at, row_number() OVER (ORDER BY batch_id) AS place,
             (ends -> %s::text ->> %s::text)::bigint AS end_offset
      FROM odograph.batch_ledger WHERE ends IS NOT NULL AND query_id = (
          SELECT query_id FROM odograph.batch_ledger WHERE query = %s AND region = odograph.acting_region()
          ORDER BY committed_at DESC LIMIT 1)) line
WHERE end_offset > %s ORDER BY batch_id LIMIT 1

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
