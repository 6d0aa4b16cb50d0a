-- Statements of restate.py.

-- name: take
SELECT pg_try_advisory_lock(7020)

-- name: held
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid = 7020 AND granted

-- name: release
-- Nothing where the session that took it is gone and another one asks.
SELECT pg_advisory_unlock(7020) WHERE EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid = 7020 AND granted)

-- name: leaves
UPDATE odograph.trip_stop SET ended_at = to_timestamp(%(ended_ms)s / 1000.0), revision = revision + 1,
    restated_at = now()
WHERE vehicle_id = %(vehicle)s AND began_at = to_timestamp(%(began_ms)s / 1000.0)
  AND ended_at IS DISTINCT FROM to_timestamp(%(ended_ms)s / 1000.0)

-- name: orphans
-- Stored windows without a frame in the archive.
SELECT count(*) FROM {table} w
WHERE w.window_start >= %(since)s AND w.window_start < %(until)s AND {not_staged} AND {whose}

-- name: of_vehicle
(%(vehicle)s::text IS NULL OR w.vehicle_id = %(vehicle)s)

-- name: gone
DELETE FROM {table} w
WHERE vehicle_id = %(vehicle)s AND {time} > %(since)s AND {time} <= %(until)s AND {not_staged}
