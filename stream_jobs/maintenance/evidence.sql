-- Statements of evidence.py.

-- name: due
SELECT a.alert_no, a.vehicle_id, (extract(epoch FROM a.opened_at) * 1000)::bigint,
       (extract(epoch FROM greatest(a.opened_at, e.received_at)) * 1000)::bigint
FROM odograph.alert a JOIN odograph.alert_event e ON e.alert_id = a.first_alert_id
WHERE a.evidence_at IS NULL AND greatest(a.opened_at, e.received_at) <= to_timestamp(%(until_ms)s / 1000.0)
ORDER BY a.opened_at LIMIT %(limit)s

-- name: frames
-- Of copies the first; jsonb cannot hold a NUL. The constants let whole groups of rows be passed over.
SELECT alert_no, t0_ms, boot_id, seq, received_ms, verdict, topic AS kafka_topic, partition, log_offset,
       log AS log_generation, value AS frame
FROM (SELECT * FROM {records} JOIN due USING (vehicle_id)
      WHERE verdict IN ('ok', 'late') AND t0_ms <= $last_ms AND t0_ms + span_ms >= $first_ms
        AND t0_ms <= opened_ms + $around_ms AND t0_ms + span_ms >= opened_ms - $around_ms
      QUALIFY row_number() OVER (PARTITION BY alert_no, boot_id, seq ORDER BY t0_ms, received_ms) = 1)
WHERE NOT contains(decode(frame), '\u0000')
QUALIFY row_number() OVER (PARTITION BY alert_no ORDER BY abs(t0_ms - opened_ms)) <= $most

-- name: done
UPDATE odograph.alert a SET evidence_at = now(), evidence_frames = n.frames
FROM jsonb_to_recordset(%(rows)s) AS n("alert_no" bigint, "frames" integer) WHERE a.alert_no = n.alert_no

-- name: forget
DELETE FROM odograph.alert_evidence e USING odograph.alert a
WHERE a.alert_no = e.alert_no AND a.evidence_at < now() - make_interval(days => %(days)s)
