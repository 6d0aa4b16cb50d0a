-- Statements of records.py.

-- name: received
SELECT min(received_ms), max(received_ms) + 1 FROM read_parquet(?, hive_partitioning = false)
GROUP BY partition ORDER BY partition

-- name: vehicles
SELECT DISTINCT vehicle_id FROM read_parquet(?, hive_partitioning = false) WHERE vehicle_id <> '' ORDER BY 1

-- A record goes to the partition that its key belongs to; one without a key goes anywhere.

-- name: ticks
SELECT received_ms // {tick_ms} AS tick, coalesce(place(key), partition % $partitions) AS part, count(*)::bigint AS n
FROM {files} WHERE {wanted} GROUP BY 1, 2 ORDER BY 1, 2

-- name: records
SELECT coalesce(place(key), partition % $partitions)::integer AS partition, partition AS origin, log_offset, key,
       received_ms, value, topic || ' ' || log AS log
FROM {files} WHERE {wanted}
