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
