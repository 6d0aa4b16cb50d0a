-- Queries about traffic at any stored moment, about where trips go, and about predicted arrivals.

-- name: road_span
-- One row: the oldest and the newest five minutes of traffic that are stored
SELECT first_at, last_at FROM serving.road_span

-- name: road_hours(day)
-- A local day by hour, over all cells: speed, and time taken over that at free flow
SELECT * FROM serving.road_hour_on(%(day)s) ORDER BY hour

-- name: cells_at(at)
-- Traffic by cell and direction in the five minutes up to a moment
SELECT cell, heading_sector, vehicles, speed_kmh, source, free_flow_kmh, speed_ratio, congestion
FROM serving.road_cell_at(%(at)s) ORDER BY vehicles DESC, cell, heading_sector LIMIT 20000

-- name: edges_at(at)
-- The same by edge of the network in use with its path; edges without any speed are left out
SELECT t.edge_id, t.vehicles, t.speed_kmh, t.source, t.free_flow_kmh, t.free_flow_basis, t.speed_ratio,
       t.congestion, e.path
FROM serving.road_edge_at(%(at)s) t
JOIN serving.road_edge e ON e.network = t.network AND e.edge_id = t.edge_id
WHERE t.speed_kmh IS NOT NULL
ORDER BY t.vehicles DESC, t.edge_id LIMIT 20000

-- name: flows(day)
-- Trips of a local day between hexagons; small counts are suppressed there, ``hidden`` in all
SELECT origin_h3_r7, destination_h3_r7, suppressed, trips, duration_min, distance_km,
       count(*) FILTER (WHERE suppressed) OVER () AS hidden
FROM serving.od_flow_on(%(day)s)
ORDER BY trips DESC NULLS LAST, origin_h3_r7, destination_h3_r7 LIMIT 2000

-- name: last_trip_day(tz)
-- One row: the local day of the newest trip that is over; no row where there is none
SELECT (started_at AT TIME ZONE %(tz)s)::date AS day FROM serving.trip WHERE phase <> 'open'
ORDER BY started_at DESC LIMIT 1

-- name: eta_quality
-- How good predicted arrivals were, by how long before; at most six rows
SELECT * FROM serving.eta_quality ORDER BY from_min

-- name: etas
-- Vehicles under way to a destination with their newest prediction
SELECT request_no, vehicle_id, asked_at, made_at, arrival_at, distance_m FROM serving.eta
WHERE outcome IS NULL ORDER BY arrival_at NULLS LAST, request_no LIMIT 200
