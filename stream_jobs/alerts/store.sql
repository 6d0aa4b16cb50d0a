-- Statements of store.py.

-- name: list
SELECT alert_no, severity, vehicle_id, model, rule, rule_version, opened_at, last_at, cleared_at, duration_s,
       value, worst_value, limit_value, active, acknowledged, acknowledged_by, late, silenced_until, message
FROM serving.alert_life
WHERE (%(every)s OR active) AND (%(rule)s::text IS NULL OR %(rule)s IN (rule, split_part(rule, '.', 1)))
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY active DESC, acknowledged_at IS NULL DESC, odograph.severity_rank(severity) DESC, opened_at DESC
LIMIT %(limit)s

-- name: history
SELECT change, event_time, recorded_at, severity, value, limit_value, by_whom, note
FROM serving.alert_change WHERE alert_no = %(number)s ORDER BY recorded_at, event_time

-- name: evidence
SELECT t0, boot_id, seq, received_at, verdict, kafka_topic, partition, log_offset, frame
FROM serving.alert_evidence WHERE alert_no = %(number)s ORDER BY t0, boot_id, seq

-- name: incidents
SELECT i.incident_no, i.severity, i.active, acknowledged_at, assigned_to, silenced_until, vehicle_id, model,
       vehicles, cause, alerts, i.opened_at, last_at, closed_at, duration_s, rules, incident_id, message
FROM serving.incident_listed l JOIN serving.incident i USING (incident_no)
WHERE (%(every)s OR l.active)
  AND (%(cause)s::text IS NULL OR %(cause)s IN (cause, split_part(cause, ' ', 1)))
  AND (%(vehicle)s::text IS NULL OR l.incident_no = ANY(ARRAY(
       SELECT a.incident_no FROM serving.incident_alert a WHERE a.vehicle_id = %(vehicle)s)))
ORDER BY l.active DESC, l.unseen DESC, l.severity_rank DESC, l.opened_at DESC
LIMIT %(limit)s

-- name: timeline
SELECT * FROM serving.incident_alert WHERE incident_no = %(number)s ORDER BY opened_at, alert_no

-- name: notes
SELECT at, by_whom, kind, text FROM serving.incident_note WHERE incident_no = %(number)s ORDER BY at

-- name: silence_incidents
SELECT * FROM dispatch.incident_silence(%(numbers)s::bigint[], %(seconds)s, %(by)s, %(why)s)

-- name: alert
SELECT * FROM serving.alert_life WHERE alert_no = %(number)s

-- name: silence
SELECT * FROM dispatch.silence(%(rule)s, %(vehicle)s, %(seconds)s, %(by)s, %(why)s)

-- name: rules
SELECT rule FROM serving.rule ORDER BY rule

-- name: end_silence
SELECT * FROM dispatch.end_silence(%(numbers)s::bigint[], %(by)s) AS silence_no

-- name: in_force
SELECT * FROM dispatch.silences_in_force()

-- name: incident
SELECT * FROM serving.incident WHERE incident_no = %(number)s
