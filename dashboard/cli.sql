-- name: trips
-- Trips that lie in [since, until) at least in part; of many the newest
SELECT vehicle_id, trip_id, phase, started_at, ended_at, distance_m, unseen_m, known_share, duration_s, moving_s,
       standing_s, idle_s, halts, speed_mean_kmh, speed_max_kmh, speeding_s, fuel_l, fuel_l_per_100km, energy_kwh, energy_kwh_per_100km,
       co2_g, harsh_brake, harsh_accelerate, harsh_corner, start_lat_deg, start_lon_deg, end_lat_deg, end_lon_deg,
       start_h3_r7, end_h3_r7, revision
FROM serving.trip
WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
  AND started_at < %(until)s AND ended_at >= %(since)s
ORDER BY started_at DESC LIMIT %(most)s
