-- Traffic by road: H3 cells instead of map tiles.

-- Windows of the old tiles cannot be carried over: a tile is not a union of hexagons. odograph's batch layer recomputes any span
-- of the archive into H3 cells, and the stream writes them from its first window on.
DELETE FROM odograph.road_cell_window WHERE cell LIKE '%/%';
DELETE FROM odograph.road_cell_baseline WHERE cell LIKE '%/%';
COMMENT ON TABLE odograph.road_cell_window IS 'Traffic by road cell (H3 index of resolution 9, hexadecimal), direction and event-time window';

DROP VIEW serving.road_cell;
CREATE VIEW serving.road_cell AS
WITH recent AS (
    SELECT cell, heading_sector, max(window_start) AS window_start, max(vehicles) AS vehicles,
           sum(samples)::bigint AS samples, sum(distance_m) AS distance_m, sum(time_s) AS time_s
    FROM odograph.road_cell_window
    WHERE window_start > now() - INTERVAL '5 minutes'
    GROUP BY cell, heading_sector
), judged AS (
    SELECT r.*, r.distance_m / r.time_s * 3.6 AS speed_kmh, b.free_flow_kmh,
           r.distance_m / r.time_s * 3.6 / nullif(b.free_flow_kmh, 0) AS speed_ratio
    FROM recent r LEFT JOIN odograph.road_cell_baseline b USING (cell, heading_sector)
    WHERE r.time_s > 0
)
SELECT cell, heading_sector, window_start, vehicles, vehicles * 60 AS flow_vph, samples, speed_kmh, free_flow_kmh, speed_ratio,
       CASE WHEN speed_ratio IS NULL THEN 'unknown'
            WHEN speed_ratio > 0.9 THEN 'free'
            WHEN speed_ratio > 0.7 THEN 'slow'
            WHEN speed_ratio >= 0.5 THEN 'congested'
            ELSE 'severe' END AS congestion
FROM judged;
COMMENT ON VIEW serving.road_cell IS 'Traffic of the last 5 minutes by H3 cell and direction; bands of FHWA''s speed ratio';
GRANT SELECT ON serving.road_cell TO odograph_dashboard, odograph_ingest;
