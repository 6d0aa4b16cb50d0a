-- Queries about trips: lists, one trip with its path, and what happened on it.

-- name: trip(trip_id)
-- One trip: one row or none
SELECT * FROM serving.trip WHERE trip_id = %(trip_id)s LIMIT 1

-- name: trip_points(vehicle_id, start, end, most)
-- Windows of a vehicle that overlap a time; over ``most`` of them every n-th is kept
SELECT window_start, window_end, lat_deg, lon_deg, heading_deg, speed_mean_kmh, speed_max_kmh,
       speed_limit_kmh, moving_s
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
