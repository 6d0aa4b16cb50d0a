-- Statements of queue.py.

-- name: due
SELECT DISTINCT start FROM odograph.late_frame l, generate_series(
    l.t0_ms / %(length_ms)s * %(length_ms)s, l.t0_ms + l.span_ms, %(length_ms)s) AS start
WHERE l.repaired_at IS NULL AND l.noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
  AND ((l.t0_ms + l.span_ms) / %(length_ms)s + 1) * %(length_ms)s <= %(closed_ms)s
ORDER BY start

-- name: listed
SELECT DISTINCT start FROM odograph.late_frame l, generate_series(
    l.t0_ms / %(length_ms)s * %(length_ms)s, l.t0_ms + l.span_ms, %(length_ms)s) AS start
WHERE l.received_at >= %(since)s AND l.received_at < %(until)s AND start + %(length_ms)s <= %(closed_ms)s
ORDER BY start

-- name: open_late
SELECT topic, partition, log_offset, vehicle_id, t0_ms, span_ms, log_generation FROM odograph.late_frame
WHERE t0_ms < %(until_ms)s AND t0_ms + span_ms >= %(from_ms)s AND repaired_at IS NULL
  AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)

-- name: late_hours
SELECT DISTINCT (extract(epoch FROM l.received_at) * 1000)::bigint / %(hour_ms)s * %(hour_ms)s
FROM odograph.late_frame l
JOIN unnest(%(vehicles)s::text[], %(from_ms)s::bigint[], %(until_ms)s::bigint[])
     AS w (vehicle_id, from_ms, until_ms)
  ON (w.vehicle_id IS NULL OR l.vehicle_id = w.vehicle_id)
 AND l.t0_ms < w.until_ms AND l.t0_ms + l.span_ms >= w.from_ms

-- name: late_slices
SELECT DISTINCT number FROM odograph.late_frame l, generate_series(
    l.t0_ms / %(length_ms)s * %(length_ms)s / %(slice_ms)s, (l.t0_ms + l.span_ms) / %(slice_ms)s) AS number
WHERE l.t0_ms < %(until_ms)s AND l.t0_ms + l.span_ms >= %(from_ms)s

-- name: taken_in
UPDATE odograph.late_frame l SET repaired_at = now()
FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(offsets)s::bigint[], %(logs)s::text[])
     AS f (topic, partition, log_offset, log_generation)
WHERE l.topic = f.topic AND l.partition = f.partition AND l.log_offset = f.log_offset
  AND l.log_generation = f.log_generation

-- name: late_vehicles
SELECT vehicle_id, (extract(epoch FROM min(from_time)) * 1000)::bigint,
       (extract(epoch FROM max(to_time)) * 1000)::bigint
FROM odograph.late_vehicle_frames
WHERE {mark} IS NULL AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
GROUP BY vehicle_id ORDER BY max(noted_at), vehicle_id

-- name: works
-- In the order of Work: from the stop before, or from look_back_ms before, to the stop after, or as
-- far as anything is known of; closed where there is a stop after, or no trip is under way.
SELECT v.vehicle_id, v.since_ms, v.until_ms, coalesce(before.at_ms, v.since_ms - %(look_back_ms)s),
       coalesce(after.at_ms, greatest(v.until_ms, %(seen_ms)s)), before.at_ms,
       after.at_ms IS NOT NULL
           OR NOT EXISTS (SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = v.vehicle_id AND t.phase = 'open')
FROM unnest(%(vehicles)s::text[], %(since_ms)s::bigint[], %(until_ms)s::bigint[])
     WITH ORDINALITY AS v (vehicle_id, since_ms, until_ms, place)
CROSS JOIN LATERAL (SELECT (extract(epoch FROM max(began_at)) * 1000)::bigint AS at_ms FROM odograph.trip_stop s
                    WHERE s.vehicle_id = v.vehicle_id AND s.began_at < to_timestamp(v.since_ms / 1000.0)) before
CROSS JOIN LATERAL (SELECT (extract(epoch FROM min(began_at)) * 1000)::bigint AS at_ms FROM odograph.trip_stop s
                    WHERE s.vehicle_id = v.vehicle_id AND s.began_at >= to_timestamp(v.until_ms / 1000.0)) after
ORDER BY v.place

-- name: done
UPDATE odograph.late_vehicle_frames SET
    alerts_at = CASE WHEN %(rules)s THEN now() ELSE alerts_at END,
    repaired_at = CASE WHEN %(closed)s THEN coalesce(repaired_at, now()) ELSE repaired_at END
WHERE vehicle_id = %(vehicle_id)s AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
  AND from_time >= to_timestamp(%(since_ms)s / 1000.0) AND to_time <= to_timestamp(%(until_ms)s / 1000.0)

-- name: unfinished
SELECT run_no, (extract(epoch FROM done_until) * 1000)::bigint FROM odograph.recompute_run
WHERE kind = %(kind)s AND finished_at IS NULL AND vehicle_id IS NOT DISTINCT FROM %(vehicle_id)s
  AND from_at = %(from_at)s AND until_at = %(until_at)s ORDER BY run_no DESC LIMIT 1

-- name: begin
INSERT INTO odograph.recompute_run (kind, from_at, until_at, vehicle_id, late_until)
VALUES (%(kind)s, %(from_at)s, %(until_at)s, %(vehicle_id)s, %(late_until)s) RETURNING run_no, NULL

-- name: add
UPDATE odograph.recompute_run SET {sums},
    done_until = coalesce(to_timestamp(%(done_ms)s::bigint / 1000.0), done_until)
WHERE run_no = %(run_no)s

-- name: finish
UPDATE odograph.recompute_run SET finished_at = now() WHERE run_no = %(run_no)s RETURNING {counted}
