-- Statements of databases.py.

-- name: open_work
-- What the periodic tasks have still to do. Late frames of a trip that is still under way at the end wait for its stop,
-- which never comes.
SELECT what, n FROM (
    SELECT 'late frames to repair', count(*) FROM odograph.late_frame WHERE repaired_at IS NULL
    UNION ALL
    SELECT 'late frames of vehicles to repair', coalesce(sum(b.frames), 0)
    FROM (SELECT vehicle_id, max(to_time) AS until, sum(frames) AS frames
          FROM odograph.late_vehicle_frames WHERE repaired_at IS NULL GROUP BY vehicle_id) b
    WHERE EXISTS (SELECT 1 FROM odograph.trip_stop s WHERE s.vehicle_id = b.vehicle_id AND s.began_at >= b.until)
       OR NOT EXISTS (SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = b.vehicle_id AND t.phase = 'open')
    UNION ALL
    SELECT 'windows to roll up', count(*) FROM odograph.window_change
) w (what, n) WHERE n > 0

-- name: events_taken
-- Records that the run's event store has taken in.
SELECT coalesce(sum(next_offset), 0) FROM odograph.consumer_offset WHERE consumer = 'events'

-- name: dropped_late
-- Rows that Spark dropped behind its watermark: must be 0, else windows lack them.
SELECT coalesce(sum(dropped_late), 0)::bigint FROM odograph.query_progress

-- name: dead
SELECT digest, concat_ws(' ', mqtt_topic, vehicle_id, to_char(received_at, 'YYYY-MM-DD HH24:MI:SS'))
       || ': ' || concat_ws(': ', reason, detail)
FROM odograph.dead_letter ORDER BY partition, log_offset

-- name: dead_too
SELECT count(DISTINCT digest) FROM odograph.dead_letter WHERE digest = ANY(%(digests)s)

-- name: erased
SELECT window_start FROM odograph.erased_window WHERE window_start >= %(since)s AND window_start < %(until)s

-- name: late_open
-- Late frames of a span that wait for their repair.
SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL
  AND t0_ms < %(until_ms)s AND t0_ms + span_ms >= %(since_ms)s

-- name: trips
-- What a run found in one recorded drive; parameters: its report.
SELECT count(*) FROM odograph.trip WHERE vehicle_id = %(vehicle_id)s
  AND started_at BETWEEN %(stamped_from)s::timestamptz AND %(stamped_to)s

-- name: alerts
SELECT count(*) FROM odograph.alert WHERE vehicle_id = %(vehicle_id)s
  AND opened_at BETWEEN %(stamped_from)s::timestamptz AND %(stamped_to)s::timestamptz + interval '1 min'
  AND withdrawn_at IS NULL

-- name: watermark
SELECT coalesce(extract(epoch FROM max(watermark)) * 1000, 0)::bigint FROM odograph.query_progress
WHERE query = 'telemetry'

-- name: new_rows
INSERT INTO odograph.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM given ON CONFLICT DO NOTHING

-- name: left_out
SELECT count(*) FROM odograph.{table} WHERE {time} = ANY(%(erased)s)

-- name: hashes
-- Number of rows and a sum of their hashes by slice: whatever the order of the rows.
SELECT {key}::text, date_trunc('hour', {time}), count(*), sum(hashtextextended(ROW({columns})::text, 0)::numeric)
FROM odograph.{table} WHERE {wanted} GROUP BY 1, 2

-- name: slice
SELECT {columns} FROM odograph.{table}
WHERE {wanted} AND {key}::text = %(slice)s AND {time} >= %(hour)s AND {time} < %(hour)s + interval '1 hour'
