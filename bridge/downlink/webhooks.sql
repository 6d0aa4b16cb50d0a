-- Statements of webhooks.py.

-- name: known
SELECT alert_id FROM odograph.webhook_settled WHERE destination = %s AND alert_id = ANY(%s)

-- name: told
SELECT alert_id, vehicle_id, rule, incident_id, fleet, severity, received_ms
FROM odograph.webhook_settled WHERE destination = %s AND told ORDER BY received_ms DESC LIMIT 100000

-- name: note
INSERT INTO odograph.webhook_settled
    (destination, told, alert_id, vehicle_id, rule, incident_id, fleet, severity, received_ms)
VALUES (%(destination)s, %(told)s, %(alert_id)s, %(vehicle_id)s, %(rule)s, %(incident_id)s, %(fleet)s,
        %(severity)s, %(received_ms)s) ON CONFLICT DO NOTHING

-- name: forget
-- After longer than the topic keeps alerts.
DELETE FROM odograph.webhook_settled
WHERE destination = %s AND alert_id <> '' AND at < now() - INTERVAL '31 days'
