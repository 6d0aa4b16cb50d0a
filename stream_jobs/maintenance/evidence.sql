-- Statements of evidence.py.

-- name: due
SELECT a.alert_no, a.vehicle_id, (extract(epoch FROM a.opened_at) * 1000)::bigint,
       (extract(epoch FROM greatest(a.opened_at, e.received_at)) * 1000)::bigint
FROM odograph.alert a JOIN odograph.alert_event e ON e.alert_id = a.first_alert_id
WHERE a.evidence_at IS NULL AND greatest(a.opened_at, e.received_at) <= to_timestamp(%(until_ms)s / 1000.0)
ORDER BY a.opened_at LIMIT %(limit)s

-- name: frames
SELECT vehicle_id, t0_ms, t0_ms + span_ms AS end_ms, boot_id, seq, received_ms, verdict,
       topic AS kafka_topic, partition, log_offset, log AS log_generation, value
FROM {records}
WHERE list_contains(?, vehicle_id) AND verdict IN ('ok', 'late') AND t0_ms <= ? AND t0_ms + span_ms >= ?
ORDER BY vehicle_id, t0_ms, boot_id, seq, received_ms

-- name: done
UPDATE odograph.alert a SET evidence_at = now(), evidence_frames = n.frames
FROM jsonb_to_recordset(%(rows)s) AS n("alert_no" bigint, "frames" integer) WHERE a.alert_no = n.alert_no

-- name: forget
DELETE FROM odograph.alert_evidence e USING odograph.alert a
WHERE a.alert_no = e.alert_no AND a.evidence_at < now() - make_interval(days => %(days)s)
