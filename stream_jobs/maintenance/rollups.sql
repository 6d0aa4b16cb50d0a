-- Statements of rollups.py.

-- name: note_changes
-- In the transaction that writes windows: whoever sees the line sees them too.
INSERT INTO odograph.window_change (minute, vehicles)
SELECT date_trunc('minute', window_start), array_agg(DISTINCT vehicle_id)
FROM staged_vehicle_window GROUP BY 1

-- name: create_due
CREATE TEMP TABLE IF NOT EXISTS rollup_due (unit text, vehicle_id text, bucket timestamptz)
ON COMMIT DELETE ROWS

-- name: take
-- A minute whose windows have gone stays as it is, whatever late frame brings one of them back.
WITH taken AS (
    DELETE FROM odograph.window_change
    WHERE change_no IN (SELECT change_no FROM odograph.window_change ORDER BY change_no LIMIT %(lines)s)
    RETURNING minute, vehicles
)
INSERT INTO rollup_due SELECT DISTINCT 'minute', vehicle_id, minute FROM taken, unnest(vehicles) AS vehicle_id
WHERE minute >= coalesce(
    (SELECT dropped_before FROM odograph.retention WHERE table_name = 'vehicle_window'), '-infinity')

-- name: lift
INSERT INTO rollup_due
SELECT DISTINCT %(unit)s, vehicle_id, date_trunc(%(unit)s, bucket, %(tz)s)
FROM rollup_due WHERE unit = %(below)s

-- name: spans
-- Due buckets that lie close together: the first, the last, the end of the rows below them (a day may have
-- 25 hours), and how many.
SELECT min(bucket), max(bucket),
       max(bucket) + ('1 ' || %(unit)s)::interval
           + CASE %(unit)s WHEN 'day' THEN interval '2 hours' ELSE '0' END,
       sum(vehicles)
FROM (
    SELECT *, count(*) FILTER (WHERE far) OVER (ORDER BY bucket) AS span FROM (
        SELECT bucket, count(*) AS vehicles,
               bucket > lag(bucket) OVER (ORDER BY bucket) + 10 * ('1 ' || %(unit)s)::interval AS far
        FROM rollup_due WHERE unit = %(unit)s GROUP BY bucket
    ) b
) s
GROUP BY span

-- name: fleet
-- The due minutes of the fleet, made of the vehicles' minutes; sums are of whole steps (rollups.py).
INSERT INTO odograph.fleet_minute (minute, vehicles, moving, on_road, frames, samples, distance_m, moving_s, idle_s,
    fuel_l, fuel_distance_m, energy_kwh, energy_distance_m)
SELECT m.bucket, count(*), count(*) FILTER (WHERE moving_s > 0),
       count(*) FILTER (WHERE moving_s > 0 OR idle_s > 0), sum(frames), sum(samples), {distance_m}, {moving_s},
       {idle_s}, {fuel_l}, {fuel_distance_m}, {energy_kwh}, {energy_distance_m}
FROM (SELECT DISTINCT bucket FROM rollup_due
      WHERE unit = 'minute' AND bucket BETWEEN %(since)s AND %(last)s) d
JOIN odograph.vehicle_minute m ON m.bucket = d.bucket
WHERE m.bucket >= %(since)s AND m.bucket < %(until)s
GROUP BY m.bucket ORDER BY m.bucket
ON CONFLICT (minute) DO UPDATE SET
    vehicles = excluded.vehicles, moving = excluded.moving, on_road = excluded.on_road, frames = excluded.frames,
    samples = excluded.samples, distance_m = excluded.distance_m, moving_s = excluded.moving_s, idle_s = excluded.idle_s,
    fuel_l = excluded.fuel_l, fuel_distance_m = excluded.fuel_distance_m, energy_kwh = excluded.energy_kwh, energy_distance_m = excluded.energy_distance_m

-- name: one_at_a_time
-- `odograph recompute` rolls up too: of two passes at once the older one could have the last word.
SELECT pg_advisory_xact_lock(7012)

-- name: nested_loops
-- PostgreSQL's statistics know nothing of the newest windows: it takes them for one row, and reads all of the
-- span again for each vehicle.
SELECT set_config('enable_nestloop', %(loop)s, true)

-- name: zone
SELECT tz FROM odograph.rollup_zone

-- name: forget_zone
DELETE FROM odograph.rollup_zone

-- name: note_zone
INSERT INTO odograph.rollup_zone (tz) VALUES (%(tz)s)

-- name: drop_hours
DELETE FROM odograph.vehicle_hour WHERE bucket >= odograph.minutes_from()

-- name: drop_days
DELETE FROM odograph.vehicle_day WHERE bucket >= odograph.minutes_from()

-- name: note_minutes
INSERT INTO odograph.window_change (minute, vehicles)
SELECT bucket, array_agg(vehicle_id) FROM odograph.vehicle_minute WHERE bucket >= odograph.minutes_from()
GROUP BY bucket

-- name: level
INSERT INTO odograph.vehicle_{unit} (vehicle_id, bucket, {names})
SELECT vehicle_id, d.bucket, {sources}
FROM rollup_due d JOIN odograph.vehicle_{below} s USING (vehicle_id)
WHERE d.unit = '{unit}' AND d.bucket BETWEEN %(since)s AND %(last)s AND {time} >= d.bucket AND {time} < {end}
  AND {time} >= %(since)s AND {time} < %(until)s
GROUP BY vehicle_id, d.bucket ORDER BY vehicle_id, d.bucket {on_conflict}
