-- Trouble codes that were open at any time of the day
SELECT vehicle_id, nullif(split_part(rule, '.', 2), '') AS code, split_part(rule, '.', 1) AS rule,
       severity, active, opened_at, last_at, findings
FROM serving.alert
WHERE starts_with(rule, 'dtc_') AND opened_at < %(until)s
  AND (cleared_at IS NULL OR cleared_at >= %(since)s)
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at LIMIT 1000
