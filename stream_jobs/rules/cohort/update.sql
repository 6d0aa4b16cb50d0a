-- Statements of update.py.

-- name: reached
-- No window that ends before the first can change any more, but for late frames that are repaired; the second is
-- how far it got. Null where not known.
SELECT (SELECT (extract(epoch FROM watermark - make_interval(secs => %(wait_s)s)) * 1000)::bigint
        FROM odograph.query_progress WHERE query = 'telemetry' AND watermark IS NOT NULL ORDER BY at DESC LIMIT 1),
       (SELECT (extract(epoch FROM done_until) * 1000)::bigint FROM odograph.cohort_progress)

-- name: first
SELECT coalesce((extract(epoch FROM min(bucket)) * 1000)::bigint, %(until_ms)s) FROM odograph.vehicle_minute
WHERE bucket >= to_timestamp(%(from_ms)s / 1000.0) AND bucket < to_timestamp(%(until_ms)s / 1000.0)

-- name: open
-- The first minute that is not rolled up yet.
SELECT coalesce((extract(epoch FROM min(minute)) * 1000)::bigint, %(until_ms)s) FROM odograph.window_change
WHERE minute >= to_timestamp(%(from_ms)s / 1000.0) AND minute < to_timestamp(%(until_ms)s / 1000.0)

-- name: states
SELECT metric, vehicle_id, side, streak, calm, raised, since_ms, last_ms FROM odograph.cohort_state

-- name: buckets
-- Vehicles by bucket with what makes their cohort and a column a metric; by bucket and vehicle.
-- rolled: the columns of a bucket out of its minutes, as those of an hour are; metrics: values over them.
SELECT (extract(epoch FROM start) * 1000)::bigint, r.vehicle_id, v.model, engine_load_mean_pct,
       ambient_mean_c, {metrics}
FROM (SELECT vehicle_id, {rolled},
             date_bin(make_interval(mins => %(minutes)s), bucket, '2000-01-01 00:00+00') AS start
      FROM odograph.vehicle_minute
      WHERE bucket >= to_timestamp(%(from_ms)s / 1000.0) AND bucket < to_timestamp(%(until_ms)s / 1000.0)
      GROUP BY vehicle_id, start) r
JOIN odograph.vehicle v USING (vehicle_id)
WHERE v.model IS NOT NULL ORDER BY 1, 2

-- name: forget
DELETE FROM odograph.cohort_residual
WHERE bucket < to_timestamp(%(until_ms)s / 1000.0) - make_interval(days => %(kept_days)s)

-- name: begin
INSERT INTO odograph.cohort_progress (done_until) VALUES (to_timestamp(%(until_ms)s / 1000.0))
ON CONFLICT DO NOTHING

-- name: move
UPDATE odograph.cohort_progress SET done_until = to_timestamp(%(until_ms)s / 1000.0)
WHERE done_until = to_timestamp(%(held_ms)s / 1000.0)
