-- Queries about incidents, alerts, rules and silences; their lists are in ``shared.queries``.

-- name: alert(alert_no)
-- All that is known of one alert: one row or none; its latencies in ms; its incident if the reader may see it
SELECT l.*, v.verdict, v.crash_id,
       (SELECT c.boot_id FROM serving.crash_record c
        WHERE c.vehicle_id = l.vehicle_id AND c.crash_id = v.crash_id AND c.event_time
              BETWEEN l.opened_at - INTERVAL '1 second' AND l.last_at + INTERVAL '1 second'
        ORDER BY c.event_time LIMIT 1) AS crash_boot_id,
       (SELECT i.incident_no FROM serving.incident i WHERE i.incident_no = (
            SELECT a.incident_no FROM serving.incident_alert a WHERE a.alert_no = %(alert_no)s)) AS incident_no
FROM serving.alert_life l LEFT JOIN serving.alert_verdict v USING (alert_no)
WHERE l.alert_no = %(alert_no)s

-- name: timeline(incident_no)
-- The alerts of an incident in the order of their time; one of the fleet has several of a vehicle
SELECT * FROM serving.incident_alert WHERE incident_no = %(incident_no)s
ORDER BY opened_at, alert_no LIMIT 5000

-- name: notes(incident_no)
-- What was done and said about an incident
SELECT * FROM serving.incident_note WHERE incident_no = %(incident_no)s ORDER BY at LIMIT 500

-- name: assignees
-- Who has an incident, or had one
SELECT DISTINCT assigned_to FROM serving.incident WHERE assigned_to IS NOT NULL ORDER BY 1 LIMIT 200

-- name: alert_changes(alert_no)
-- What happened to an alert, the newest 200 changes in their order
SELECT * FROM (
    SELECT * FROM serving.alert_change WHERE alert_no = %(alert_no)s
    ORDER BY recorded_at DESC, event_time DESC LIMIT 200) c
ORDER BY recorded_at, event_time

-- name: alert_evidence(alert_no)
-- The frames around an alert (all that are kept) as the vehicle sent them, in the order of their time
SELECT * FROM serving.alert_evidence WHERE alert_no = %(alert_no)s
ORDER BY t0, boot_id, seq LIMIT 300

-- name: rule_days(start, end, zone)
-- Alerts opened from ``start`` to before ``end``, by rule and local day; ``worst``: gravest severity
SELECT split_part(rule, '.', 1) AS rule, (opened_at AT TIME ZONE %(zone)s)::date AS day,
       count(*) AS alerts,
       count(*) FILTER (WHERE active) AS active,
       count(*) FILTER (WHERE active AND acknowledged_at IS NULL) AS unseen,
       min(array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity)) AS worst,
       max(opened_at) AS last_opened_at
FROM serving.alert_triage
WHERE opened_at >= %(start)s AND opened_at < %(end)s
GROUP BY 1, 2 ORDER BY 1, 2

-- name: silences
-- silences, those in force first, then the newest
SELECT * FROM serving.alert_silence ORDER BY in_force DESC, from_at DESC LIMIT 200
