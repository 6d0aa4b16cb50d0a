-- What the pages of trips, routing and replay ask for: a trip by its id, speeds over free flow, traffic by hour of a day, and what the
-- last comparison of each shadow run found.

CREATE INDEX trip_by_id ON odograph.trip (trip_id);

CREATE FUNCTION serving.speed_ratio(cells text[], heading_sectors smallint[], speeds_kmh double precision[]) RETURNS TABLE (
    place bigint, free_flow_kmh double precision, speed_ratio double precision, congestion text
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.place, b.free_flow_kmh, p.speed_kmh / nullif(b.free_flow_kmh, 0), odograph.road_band(p.speed_kmh / nullif(b.free_flow_kmh, 0))
    FROM unnest(speed_ratio.cells, speed_ratio.heading_sectors, speed_ratio.speeds_kmh) WITH ORDINALITY AS p (cell, heading_sector, speed_kmh, place)
    LEFT JOIN odograph.road_cell_baseline b ON b.cell = p.cell AND b.heading_sector = p.heading_sector
    ORDER BY p.place
$$;
COMMENT ON FUNCTION serving.speed_ratio IS 'Each speed over the free-flow speed of its H3 cell (resolution 9) and direction, with the band; place counts from 1';

CREATE FUNCTION serving.road_hour_on(day date) RETURNS TABLE (
    hour timestamptz, cells bigint, distance_km double precision, speed_kmh double precision, travel_time_index double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT date_trunc('hour', i.interval_start, r.tz), count(DISTINCT (i.cell, i.heading_sector)), sum(i.distance_m) / 1000,
           sum(i.distance_m) / nullif(sum(i.time_s), 0) * 3.6,
           sum(i.time_s) FILTER (WHERE b.free_flow_kmh > 0)
               / nullif(sum(i.distance_m / b.free_flow_kmh * 3.6) FILTER (WHERE b.free_flow_kmh > 0), 0)
    FROM odograph.road_rule r, odograph.road_cell_interval i
    LEFT JOIN odograph.road_cell_baseline b ON b.cell = i.cell AND b.heading_sector = i.heading_sector
    WHERE i.interval_start >= road_hour_on.day::timestamp AT TIME ZONE r.tz
      AND i.interval_start < (road_hour_on.day + 1)::timestamp AT TIME ZONE r.tz
    GROUP BY 1
$$;
COMMENT ON FUNCTION serving.road_hour_on IS 'Traffic of a local day by hour over all cells: space-mean speed, km/h, and time taken over the time at free flow where that is known';

CREATE VIEW serving.road_span AS
SELECT min(interval_start) AS first_at, max(interval_start) AS last_at FROM odograph.road_cell_interval;
COMMENT ON VIEW serving.road_span IS 'One row: begin of the oldest and the newest five minutes of road traffic that are stored; nulls: none';

CREATE VIEW serving.day_span AS
SELECT min(window_start) AS first_at, max(window_start) AS last_at FROM odograph.vehicle_window;
COMMENT ON VIEW serving.day_span IS 'One row: begin of the oldest and the newest window of vehicles that are stored; nulls: none';

-- Shadow runs against live ------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.replay_verdict (
    run_id           text        NOT NULL,
    table_name       text        NOT NULL,
    place            smallint    NOT NULL,
    compared_at      timestamptz NOT NULL DEFAULT now(),
    since            timestamptz NOT NULL,
    until            timestamptz NOT NULL,
    vehicles         integer,
    changed          text        NOT NULL,
    live_rows        bigint      NOT NULL,
    run_rows         bigint      NOT NULL,
    slices           integer     NOT NULL,
    slices_differing integer     NOT NULL,
    rows_differing   integer     NOT NULL,
    by_column        jsonb       NOT NULL,
    first_difference text,
    PRIMARY KEY (run_id, table_name)
);
COMMENT ON TABLE odograph.replay_verdict IS 'What the last comparison of a shadow run with the live tables found, a row a table; written by odograph replay';
COMMENT ON COLUMN odograph.replay_verdict.place IS 'order of the comparison';
COMMENT ON COLUMN odograph.replay_verdict.vehicles IS 'number of the run''s vehicles; null: all';
COMMENT ON COLUMN odograph.replay_verdict.changed IS 'settings of the run that differ from those of the live jobs';
COMMENT ON COLUMN odograph.replay_verdict.rows_differing IS 'among the slices looked into (at most 200)';
COMMENT ON COLUMN odograph.replay_verdict.by_column IS 'column -> rows in which it differs, of the slices looked into';

CREATE VIEW serving.replay_verdict AS
SELECT v.run_id, v.table_name, v.place, v.compared_at, v.since, v.until, v.vehicles, v.changed, v.live_rows, v.run_rows, v.slices,
       v.slices_differing, v.slices_differing = 0 AS equal, v.rows_differing, v.by_column, v.first_difference,
       coalesce(r.state, 'not promoted') AS read_by_serving
FROM odograph.replay_verdict v LEFT JOIN odograph.replay_run r USING (run_id);
COMMENT ON VIEW serving.replay_verdict IS 'The last comparison of each shadow run with live, a row a table, and whether serving reads the run';

GRANT SELECT ON serving.road_span, serving.day_span, serving.replay_verdict TO odograph_dashboard, odograph_ingest;
