-- Statements of backfill.py.

-- name: counts
SELECT count(*), count(DISTINCT vehicle_id)
FROM read_parquet(?, hive_partitioning = false) WHERE verdict IN ('ok', 'late')

-- name: pieces
SELECT min(t0_ms), max(t0_ms + span_ms)
FROM read_parquet(?, hive_partitioning = false, filename = true) WHERE verdict IN ('ok', 'late')
GROUP BY filename, t0_ms // 3600000 ORDER BY ALL
