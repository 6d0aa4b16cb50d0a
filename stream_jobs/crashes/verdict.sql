-- Statements of verdict.py.

-- name: due
-- With ``final_too`` also those that become final, and those that only repaired windows can change: the more records
-- there are, the dearer.
WITH fleet AS (SELECT max(event_time) AS now FROM odograph.vehicle_latest)
SELECT c.vehicle_id, c.boot_id, c.crash_id, (extract(epoch FROM c.event_time) * 1000)::bigint AS event_ms,
       c.lat_deg, c.lon_deg, coalesce(c.raw, c.record::text) AS record, b.basis,
       c.signature = 'invalid' AS forged,
       fleet.now >= c.event_time + make_interval(secs => %(final_s)s) AS final
FROM odograph.crash_record c
CROSS JOIN fleet
LEFT JOIN odograph.vehicle_latest l USING (vehicle_id)
LEFT JOIN odograph.crash_verdict v USING (vehicle_id, boot_id, crash_id)
CROSS JOIN LATERAL (
    SELECT format('%%s/%%s/%%s', count(*), sum(w.samples), sum(w.revision)) AS basis
    FROM odograph.vehicle_window w WHERE w.vehicle_id = c.vehicle_id
     AND w.window_start >= c.event_time - make_interval(secs => %(own_before_s)s)
     AND w.window_start < c.event_time + make_interval(secs => %(wait_s)s)
) b
WHERE c.event_time > fleet.now - make_interval(days => %(kept_days)s)
  AND (l.event_time >= c.event_time + make_interval(secs => %(wait_s)s)
       OR fleet.now >= c.event_time + make_interval(secs => %(wait_s)s + %(silent_s)s))
  AND (%(final_too)s OR v.final IS NOT TRUE)
  AND (v.verdict IS NULL OR v.basis <> b.basis
       OR (%(final_too)s AND NOT v.final AND fleet.now >= c.event_time + make_interval(secs => %(final_s)s)))
ORDER BY c.event_time, c.vehicle_id, c.boot_id, c.crash_id LIMIT %(at_once)s

-- name: own
SELECT w.vehicle_id, (extract(epoch FROM w.window_start) * 1000)::bigint AS start_ms,
       (extract(epoch FROM w.window_start) * 1000)::bigint + w.window_s * 1000 AS end_ms,
       w.speed_max_kmh, w.speed_last_kmh, w.distance_m, w.moving_s, w.idle_s
FROM odograph.vehicle_window w
WHERE w.vehicle_id = %(vehicle_id)s
  AND w.window_start >= to_timestamp(%(event_ms)s / 1000.0) - make_interval(secs => %(before_s)s)
  AND w.window_start < to_timestamp(%(event_ms)s / 1000.0) + make_interval(secs => %(after_s)s)
ORDER BY w.window_start

-- name: others
-- Everybody's windows of some minutes are read once for all records of these minutes.
WITH record AS (
    SELECT * FROM jsonb_to_recordset(%(records)s::jsonb)
        AS r(number integer, vehicle_id text, event_ms bigint, lat_deg double precision, lon_deg double precision)
), around AS MATERIALIZED (
    SELECT w.vehicle_id, (extract(epoch FROM w.window_start) * 1000)::bigint AS start_ms, w.window_s,
           w.lat_deg, w.lon_deg, w.speed_max_kmh, w.speed_last_kmh, w.distance_m, w.moving_s, w.idle_s
    FROM odograph.vehicle_window w
    WHERE w.window_start >= to_timestamp(%(first_ms)s / 1000.0) - make_interval(secs => %(before_s)s)
      AND w.window_start < to_timestamp(%(last_ms)s / 1000.0) + make_interval(secs => %(after_s)s)
      AND w.lat_deg BETWEEN %(south_deg)s - %(reach_deg)s AND %(north_deg)s + %(reach_deg)s
)
SELECT r.number, w.vehicle_id, w.start_ms, w.start_ms + w.window_s * 1000 AS end_ms,
       w.speed_max_kmh, w.speed_last_kmh, w.distance_m, w.moving_s, w.idle_s
FROM record r JOIN around w
  ON w.start_ms >= r.event_ms - %(before_s)s * 1000 AND w.start_ms < r.event_ms + %(after_s)s * 1000
 AND w.vehicle_id <> r.vehicle_id
 AND power(w.lat_deg - r.lat_deg, 2) + power((w.lon_deg - r.lon_deg) * cosd(r.lat_deg), 2)
     <= power(%(reach_deg)s, 2)
ORDER BY r.number, w.vehicle_id, w.start_ms

-- name: newer
-- The end of the statement that stores a verdict.
ON CONFLICT (vehicle_id, boot_id, crash_id) DO UPDATE SET
    verdict = excluded.verdict, reasons = excluded.reasons, figures = excluded.figures,
    basis = excluded.basis, final = v.final OR excluded.final,
    revision = v.revision + (v.verdict <> excluded.verdict OR v.reasons <> excluded.reasons
                             OR v.figures <> excluded.figures)::integer,
    decided_at = now()
