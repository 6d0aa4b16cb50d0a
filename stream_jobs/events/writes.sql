-- Statements of writes.py.

-- name: offsets
-- Where to read on; a place in another log is none in this one, and that other log is told.
WITH before AS (
    SELECT topic, partition, log_generation FROM odograph.consumer_offset WHERE consumer = %(consumer)s
), held AS (
    INSERT INTO odograph.consumer_offset AS o (consumer, topic, partition, next_offset, log_generation)
    SELECT %(consumer)s, topic, partition, 0, log_generation
    FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer, log_generation text)
    ON CONFLICT (consumer, topic, partition) DO UPDATE SET
        region = excluded.region, log_generation = excluded.log_generation,
        next_offset = CASE WHEN o.log_generation IN ('', excluded.log_generation) THEN o.next_offset ELSE 0 END
    RETURNING topic, partition, next_offset, log_generation
)
SELECT h.topic, h.partition, h.next_offset,
       CASE WHEN b.log_generation NOT IN ('', h.log_generation) THEN b.log_generation END AS other
FROM held h LEFT JOIN before b USING (topic, partition)

-- name: move_offsets
UPDATE odograph.consumer_offset o SET next_offset = n.next_offset
FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer, held bigint, next_offset bigint)
WHERE o.consumer = %(consumer)s AND o.topic = n.topic AND o.partition = n.partition AND o.next_offset = n.held

-- name: clear_alerts
-- A rule that is known and has null is over by an end only: nothing lies after null.
UPDATE odograph.alert a SET cleared_at = a.last_at + reach.clear_for
FROM (
    SELECT b.alert_no, make_interval(secs => CASE
        WHEN %(clear_for_s)s::jsonb ? split_part(b.rule, '.', 1)
        THEN (%(clear_for_s)s::jsonb ->> split_part(b.rule, '.', 1))::double precision
        ELSE %(default_s)s END) AS clear_for
    FROM odograph.alert b WHERE b.cleared_at IS NULL
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

-- name: alert_columns
-- In the order of alerts.Alert.
alert_no, vehicle_id, rule, rule_version, severity, message,
(extract(epoch FROM opened_at) * 1000)::bigint AS opened_ms,
(extract(epoch FROM last_at) * 1000)::bigint AS last_ms,
(extract(epoch FROM cleared_at) * 1000)::bigint AS cleared_ms,
value, worst_value, limit_value AS limit, findings, late, lat_deg, lon_deg, first_alert_id,
(extract(epoch FROM since_at) * 1000)::bigint AS since_ms

-- name: who_cleared
-- Whoever ended it by hand did so as long as that end stands: the next one is the rule's.
cleared_by = CASE WHEN n.cleared_ms = (extract(epoch FROM a.cleared_at) * 1000)::bigint THEN a.cleared_by END

-- name: known_alerts
SELECT {alert_columns}
FROM odograph.alert a
JOIN jsonb_to_recordset(%(rows)s) AS k(vehicle_id text, rule text, from_ms bigint, to_ms bigint, clear_ms bigint)
     USING (vehicle_id, rule)
WHERE a.withdrawn_at IS NULL AND (a.cleared_at IS NULL
   OR (a.last_at >= to_timestamp((k.from_ms - k.clear_ms) / 1000.0)
       AND a.opened_at <= to_timestamp((k.to_ms + k.clear_ms) / 1000.0)))
FOR UPDATE OF a

-- name: rules_gone
UPDATE odograph.rule SET in_force = false WHERE in_force AND NOT rule = ANY(%(rules)s)

-- name: lock
SELECT pg_advisory_xact_lock(hashtext('odograph incidents'))

-- name: waiting
{alert} WHERE a.to_join AND a.withdrawn_at IS NULL ORDER BY a.alert_no LIMIT %(most)s FOR UPDATE OF a

-- name: near
{alert} WHERE a.vehicle_id = ANY(%(vehicles)s) AND i.cause = ANY(%(causes)s)
    AND a.last_at >= to_timestamp(%(low_ms)s / 1000.0) AND a.opened_at <= to_timestamp(%(high_ms)s / 1000.0)
    AND a.withdrawn_at IS NULL AND NOT a.to_join
UNION
{alert} WHERE i.cause = ANY(%(fleets)s) AND a.withdrawn_at IS NULL AND NOT a.to_join
    AND a.opened_at BETWEEN to_timestamp(%(low_ms)s / 1000.0) AND to_timestamp(%(high_ms)s / 1000.0)

-- name: alert
SELECT a.alert_no, a.vehicle_id, a.rule, (extract(epoch FROM a.opened_at) * 1000)::bigint AS from_ms,
       (extract(epoch FROM a.last_at) * 1000)::bigint AS to_ms, a.first_alert_id, a.to_join,
       a.incident_no, i.incident_id, i.cause, i.incident_no IS NOT NULL AND i.vehicle_id IS NULL AS fleet
FROM odograph.alert a LEFT JOIN odograph.incident i USING (incident_no)

-- name: open
INSERT INTO odograph.incident (incident_id, vehicle_id, cause)
SELECT n.incident_id, n.vehicle_id, n.cause
FROM jsonb_to_recordset(%(rows)s) AS n(incident_id text, vehicle_id text, cause text)
RETURNING incident_no, incident_id

-- name: assign
UPDATE odograph.alert a SET incident_no = n.incident_no, to_join = false
FROM jsonb_to_recordset(%(rows)s) AS n(alert_no bigint, incident_no bigint) WHERE a.alert_no = n.alert_no

-- name: move_alerts
UPDATE odograph.alert a SET incident_no = n.kept
FROM jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint) WHERE a.incident_no = n.gone

-- name: lock_both
-- Whoever is about to write a note on one that goes is waited for: the note moves along.
SELECT FROM odograph.incident i, jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint)
WHERE i.incident_no IN (n.kept, n.gone) FOR UPDATE OF i

-- name: move_notes
UPDATE odograph.incident_note o SET incident_no = n.kept
FROM jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint) WHERE o.incident_no = n.gone

-- name: move_assignee
UPDATE odograph.incident i SET assigned_to = coalesce(i.assigned_to, g.assigned_to)
FROM (SELECT n.kept, min(o.assigned_to) AS assigned_to
      FROM jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint)
      JOIN odograph.incident o ON o.incident_no = n.gone GROUP BY n.kept) g
WHERE i.incident_no = g.kept

-- name: note_joined
INSERT INTO odograph.incident_note (incident_no, kind, text)
SELECT kept, 'joined', 'took in ' || count(*) || ': ' || left(string_agg(gone::text, ', ' ORDER BY gone), 400)
FROM jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint) GROUP BY kept

-- name: delete_gone
DELETE FROM odograph.incident i
USING jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint) WHERE i.incident_no = n.gone

-- name: of_fleet
WITH made AS (UPDATE odograph.incident SET vehicle_id = NULL
              WHERE incident_no = ANY(%(numbers)s) AND vehicle_id IS NOT NULL RETURNING incident_no)
INSERT INTO odograph.incident_note (incident_no, kind, text)
SELECT incident_no, 'fleet', 'many vehicles at once: an incident of the fleet' FROM made

-- The ends of statements that insert rows.

-- name: newer_status
ON CONFLICT (vehicle_id) DO UPDATE
SET model = coalesce(excluded.model, v.model), powertrain = coalesce(excluded.powertrain, v.powertrain),
    vehicle_class = coalesce(excluded.vehicle_class, v.vehicle_class), state = excluded.state,
    state_at = excluded.state_at, boot_id = excluded.boot_id
WHERE excluded.state_at >= v.state_at

-- name: new_letter
-- A copy of the log, in another region, holds it at another place.
WHERE NOT EXISTS (
    SELECT FROM odograph.dead_letter d WHERE d.received_at = to_timestamp(n.received_ms / 1000.0)
      AND d.digest = n.digest AND d.reason = n.reason AND d.log_generation NOT IN ('', n.log_generation))
ON CONFLICT DO NOTHING

-- name: rule_in_force
ON CONFLICT (rule) DO UPDATE SET in_force = true, noted_at = now(), {columns}
