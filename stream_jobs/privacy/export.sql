-- Statements of export.py.

-- name: tables
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'vehicle_id' AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname !~ '^(pg_|information_schema$|_timescaledb)'
UNION
SELECT g.materialization_hypertable_schema, g.materialization_hypertable_name
FROM timescaledb_information.continuous_aggregates g JOIN pg_attribute a
ON a.attrelid = format('%I.%I', g.view_schema, g.view_name)::regclass AND a.attname = 'vehicle_id'
ORDER BY 1, 2

-- name: frames
COPY (SELECT * FROM read_parquet($files, hive_partitioning = false) WHERE vehicle_id = $vehicle
      ORDER BY received_ms, topic, partition, log_offset) TO $path (FORMAT parquet, COMPRESSION zstd)
