-- Statements of records.py.

-- name: received
SELECT min(received_ms), max(received_ms) + 1 FROM read_parquet(?, hive_partitioning = false)
GROUP BY partition ORDER BY partition

-- name: vehicles
SELECT DISTINCT vehicle_id FROM read_parquet(?, hive_partitioning = false) WHERE vehicle_id <> '' ORDER BY 1
