-- Queries about the whole fleet and the traffic of now.

-- name: fleet_figures(own = NULL)
-- One row: the fleet now, active incidents by severity, frames/s of the last minute: the service's, or the
-- reader's ``own``, of the newest minute whose windows are all rolled up
SELECT f.*, i.*,
       CASE WHEN %(own)s::boolean THEN
           (SELECT frames_per_s FROM serving.fleet_trend
            WHERE minute > now() - INTERVAL '10 minutes' AND minute < date_trunc('minute', (
                  SELECT watermark FROM serving.freshness) - INTERVAL '1 minute')
            ORDER BY minute DESC LIMIT 1)
       ELSE (SELECT sum(input_rows) / 60.0::double precision FROM serving.query_progress
             WHERE query = 'telemetry' AND at BETWEEN now() - INTERVAL '1 minute' AND now())
       END AS frames_per_s
FROM serving.fleet_figures f,
     (SELECT count(*) AS incidents, count(*) FILTER (WHERE acknowledged_at IS NULL) AS unseen,
             count(*) FILTER (WHERE severity = 'CRITICAL') AS critical,
             count(*) FILTER (WHERE severity = 'MAJOR') AS major,
             count(*) FILTER (WHERE severity = 'MINOR') AS minor,
             count(*) FILTER (WHERE severity = 'WARNING') AS warning
      FROM serving.incident
      WHERE incident_no IN (SELECT a.incident_no FROM serving.incident_alert a WHERE a.active)) i

-- name: fleet_latest
-- the newest state of the vehicles, alerted ones first
SELECT * FROM serving.fleet_latest ORDER BY alerts DESC, vehicle_id LIMIT 20000

-- name: fleet_hour
-- The fleet by minute over the last hour; the minute still running is left out
SELECT * FROM serving.fleet_trend
WHERE minute >= date_trunc('minute', now()) - INTERVAL '1 hour'
  AND minute < date_trunc('minute', (SELECT data_as_of FROM serving.freshness))
ORDER BY minute

-- name: fleet_today
-- One row: kilometres, idle share and consumption since midnight of the service's time zone
SELECT * FROM serving.fleet_today

-- name: road_cells
-- Traffic of the last five minutes by cell and direction
SELECT * FROM serving.road_cell ORDER BY vehicles DESC LIMIT 20000

-- name: road_edge_traffic
-- Traffic of the last five minutes by directed edge with its ``path``, only where a speed is known
SELECT t.edge_id, t.vehicles, t.speed_kmh, t.source, t.free_flow_kmh, t.free_flow_basis, t.speed_ratio,
       t.congestion, e.path
FROM serving.road_edge_traffic t JOIN serving.road_edge e USING (network, edge_id)
WHERE t.congestion <> 'unknown' OR t.free_flow_basis = 'limit' AND t.speed_kmh IS NOT NULL
ORDER BY t.vehicles DESC LIMIT 50000
