-- Statements of collect.py.

-- name: ledger
-- Of the sums of everything (ledger.Ledger) those that the database has.
SELECT frames_counted - frames_repaired AS counted, frames_repaired AS repaired, records_late AS late,
       records_late_open AS late_open, records_quarantined AS quarantined, records_dead AS dead,
       records_dead_distinct AS dead_distinct, messages_not_kept AS not_kept, records_deferred AS deferred,
       records_deferred_open AS deferred_open
FROM serving.ledger

-- name: dead_letters
SELECT digest, vehicle_id, boot_id, seq FROM serving.dead_frame

-- name: dead_frames
SELECT vehicle_id, boot_id, seq FROM serving.dead_frame WHERE vehicle_id = ANY(%s)

-- name: counted
SELECT vehicle_id, sum(frames - frames_late)::bigint AS counted, sum(frames_late)::bigint AS repaired
FROM odograph.vehicle_window
WHERE window_start >= to_timestamp(%(since)s / 1000.0) AND window_start < to_timestamp(%(until)s / 1000.0)
GROUP BY 1

-- name: late
SELECT vehicle_id, count(*) FILTER (WHERE NOT deferred) AS late_listed,
       count(*) FILTER (WHERE repaired_at IS NULL AND NOT deferred) AS late_open,
       count(DISTINCT (boot_id, seq)) FILTER (WHERE repaired_at IS NULL AND deferred) AS deferred
FROM odograph.late_frame
WHERE t0_ms >= %(since)s AND t0_ms < %(until)s AND received_at < to_timestamp(%(seen)s / 1000.0)
  AND log_generation = ANY(%(logs)s)
GROUP BY 1

-- name: quarantined
SELECT vehicle_id, count(*) AS quarantined_listed FROM odograph.quarantined_frame
WHERE received_at >= to_timestamp(%(since)s / 1000.0)
  AND received_at < to_timestamp(least(%(until)s, %(seen)s) / 1000.0)
  AND log_generation = ANY(%(logs)s)
GROUP BY 1

-- name: dead
SELECT coalesce(vehicle_id, '') AS vehicle_id,
       count(DISTINCT digest) FILTER (WHERE seq IS NULL AND messages IS NULL) AS dead_unknown,
       coalesce(sum(messages) FILTER (WHERE reason = 'rate_limited'), 0)::bigint AS not_kept
FROM odograph.dead_letter
WHERE received_at >= to_timestamp(%(since)s / 1000.0) AND received_at < to_timestamp(%(until)s / 1000.0)
  AND (mqtt_topic IS NOT NULL OR reason <> 'refused') -- else a row of the jobs, no message
GROUP BY 1

-- name: session_losses
SELECT (extract(epoch FROM since_at) * 1000)::bigint, (extract(epoch FROM at) * 1000)::bigint, detail
FROM serving.session_loss ORDER BY at

-- name: windows
SELECT (extract(epoch FROM window_start) * 1000)::bigint, (frames - frames_late)::bigint
FROM odograph.vehicle_window
WHERE vehicle_id = %(vehicle)s AND window_start >= to_timestamp(%(since)s / 1000.0)
  AND window_start < to_timestamp(%(until)s / 1000.0)
