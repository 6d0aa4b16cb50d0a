-- name: leave_equal
DELETE FROM {staged} s USING {table} w
WHERE {matched} AND w.{time} >= %(since)s AND w.{time} <= %(until)s
AND ROW({staged_values}) IS NOT DISTINCT FROM ROW({stored})

-- name: leave_stored
DELETE FROM {staged} s USING {table} w
WHERE {matched} AND w.{time} >= %(since)s AND w.{time} < %(until)s

-- name: not_staged
NOT EXISTS (SELECT 1 FROM {staged} s WHERE {matched})

-- name: put
INSERT INTO {table} ({columns}) SELECT {sources} FROM {staged} ORDER BY {keys} {on_conflict}

-- name: reopen
UPDATE odograph.late_frame l SET repaired_at = NULL
FROM {staged} s JOIN {table} w USING ({keys})
WHERE w.revision > 0 AND l.repaired_at IS NOT NULL {own}
AND l.t0_ms < (extract(epoch FROM s.window_start) + s.window_s) * 1000
AND l.t0_ms + l.span_ms >= extract(epoch FROM s.window_start) * 1000

-- name: reopen_journeys
UPDATE odograph.late_vehicle_frames SET repaired_at = NULL
WHERE vehicle_id IN (SELECT vehicle_id FROM {staged}) AND repaired_at > now() - INTERVAL '1 day'

-- name: insert_new
INSERT INTO {table} ({columns}) SELECT {columns} FROM {staged} ON CONFLICT DO NOTHING
