-- Statements of run.py.

-- name: next_offsets
SELECT partition, next_offset FROM odograph.consumer_offset WHERE consumer = %s AND topic = %s
  AND region = odograph.acting_region()

-- name: horizon
SELECT (extract(epoch FROM max(dropped_before)) * 1000)::bigint FROM odograph.retention
WHERE table_name = 'vehicle_window'
