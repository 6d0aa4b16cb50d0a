-- Statements of trends.py.

-- name: due
SELECT h.vehicle_id, h.as_of
FROM odograph.vehicle_latest l
LEFT JOIN odograph.vehicle_baseline b USING (vehicle_id)
CROSS JOIN LATERAL (
    SELECT vehicle_id, bucket AS as_of FROM odograph.vehicle_hour
    WHERE vehicle_id = l.vehicle_id ORDER BY bucket DESC LIMIT 1
) h
WHERE b.as_of IS NULL OR b.as_of <> h.as_of OR b.computed_at < now() - INTERVAL '1 hour'
ORDER BY b.computed_at NULLS FIRST, h.vehicle_id
LIMIT %(at_once)s

-- name: hours
-- Of each vehicle those up to its own newest one: others of the pass may go on.
SELECT vehicle_id, extract(epoch FROM bucket)::double precision, {columns}
FROM unnest(%(vehicles)s::text[], %(as_of)s::timestamptz[]) AS d (vehicle_id, as_of)
JOIN odograph.vehicle_hour USING (vehicle_id)
WHERE bucket > as_of - make_interval(days => %(days)s)
ORDER BY vehicle_id, bucket

-- name: baselines
INSERT INTO odograph.vehicle_baseline (vehicle_id, as_of, computed_at, coolant_p99_c, coolant_minutes)
SELECT d.vehicle_id, d.as_of, now(), CASE WHEN m.minutes >= 60 THEN m.p99 END, m.minutes
FROM unnest(%(vehicles)s::text[], %(as_of)s::timestamptz[]) AS d (vehicle_id, as_of)
CROSS JOIN LATERAL (
    SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY coolant_mean_c) AS p99,
           count(coolant_mean_c) AS minutes
    FROM odograph.vehicle_minute
    WHERE vehicle_id = d.vehicle_id AND bucket >= d.as_of - INTERVAL '30 days' AND bucket < d.as_of
      AND rpm_mean > 500
) m
ORDER BY d.vehicle_id
ON CONFLICT (vehicle_id) DO UPDATE SET as_of = excluded.as_of, computed_at = excluded.computed_at,
    coolant_p99_c = excluded.coolant_p99_c, coolant_minutes = excluded.coolant_minutes
