-- Hours of the day with what was driven in each
SELECT bucket, count(*) AS vehicles, sum(frames)::bigint AS frames, sum(distance_m) / 1000 AS distance_km
FROM serving.vehicle_hour
WHERE bucket >= %(since)s AND bucket < %(until)s
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
GROUP BY bucket ORDER BY bucket
