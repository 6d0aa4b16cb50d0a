-- Statements of upkeep.py.

-- name: partitions
SELECT DISTINCT topic, partition FROM read_parquet(?, hive_partitioning = false) WHERE vehicle_id = ?

-- name: sums
SELECT count(*), sum(hash(record)::hugeint) FROM read_parquet(?, hive_partitioning = false) record
