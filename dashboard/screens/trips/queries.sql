-- Queries about trips: lists, one trip with its path, and what happened on it.

-- name: {wanted}
FROM serving.trip
WHERE (%(day)s::date IS NOT NULL OR started_at > now() - make_interval(hours => %(hours)s))
  AND (%(day)s::date IS NULL OR (started_at >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
                                 AND started_at < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s))
  AND (%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))
  AND (NOT %(harsh)s OR harsh_brake + harsh_accelerate + harsh_corner > 0)

-- name: trips(vehicles, hours, day, tz, harsh, most = 500)
-- Trips begun within ``hours``, or on a local ``day``, newest first; ``harsh``: with such an event
SELECT * {wanted} ORDER BY started_at DESC, vehicle_id LIMIT %(most)s

-- name: trip_sums(vehicles, hours, day, tz, harsh)
-- One row: all trips that ``trips`` is about; fuel over the distance of the trips that burnt fuel
SELECT count(*) AS trips, count(DISTINCT vehicle_id) AS vehicles, sum(distance_m) / 1000 AS distance_km,
       sum(duration_s) AS duration_s, sum(idle_s) / nullif(sum(duration_s), 0) * 100 AS idle_pct,
       sum(fuel_l) / nullif(sum(distance_m) FILTER (WHERE fuel_l > 0), 0) * 100000 AS fuel_l_per_100km,
       sum(energy_kwh) FILTER (WHERE powertrain = 'electric') * 100000
           / nullif(sum(distance_m) FILTER (WHERE powertrain = 'electric' AND energy_kwh IS NOT NULL), 0)
           AS energy_kwh_per_100km,
       sum(harsh_brake + harsh_accelerate + harsh_corner) / nullif(sum(distance_m), 0) * 100000
           AS harsh_per_100km
{wanted}

-- name: trip(trip_id)
-- One trip: one row or none
SELECT * FROM serving.trip WHERE trip_id = %(trip_id)s LIMIT 1

-- name: trip_points(vehicle_id, start, end, most)
-- Windows of a vehicle that overlap a time, ``step_s`` apart; over ``most`` of them every n-th is kept
SELECT window_start, window_end, lat_deg, lon_deg, heading_deg, speed_mean_kmh, speed_max_kmh,
       speed_limit_kmh, every * extract(epoch FROM window_end - window_start)::double precision AS step_s
FROM (SELECT *, row_number() OVER (ORDER BY window_start) AS place,
             ceil(count(*) OVER () / %(most)s::double precision)::integer AS every
      FROM serving.vehicle_window
      WHERE vehicle_id = %(vehicle_id)s
        AND window_start >= %(start)s::timestamptz - INTERVAL '5 minutes' AND window_start < %(end)s
        AND window_end > %(start)s) w
WHERE place %% every = 0
ORDER BY window_start

-- name: speed_ratio(cells, sectors, speeds_kmh)
-- Each speed over the free flow of its cell and direction, in order: ratio, band, free flow
SELECT place, free_flow_kmh, speed_ratio, congestion
FROM serving.speed_ratio(%(cells)s::text[], %(sectors)s::smallint[], %(speeds_kmh)s::double precision[])

-- name: harsh_events(vehicle_id, start, end)
-- Harsh events of a vehicle begun within a time
SELECT * FROM serving.harsh_event
WHERE vehicle_id = %(vehicle_id)s AND began_at BETWEEN %(start)s AND %(end)s ORDER BY began_at LIMIT 200

-- name: idle_episodes(vehicle_id, start, end)
-- Idling of a vehicle begun within a time
SELECT * FROM serving.idle_episode
WHERE vehicle_id = %(vehicle_id)s AND began_at BETWEEN %(start)s AND %(end)s ORDER BY began_at LIMIT 200

-- name: stops_around(vehicle_id, start, end)
-- Stops before, within and after a trip: those that touch its time
SELECT began_at, ended_at, extract(epoch FROM dwell)::double precision AS dwell_s FROM serving.trip_stop
WHERE vehicle_id = %(vehicle_id)s AND began_at <= %(end)s::timestamptz + INTERVAL '1 second'
  AND (ended_at IS NULL OR ended_at >= %(start)s::timestamptz - INTERVAL '1 second')
ORDER BY began_at LIMIT 200

-- name: trip_alerts(vehicle_id, start, end)
-- Alerts of a vehicle that were raised within a time
SELECT rule, severity, message, opened_at, lat_deg, lon_deg FROM serving.alert_life
WHERE vehicle_id = %(vehicle_id)s AND opened_at BETWEEN %(start)s AND %(end)s
ORDER BY opened_at LIMIT 200
