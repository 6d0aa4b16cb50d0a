-- What a day's report asks for: where a day's traffic lost most time.

CREATE FUNCTION serving.road_delay_on(day date) RETURNS TABLE (
    road text, road_class text, distance_km double precision, speed_kmh double precision, free_flow_kmh double precision,
    free_flow_basis text, travel_time_index double precision, delay_s double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH span AS (
        SELECT odograph.road_network_in_use() AS network_no, road_delay_on.day::timestamp AT TIME ZONE r.tz AS since,
               (road_delay_on.day + 1)::timestamp AT TIME ZONE r.tz AS until
        FROM odograph.road_rule r
    ), edge AS (
        SELECT 'edge ' || i.edge_id AS road, e.road_class, sum(i.distance_m) AS distance_m, sum(i.time_s) AS time_s,
               coalesce(max(b.free_flow_kmh), max(e.speed_limit_kmh)) AS free_flow_kmh,
               CASE WHEN bool_or(b.off_peak) THEN 'off-peak' WHEN max(b.free_flow_kmh) IS NOT NULL THEN 'all hours' ELSE 'limit' END AS basis
        FROM span s
        JOIN odograph.road_edge_interval i
          ON i.network_no = s.network_no AND i.edge_id >= 0 AND i.interval_start >= s.since AND i.interval_start < s.until
        JOIN odograph.road_network n ON n.network_no = i.network_no
        JOIN odograph.road_edge e ON e.network = n.network AND e.edge_id = i.edge_id
        LEFT JOIN odograph.road_edge_baseline b ON b.network_no = i.network_no AND b.edge_id = i.edge_id
        GROUP BY i.edge_id, e.road_class
    ), cell AS (
        SELECT 'cell ' || i.cell || coalesce((ARRAY[' north', ' east', ' south', ' west'])[i.heading_sector + 1], '') AS road,
               NULL::text AS road_class, sum(i.distance_m) AS distance_m, sum(i.time_s) AS time_s, max(b.free_flow_kmh) AS free_flow_kmh,
               CASE WHEN bool_or(b.off_peak) THEN 'off-peak' ELSE 'all hours' END AS basis
        FROM span s
        JOIN odograph.road_cell_interval i ON i.interval_start >= s.since AND i.interval_start < s.until
        JOIN odograph.road_cell_baseline b ON b.cell = i.cell AND b.heading_sector = i.heading_sector
        WHERE NOT EXISTS (SELECT FROM edge) GROUP BY i.cell, i.heading_sector
    )
    SELECT f.road, f.road_class, f.distance_m / 1000, f.distance_m / f.time_s * 3.6, f.free_flow_kmh, f.basis,
           f.time_s * f.free_flow_kmh / f.distance_m / 3.6, f.time_s - f.distance_m / f.free_flow_kmh * 3.6
    FROM (SELECT * FROM edge UNION ALL SELECT * FROM cell) f
    WHERE f.free_flow_kmh > 0 AND f.distance_m > 0 AND f.time_s > 0
$$;
COMMENT ON FUNCTION serving.road_delay_on IS 'Time that all vehicles of a local day lost to free flow (delay_s, s; less than 0: faster), by edge of the network in use; by H3 cell and direction where none was matched';
