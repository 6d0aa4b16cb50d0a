-- Queries of a day's report; ``vehicle`` null: the whole fleet.

-- name: hours(since, until, vehicle)
-- Hours of the day with what was driven in each
SELECT bucket, count(*) AS vehicles, sum(frames)::bigint AS frames, sum(distance_m) / 1000 AS distance_km
FROM serving.vehicle_hour
WHERE bucket >= %(since)s AND bucket < %(until)s
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
GROUP BY bucket ORDER BY bucket

-- name: driving(since, until, vehicle)
-- A row a vehicle that reported, those with most harsh events first
SELECT d.*, coalesce(t.trips, 0) AS trips, coalesce(h.brake, 0) AS brake,
       coalesce(h.accelerate, 0) AS accelerate, coalesce(h.corner, 0) AS corner, s.score
FROM (SELECT vehicle_id, max(model) AS model, sum(frames)::bigint AS frames,
             sum(distance_m) / 1000 AS distance_km, sum(moving_s) AS moving_s, sum(idle_s) AS idle_s,
             sum(speeding_s) AS speeding_s, sum(fuel_l) AS fuel_l, sum(energy_kwh) AS energy_kwh
      FROM serving.vehicle_hour WHERE bucket >= %(since)s AND bucket < %(until)s
        AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
      GROUP BY vehicle_id) d
LEFT JOIN (SELECT vehicle_id, count(*) AS trips FROM serving.trip
           WHERE started_at >= %(since)s AND started_at < %(until)s GROUP BY 1) t USING (vehicle_id)
LEFT JOIN (SELECT vehicle_id, count(*) FILTER (WHERE kind = 'brake') AS brake,
                  count(*) FILTER (WHERE kind = 'accelerate') AS accelerate,
                  count(*) FILTER (WHERE kind = 'corner') AS corner
           FROM serving.harsh_event WHERE began_at >= %(since)s AND began_at < %(until)s
           GROUP BY 1) h USING (vehicle_id)
LEFT JOIN serving.driving_score s ON s.vehicle_id = d.vehicle_id AND s.bucket = %(since)s
ORDER BY coalesce(h.brake, 0) + coalesce(h.accelerate, 0) + coalesce(h.corner, 0) DESC,
         d.idle_s DESC NULLS LAST, d.vehicle_id
LIMIT 100000

-- name: incidents(since, until, vehicle)
-- Incidents that were open at any time of the day, the worst first; a vehicle's without the fleet's
SELECT incident_no, vehicle_id, cause, severity, message, opened_at, closed_at, alerts, vehicles,
       acknowledged_by, assigned_to
FROM serving.incident
WHERE incident_no IN (  -- all that its view knows of any other one is left out
      SELECT a.incident_no FROM serving.incident_alert a GROUP BY a.incident_no
      HAVING min(a.opened_at) < %(until)s AND (bool_or(a.active) OR max(a.cleared_at) >= %(since)s))
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), alerts DESC, opened_at
LIMIT 100000

-- name: trends(vehicle)
-- Lines that head for their thresholds, the nearest first: as known now
SELECT * FROM serving.vehicle_trend
WHERE days_to_threshold IS NOT NULL AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY days_to_threshold, vehicle_id, metric LIMIT 1000

-- name: codes(since, until, vehicle)
-- Trouble codes that were open at any time of the day
SELECT vehicle_id, nullif(split_part(rule, '.', 2), '') AS code, split_part(rule, '.', 1) AS rule,
       severity, active, opened_at, last_at, findings
FROM serving.alert
WHERE starts_with(rule, 'dtc_') AND opened_at < %(until)s
  AND (cleared_at IS NULL OR cleared_at >= %(since)s)
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at LIMIT 1000

-- name: roads(day)
-- Where traffic lost most time
SELECT * FROM serving.road_delay_on(%(day)s) WHERE delay_s > 0 ORDER BY delay_s DESC, road LIMIT 10

-- name: ledger(since, until, vehicle)
-- One row: the ledger of the day's hours (by UTC); of one vehicle only hours in which anything was not in time
SELECT count(*) AS hours, sum(generated)::bigint AS generated, sum(counted)::bigint AS counted,
       sum(late)::bigint AS late, sum(quarantined)::bigint AS quarantined,
       sum(duplicate)::bigint AS duplicate, sum(dead)::bigint AS dead, sum(missing)::bigint AS missing,
       sum(residual)::bigint AS residual
FROM (SELECT hour, NULL AS vehicle_id, generated, counted, late, quarantined, duplicate, dead, missing,
             residual FROM serving.audit_hour
      UNION ALL SELECT hour, vehicle_id, generated, counted, late, quarantined, duplicate, dead, missing,
                       NULL FROM serving.audit_vehicle) a
WHERE hour >= %(since)s AND hour < %(until)s AND vehicle_id IS NOT DISTINCT FROM %(vehicle)s

-- name: rejected(since, until, vehicle)
-- What was received on the day and went into no window at once, by kind and reason
SELECT kind, reason, sum(messages)::bigint AS frames, sum(open)::bigint AS open
FROM (SELECT CASE kind WHEN 'late' THEN 'late' ELSE 'quarantined' END AS kind,
             CASE WHEN kind <> 'late' THEN kind END AS reason, vehicle_id, received_at, 1 AS messages,
             CASE WHEN kind = 'late' THEN (NOT repaired)::integer END AS open
      FROM serving.off_time
      UNION ALL SELECT 'dead letter', reason, vehicle_id, received_at, messages, NULL
                FROM serving.dead_letter) f
WHERE received_at >= %(since)s AND received_at < %(until)s
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
GROUP BY kind, reason ORDER BY frames DESC, kind, reason LIMIT 100
