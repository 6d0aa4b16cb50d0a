-- Statements of writes.py.

-- name: ensure_offsets
-- A place in another log is none in this one.
INSERT INTO odograph.consumer_offset AS o (consumer, topic, partition, next_offset, log_generation)
SELECT %(consumer)s, topic, partition, 0, log_generation
FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer, log_generation text)
ON CONFLICT (consumer, topic, partition) DO UPDATE SET log_generation = excluded.log_generation,
    next_offset = CASE WHEN o.log_generation IN ('', excluded.log_generation) THEN o.next_offset ELSE 0 END

-- name: offsets
SELECT topic, partition, next_offset, log_generation FROM odograph.consumer_offset
WHERE consumer = %(consumer)s

-- name: move_offsets
UPDATE odograph.consumer_offset o SET next_offset = n.next_offset
FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer, held bigint, next_offset bigint)
WHERE o.consumer = %(consumer)s AND o.topic = n.topic AND o.partition = n.partition AND o.next_offset = n.held

-- name: clear_alerts
UPDATE odograph.alert a SET cleared_at = a.last_at + reach.clear_for
FROM (
    SELECT b.alert_no, make_interval(secs => coalesce(
        (%(clear_for_s)s::jsonb ->> split_part(b.rule, '.', 1))::double precision,
        %(default_s)s)) AS clear_for
    FROM odograph.alert b WHERE b.cleared_at IS NULL AND NOT split_part(b.rule, '.', 1) = ANY(%(kept)s)
) reach, odograph.vehicle_latest l
WHERE a.alert_no = reach.alert_no AND a.cleared_at IS NULL AND l.vehicle_id = a.vehicle_id
  AND l.event_time > a.last_at + reach.clear_for

-- name: mark_silenced
UPDATE odograph.alert a SET silence_no = s.silence_no
FROM (SELECT DISTINCT ON (b.alert_no) b.alert_no, t.silence_no
      FROM odograph.alert b
      JOIN odograph.alert_silence t ON now() >= t.from_at AND now() < t.until_at
       AND (t.vehicle_id IS NULL OR t.vehicle_id = b.vehicle_id)
       AND (t.rule IS NULL OR t.rule IN (b.rule, split_part(b.rule, '.', 1)))
       AND (t.cause IS NULL OR EXISTS (
            SELECT FROM odograph.incident i WHERE i.incident_no = b.incident_no AND i.cause = t.cause))
      WHERE b.cleared_at IS NULL AND b.silence_no IS NULL
      ORDER BY b.alert_no, t.until_at DESC) s
WHERE a.alert_no = s.alert_no
