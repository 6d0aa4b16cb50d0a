-- Incidents that were open at any time of the day, the worst first; a vehicle's without the fleet's
SELECT incident_no, vehicle_id, cause, severity, message, opened_at, closed_at, alerts, vehicles,
       acknowledged_by, assigned_to
FROM serving.incident
WHERE opened_at < %(until)s AND (closed_at IS NULL OR closed_at >= %(since)s)
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), alerts DESC, opened_at
LIMIT 100000
