-- Statements of history.py.

-- name: take_due
-- Marks taken wait for a writer that has them, and writers wait for these: no change goes unseen.
DELETE FROM odograph.road_interval_due WHERE interval_start IN
    (SELECT interval_start FROM odograph.road_interval_due ORDER BY interval_start LIMIT %(limit)s FOR UPDATE)
RETURNING interval_start

-- name: rule
UPDATE odograph.road_rule SET tz = %(tz)s, min_vehicles = %(min_vehicles)s, small_count = %(small_count)s,
    network = %(network)s

-- name: stops_without_place
SELECT s.vehicle_id, s.began_at, s.lat_deg, s.lon_deg
FROM odograph.trip_stop s LEFT JOIN odograph.stop_place p USING (vehicle_id, began_at)
WHERE s.lat_deg IS NOT NULL AND s.lon_deg IS NOT NULL
  AND (p.lat_deg, p.lon_deg) IS DISTINCT FROM (s.lat_deg, s.lon_deg) LIMIT %(limit)s

-- name: place_stops
INSERT INTO odograph.stop_place (vehicle_id, began_at, lat_deg, lon_deg, h3_r10)
SELECT * FROM unnest(%(ids)s::text[], %(begins)s::timestamptz[], %(lats)s::float8[], %(lons)s::float8[],
                     %(cells)s::text[])
ON CONFLICT (vehicle_id, began_at) DO UPDATE SET lat_deg = excluded.lat_deg, lon_deg = excluded.lon_deg,
    h3_r10 = excluded.h3_r10

-- name: sum
-- Sums of the windows in the intervals that begin at ``starts``.
INSERT INTO odograph.{stem}_interval ({keys}, interval_start, vehicles, distance_m, time_s)
SELECT {keys}, s.start, greatest(max(vehicles), bit_count(bit_or(vehicle_bits)::bit(64))),
       sum(distance_m), sum(time_s)
FROM unnest(%(starts)s::timestamptz[]) AS s (start) JOIN odograph.{stem}_window w
  ON w.window_start >= s.start AND w.window_start < s.start + INTERVAL '5 minutes' AND {known}
GROUP BY {keys}, s.start ORDER BY {keys}, s.start
ON CONFLICT ({keys}, interval_start) DO UPDATE SET vehicles = excluded.vehicles,
    distance_m = excluded.distance_m, time_s = excluded.time_s

-- name: free_flow
-- The 85th percentile of speeds in ``off_peak`` hours of the week; of all hours where these are few.
INSERT INTO odograph.{stem}_baseline ({keys}, free_flow_kmh, windows, off_peak, updated_at)
SELECT {keys}, CASE WHEN off_count >= %(least)s THEN off_kmh ELSE all_kmh END,
       CASE WHEN off_count >= %(least)s THEN off_count ELSE all_count END,
       off_count >= %(least)s, now()
FROM (SELECT {keys}, count(*) FILTER (WHERE off_peak) AS off_count, count(*) AS all_count,
             percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) FILTER (WHERE off_peak) AS off_kmh,
             percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) AS all_kmh
      FROM (SELECT {keys}, distance_m / time_s * 3.6 AS kmh, odograph.hour_of_week(
                       interval_start, %(tz)s) = ANY(%(off_peak)s::smallint[]) AS off_peak
            FROM odograph.{stem}_interval
            WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day'
              AND interval_start < %(until)s AND time_s > 0) i
      GROUP BY {keys}) b
WHERE all_count >= %(least_at_all)s ORDER BY {keys}
ON CONFLICT ({keys}) DO UPDATE SET free_flow_kmh = excluded.free_flow_kmh, windows = excluded.windows,
    off_peak = excluded.off_peak, updated_at = excluded.updated_at

-- name: profile
-- Space-mean speed by hour of the week.
INSERT INTO odograph.{stem}_profile ({keys}, hour_of_week, intervals, speed_kmh)
SELECT {keys}, odograph.hour_of_week(interval_start, %(tz)s) AS hour_of_week, count(*),
       sum(distance_m) / sum(time_s) * 3.6
FROM odograph.{stem}_interval
WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day' AND interval_start < %(until)s
GROUP BY {keys}, hour_of_week HAVING sum(time_s) > 0 ORDER BY {keys}, hour_of_week
ON CONFLICT (hour_of_week, {keys}) DO UPDATE SET intervals = excluded.intervals,
    speed_kmh = excluded.speed_kmh

-- name: usual
SELECT edge_id, hour_of_week, speed_kmh FROM odograph.road_edge_profile WHERE network_no = %(no)s

-- name: seen
SELECT edge_id, greatest(max(vehicles), bit_count(bit_or(vehicle_bits)::bit(64)))::integer,
       sum(distance_m) / sum(time_s) * 3.6
FROM odograph.road_edge_window
WHERE network_no = %(no)s AND edge_id >= 0
  AND window_start > %(now)s - INTERVAL '5 minutes' AND window_start <= %(now)s
GROUP BY edge_id HAVING sum(time_s) > 0

-- name: position
SELECT event_time, lat_deg, lon_deg, heading_deg FROM odograph.vehicle_latest
WHERE vehicle_id = %(vehicle_id)s AND lat_deg IS NOT NULL AND lon_deg IS NOT NULL

-- name: open
SELECT request_no, vehicle_id, lat_deg, lon_deg FROM odograph.eta_request WHERE outcome IS NULL

-- name: arrived
UPDATE odograph.eta_request q SET outcome = 'arrived', arrived_at = a.at
FROM (SELECT request_no, min(at) AS at FROM (
        SELECT o.request_no, w.last_event AS at FROM odograph.eta_request o JOIN odograph.vehicle_window w
          ON w.vehicle_id = o.vehicle_id AND w.window_start > o.asked_at - INTERVAL '10 minutes'
         AND w.last_event > o.asked_at
        WHERE o.outcome IS NULL
          AND odograph.metres_between(w.lat_deg, w.lon_deg, o.lat_deg, o.lon_deg) <= %(arrival_m)s
        UNION ALL
        SELECT o.request_no, t.ended_at FROM odograph.eta_request o JOIN odograph.trip t
          ON t.vehicle_id = o.vehicle_id AND t.ended_at > o.asked_at AND t.phase <> 'open'
        WHERE o.outcome IS NULL
          AND odograph.metres_between(t.end_lat_deg, t.end_lon_deg, o.lat_deg, o.lon_deg) <= %(trip_end_m)s
      ) seen GROUP BY request_no) a
WHERE q.request_no = a.request_no

-- name: given_up
UPDATE odograph.eta_request SET outcome = 'given up'
WHERE outcome IS NULL AND asked_at < %(now)s - %(hours)s * INTERVAL '1 hour'

-- name: in_use
SELECT n.network_no, n.network, n.loaded_at FROM odograph.road_network n
WHERE n.network_no = odograph.road_network_in_use()

-- name: edges
SELECT edge_id, road_class, speed_limit_kmh, length_m, path FROM odograph.road_edge
WHERE network = %(network)s
