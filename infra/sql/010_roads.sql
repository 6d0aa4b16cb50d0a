-- Traffic by road: H3 cells instead of map tiles, edges of a known network, history by five minutes, and what follows from it.

-- Windows -------------------------------------------------------------------------------------------------------------------

-- Windows of the old tiles cannot be carried over: a tile is not a union of hexagons. The batch layer recomputes any span of the
-- archive into H3 cells, and the stream writes them from its first window on.
DELETE FROM odograph.road_cell_window WHERE cell LIKE '%/%';
DELETE FROM odograph.road_cell_baseline WHERE cell LIKE '%/%';
ALTER TABLE odograph.road_cell_window ADD COLUMN vehicle_bits bigint NOT NULL DEFAULT 0;
COMMENT ON TABLE odograph.road_cell_window IS 'Traffic by road cell (H3 index of resolution 9, hexadecimal), direction and event-time window';
COMMENT ON COLUMN odograph.road_cell_window.vehicle_bits IS 'set of bits, CRC-32 of the vehicle id modulo 63: the union of windows has at most as many bits as there were vehicles';

CREATE TABLE odograph.road_network (
    network_no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    network    text        NOT NULL UNIQUE,
    loaded_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE odograph.road_network IS 'Road networks in road_edge; in use is the one that the setting roads.network names, else the one loaded last';
INSERT INTO odograph.road_network (network) SELECT DISTINCT network FROM odograph.road_edge ORDER BY 1;

CREATE TABLE odograph.road_edge_window (
    network_no   integer     NOT NULL,
    edge_id      integer     NOT NULL,
    window_start timestamptz NOT NULL,
    window_s     integer     NOT NULL,
    vehicles     integer     NOT NULL,
    vehicle_bits bigint      NOT NULL,
    samples      integer     NOT NULL,
    distance_m   double precision NOT NULL,
    time_s       double precision NOT NULL,
    speed_kmh    double precision NOT NULL,
    batch_id     bigint      NOT NULL,
    revision     integer     NOT NULL DEFAULT 0,
    restated_at  timestamptz,
    PRIMARY KEY (network_no, edge_id, window_start)
);
COMMENT ON TABLE odograph.road_edge_window IS 'Traffic by directed edge of the known network and event-time window; columns as in road_cell_window';
COMMENT ON COLUMN odograph.road_edge_window.edge_id IS 'edge of road_edge; -1: samples that fit more than one edge or have no course, -2: samples that fit no edge';
SELECT create_hypertable('odograph.road_edge_window', 'window_start', chunk_time_interval => INTERVAL '1 day');

-- History -------------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.road_rule (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    tz           text      NOT NULL,
    min_vehicles integer   NOT NULL,
    small_count  integer   NOT NULL,
    network      text      NOT NULL
);
COMMENT ON TABLE odograph.road_rule IS 'Settings that the views need, one row, written by odograph jobs stream at its start';
COMMENT ON COLUMN odograph.road_rule.min_vehicles IS 'vehicles in five minutes that make a live speed';
COMMENT ON COLUMN odograph.road_rule.small_count IS 'flows and stops of fewer vehicles are not shown';
COMMENT ON COLUMN odograph.road_rule.network IS 'network in use; empty: the one loaded last';
INSERT INTO odograph.road_rule (tz, min_vehicles, small_count, network) VALUES ('UTC', 3, 5, '');

CREATE FUNCTION odograph.hour_of_week(at timestamptz, tz text) RETURNS smallint LANGUAGE sql STABLE AS $$
    SELECT ((extract(isodow FROM at AT TIME ZONE tz) - 1) * 24 + extract(hour FROM at AT TIME ZONE tz))::smallint
$$;
COMMENT ON FUNCTION odograph.hour_of_week IS '0 is Monday 00:00 to 01:00 of the zone, 167 Sunday 23:00 to 24:00';

CREATE TABLE odograph.road_interval_due (
    interval_start timestamptz PRIMARY KEY,
    marked_at      timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE odograph.road_interval_due IS 'Five minutes whose windows have changed since they were summed: marked in the transaction that changed them';

CREATE TABLE odograph.road_cell_interval (
    cell           text        NOT NULL,
    heading_sector smallint    NOT NULL,
    interval_start timestamptz NOT NULL,
    vehicles       integer     NOT NULL,
    distance_m     double precision NOT NULL,
    time_s         double precision NOT NULL,
    PRIMARY KEY (cell, heading_sector, interval_start)
);
COMMENT ON TABLE odograph.road_cell_interval IS 'Windows of road cells by five minutes: what free flow and the profile are made of';
COMMENT ON COLUMN odograph.road_cell_interval.vehicles IS 'distinct vehicles, at least';
SELECT create_hypertable('odograph.road_cell_interval', 'interval_start', chunk_time_interval => INTERVAL '7 days');

CREATE TABLE odograph.road_edge_interval (
    network_no     integer     NOT NULL,
    edge_id        integer     NOT NULL,
    interval_start timestamptz NOT NULL,
    vehicles       integer     NOT NULL,
    distance_m     double precision NOT NULL,
    time_s         double precision NOT NULL,
    PRIMARY KEY (network_no, edge_id, interval_start)
);
COMMENT ON TABLE odograph.road_edge_interval IS 'Windows of edges by five minutes: what free flow and the profile are made of';
COMMENT ON COLUMN odograph.road_edge_interval.vehicles IS 'distinct vehicles, at least';
SELECT create_hypertable('odograph.road_edge_interval', 'interval_start', chunk_time_interval => INTERVAL '7 days');

ALTER TABLE odograph.road_cell_baseline ADD COLUMN off_peak boolean NOT NULL DEFAULT false;
COMMENT ON TABLE odograph.road_cell_baseline IS 'Free-flow speed of each cell and direction: 85th percentile of its five-minute speeds in off-peak hours';
COMMENT ON COLUMN odograph.road_cell_baseline.windows IS 'five-minute speeds it is made of';
COMMENT ON COLUMN odograph.road_cell_baseline.off_peak IS 'false: there are too few off-peak speeds yet, those of all hours were taken';
CREATE TABLE odograph.road_edge_baseline (
    network_no    integer NOT NULL,
    edge_id       integer NOT NULL,
    free_flow_kmh double precision NOT NULL,
    windows       integer NOT NULL,
    off_peak      boolean NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (network_no, edge_id)
);
COMMENT ON TABLE odograph.road_edge_baseline IS 'Free-flow speed of each edge; columns as in road_cell_baseline';

CREATE TABLE odograph.road_cell_profile (
    cell           text     NOT NULL,
    heading_sector smallint NOT NULL,
    hour_of_week   smallint NOT NULL,
    intervals      integer  NOT NULL,
    speed_kmh      double precision NOT NULL,
    PRIMARY KEY (hour_of_week, cell, heading_sector)
);
COMMENT ON TABLE odograph.road_cell_profile IS 'Space-mean speed of each cell and direction by hour of the local week';
CREATE TABLE odograph.road_edge_profile (
    network_no   integer  NOT NULL,
    edge_id      integer  NOT NULL,
    hour_of_week smallint NOT NULL,
    intervals    integer  NOT NULL,
    speed_kmh    double precision NOT NULL,
    PRIMARY KEY (hour_of_week, network_no, edge_id)
);
COMMENT ON TABLE odograph.road_edge_profile IS 'Space-mean speed of each edge by hour of the local week';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.road_network, odograph.road_edge_window, odograph.road_rule, odograph.road_interval_due,
    odograph.road_cell_interval, odograph.road_edge_interval, odograph.road_edge_baseline, odograph.road_cell_profile,
    odograph.road_edge_profile TO odograph_ingest;

-- Traffic now, or at any moment -----------------------------------------------------------------------------------------------

CREATE FUNCTION odograph.road_band(speed_ratio double precision) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN speed_ratio IS NULL THEN 'unknown' WHEN speed_ratio > 0.9 THEN 'free' WHEN speed_ratio > 0.7 THEN 'slow'
                WHEN speed_ratio >= 0.5 THEN 'congested' ELSE 'severe' END
$$;
COMMENT ON FUNCTION odograph.road_band IS 'Bands of FHWA on speed over free-flow speed';

DROP VIEW serving.road_cell;
CREATE FUNCTION serving.road_cell_at(at timestamptz) RETURNS TABLE (
    cell text, heading_sector smallint, window_start timestamptz, vehicles integer, flow_vph integer, samples bigint, speed_kmh double precision,
    source text, free_flow_kmh double precision, free_flow_off_peak boolean, speed_ratio double precision, travel_time_index double precision,
    congestion text
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH live AS (
        SELECT w.cell, w.heading_sector, max(w.window_start) AS window_start,
               greatest(max(w.vehicles), bit_count(bit_or(w.vehicle_bits)::bit(64)))::integer AS vehicles,
               sum(w.samples)::bigint AS samples, sum(w.distance_m) / sum(w.time_s) * 3.6 AS speed_kmh
        FROM odograph.road_cell_window w
        WHERE w.window_start > road_cell_at.at - INTERVAL '5 minutes' AND w.window_start <= road_cell_at.at
        GROUP BY w.cell, w.heading_sector HAVING sum(w.time_s) > 0
    ), told AS (
        SELECT coalesce(l.cell, p.cell) AS cell, coalesce(l.heading_sector, p.heading_sector) AS heading_sector, l.window_start,
               coalesce(l.vehicles, 0) AS vehicles, coalesce(l.samples, 0) AS samples,
               CASE WHEN l.vehicles >= r.min_vehicles THEN 'live' WHEN p.speed_kmh IS NOT NULL THEN 'profile' ELSE 'none' END AS source,
               CASE WHEN l.vehicles >= r.min_vehicles THEN l.speed_kmh ELSE coalesce(p.speed_kmh, l.speed_kmh) END AS speed_kmh
        FROM live l
        FULL JOIN (SELECT q.* FROM odograph.road_cell_profile q, odograph.road_rule t
                   WHERE q.hour_of_week = odograph.hour_of_week(road_cell_at.at, t.tz)) p
          ON p.cell = l.cell AND p.heading_sector = l.heading_sector
        CROSS JOIN odograph.road_rule r
    ), judged AS (
        SELECT t.*, b.free_flow_kmh, b.off_peak,
               CASE WHEN t.source <> 'none' THEN t.speed_kmh / nullif(b.free_flow_kmh, 0) END AS speed_ratio
        FROM told t LEFT JOIN odograph.road_cell_baseline b ON b.cell = t.cell AND b.heading_sector = t.heading_sector
    )
    SELECT j.cell, j.heading_sector, j.window_start, j.vehicles, j.vehicles * 12, j.samples, j.speed_kmh, j.source, j.free_flow_kmh, j.off_peak,
           j.speed_ratio, 1 / nullif(j.speed_ratio, 0), odograph.road_band(j.speed_ratio)
    FROM judged j
$$;
COMMENT ON FUNCTION serving.road_cell_at IS 'Traffic by H3 cell and direction in the five minutes up to a moment; columns as in serving.road_cell';
CREATE VIEW serving.road_cell AS SELECT * FROM serving.road_cell_at(now());
COMMENT ON VIEW serving.road_cell IS 'Traffic of the last five minutes by H3 cell and direction; where fewer than road_rule.min_vehicles were seen, the profile of this hour of the week';
COMMENT ON COLUMN serving.road_cell.window_start IS 'newest window; null where nobody was seen';
COMMENT ON COLUMN serving.road_cell.vehicles IS 'distinct vehicles in five minutes, at least';
COMMENT ON COLUMN serving.road_cell.flow_vph IS 'vehicles an hour, at least';
COMMENT ON COLUMN serving.road_cell.speed_kmh IS 'space-mean speed, km/h; where source is none that of the few that were seen, not judged';
COMMENT ON COLUMN serving.road_cell.source IS 'live, profile (typical for this hour of the week), none';
COMMENT ON COLUMN serving.road_cell.travel_time_index IS 'travel time over that at free flow';
COMMENT ON COLUMN serving.road_cell.congestion IS 'free > 0.9, slow > 0.7, congested >= 0.5, severe, of free-flow speed; unknown';

CREATE FUNCTION odograph.road_network_in_use() RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.network_no FROM odograph.road_network n, odograph.road_rule r
    WHERE r.network IN ('', n.network) ORDER BY n.loaded_at DESC, n.network_no DESC LIMIT 1
$$;

CREATE FUNCTION serving.road_edge_at(at timestamptz) RETURNS TABLE (
    network text, edge_id integer, road_class text, length_m double precision, speed_limit_kmh double precision, window_start timestamptz,
    vehicles integer, flow_vph double precision, samples bigint, speed_kmh double precision, source text, free_flow_kmh double precision,
    free_flow_basis text, speed_ratio double precision, travel_time_index double precision, congestion text
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH used AS (
        SELECT n.network_no, n.network, r.min_vehicles, odograph.hour_of_week(road_edge_at.at, r.tz) AS hour_of_week
        FROM odograph.road_network n, odograph.road_rule r WHERE n.network_no = odograph.road_network_in_use()
    ), live AS (
        SELECT w.edge_id, max(w.window_start) AS window_start,
               greatest(max(w.vehicles), bit_count(bit_or(w.vehicle_bits)::bit(64)))::integer AS vehicles,
               sum(w.samples)::bigint AS samples, sum(w.distance_m) AS distance_m, sum(w.distance_m) / sum(w.time_s) * 3.6 AS speed_kmh
        FROM odograph.road_edge_window w, used u
        WHERE w.network_no = u.network_no AND w.edge_id >= 0
          AND w.window_start > road_edge_at.at - INTERVAL '5 minutes' AND w.window_start <= road_edge_at.at
        GROUP BY w.edge_id HAVING sum(w.time_s) > 0
    ), told AS (
        SELECT u.network, e.*, l.window_start, coalesce(l.vehicles, 0) AS vehicles, coalesce(l.samples, 0) AS samples,
               coalesce(l.distance_m, 0) / nullif(e.length_m, 0) * 12 AS flow_vph,
               CASE WHEN l.vehicles >= u.min_vehicles THEN 'live' WHEN p.speed_kmh IS NOT NULL THEN 'profile' ELSE 'none' END AS source,
               CASE WHEN l.vehicles >= u.min_vehicles THEN l.speed_kmh ELSE coalesce(p.speed_kmh, l.speed_kmh) END AS speed_kmh,
               coalesce(b.free_flow_kmh, e.speed_limit_kmh) AS free_flow_kmh,
               CASE WHEN b.off_peak THEN 'off-peak' WHEN b.free_flow_kmh IS NOT NULL THEN 'all hours' ELSE 'limit' END AS free_flow_basis
        FROM used u
        JOIN (SELECT g.network AS of_network, g.edge_id, g.road_class, g.length_m, g.speed_limit_kmh FROM odograph.road_edge g) e
          ON e.of_network = u.network
        LEFT JOIN live l ON l.edge_id = e.edge_id
        LEFT JOIN odograph.road_edge_profile p
          ON p.hour_of_week = u.hour_of_week AND p.network_no = u.network_no AND p.edge_id = e.edge_id
        LEFT JOIN odograph.road_edge_baseline b ON b.network_no = u.network_no AND b.edge_id = e.edge_id
    ), judged AS (
        SELECT t.*, CASE WHEN t.source <> 'none' THEN t.speed_kmh / nullif(t.free_flow_kmh, 0) END AS speed_ratio FROM told t
    )
    SELECT j.network, j.edge_id, j.road_class, j.length_m, j.speed_limit_kmh, j.window_start, j.vehicles, j.flow_vph, j.samples, j.speed_kmh,
           j.source, j.free_flow_kmh, j.free_flow_basis, j.speed_ratio, 1 / nullif(j.speed_ratio, 0), odograph.road_band(j.speed_ratio)
    FROM judged j
$$;
COMMENT ON FUNCTION serving.road_edge_at IS 'Traffic by edge of the network in use in the five minutes up to a moment; columns as in serving.road_edge_traffic';
CREATE VIEW serving.road_edge_traffic AS SELECT * FROM serving.road_edge_at(now());
COMMENT ON VIEW serving.road_edge_traffic IS 'Traffic of the last five minutes by directed edge of the network in use; where too few were seen, the profile of this hour of the week';
COMMENT ON COLUMN serving.road_edge_traffic.vehicles IS 'distinct vehicles in five minutes, at least';
COMMENT ON COLUMN serving.road_edge_traffic.flow_vph IS 'flow by Edie''s definition, vehicles an hour';
COMMENT ON COLUMN serving.road_edge_traffic.speed_kmh IS 'space-mean speed, km/h; where source is none that of the few that were seen, not judged';
COMMENT ON COLUMN serving.road_edge_traffic.source IS 'live, profile (typical for this hour of the week), none';
COMMENT ON COLUMN serving.road_edge_traffic.free_flow_basis IS 'off-peak, all hours (too few off-peak speeds yet), limit (no history)';

CREATE VIEW serving.road_match AS
SELECT date_trunc('hour', w.window_start) AS hour, n.network, sum(w.samples) FILTER (WHERE w.edge_id >= 0)::bigint AS matched,
       sum(w.samples) FILTER (WHERE w.edge_id = -1)::bigint AS not_clear, sum(w.samples) FILTER (WHERE w.edge_id = -2)::bigint AS no_edge
FROM odograph.road_edge_window w JOIN odograph.road_network n USING (network_no)
GROUP BY 1, 2;
COMMENT ON VIEW serving.road_match IS 'Samples matched to an edge, by hour; not_clear fit more than one or have no course, no_edge fit none; always filter on hour';

GRANT SELECT ON serving.road_cell, serving.road_edge_traffic, serving.road_match TO odograph_dashboard, odograph_ingest;

-- Where trips go, and where vehicles stand: small counts are not shown ------------------------------------------------------------

CREATE TABLE odograph.stop_place (
    vehicle_id text        NOT NULL,
    began_at   timestamptz NOT NULL,
    lat_deg    double precision NOT NULL,
    lon_deg    double precision NOT NULL,
    h3_r10     text        NOT NULL,
    PRIMARY KEY (vehicle_id, began_at)
);
COMMENT ON TABLE odograph.stop_place IS 'Hexagon of 0.015 km2 (H3 r10) of each stop of trip_stop, filled by a keeper; where the stop has moved since, it is filled anew';

CREATE FUNCTION odograph.rounded_count(count bigint, step integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(1, round(count::numeric / step))::bigint * step
$$;
COMMENT ON FUNCTION odograph.rounded_count IS 'A count to the nearest multiple of the step, at least the step';

CREATE FUNCTION serving.od_flow_on(day date) RETURNS TABLE (
    origin_h3_r7 text, destination_h3_r7 text, suppressed boolean, trips bigint, duration_min double precision, distance_km double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH done AS (
        SELECT t.vehicle_id, t.start_h3_r7 AS origin, t.end_h3_r7 AS destination, t.duration_s, t.distance_m, r.small_count
        FROM odograph.trip t, odograph.road_rule r
        WHERE t.phase <> 'open' AND t.start_h3_r7 IS NOT NULL AND t.end_h3_r7 IS NOT NULL
          AND t.started_at >= od_flow_on.day::timestamp AT TIME ZONE r.tz
          AND t.started_at < (od_flow_on.day + 1)::timestamp AT TIME ZONE r.tz
    ), flow AS (
        SELECT origin, destination, small_count, count(*) AS trips, count(DISTINCT vehicle_id) AS vehicles,
               count(DISTINCT vehicle_id) < small_count AS small,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_s) / 60 AS duration_min,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY distance_m) / 1000 AS distance_km
        FROM done GROUP BY origin, destination, small_count
    ), alone AS (
        SELECT d.origin FROM done d JOIN flow f ON f.origin = d.origin AND f.destination = d.destination AND f.small
        GROUP BY d.origin HAVING count(DISTINCT d.vehicle_id) < max(d.small_count)
    ), ordered AS (
        SELECT f.*, row_number() OVER (PARTITION BY f.origin, f.small ORDER BY f.vehicles, f.trips, f.destination) AS place FROM flow f
    ), judged AS (
        SELECT o.*, o.small OR (o.place = 1 AND o.origin IN (SELECT a.origin FROM alone a)) AS hidden FROM ordered o
    )
    SELECT j.origin, j.destination, j.hidden, CASE WHEN NOT j.hidden THEN odograph.rounded_count(j.trips, j.small_count) END,
           CASE WHEN NOT j.hidden THEN round(j.duration_min) END, CASE WHEN NOT j.hidden THEN round(j.distance_km::numeric, 1)::double precision END
    FROM judged j
$$;
COMMENT ON FUNCTION serving.od_flow_on IS 'Trips of a local day between hexagons of 5.2 km2, rounded to multiples of road_rule.small_count; flows of fewer vehicles are suppressed, and where the suppressed ones of an origin together still are fewer, its smallest other flow too';

CREATE FUNCTION serving.od_origin_on(day date) RETURNS TABLE (origin_h3_r7 text, suppressed boolean, trips bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.start_h3_r7, count(DISTINCT t.vehicle_id) < r.small_count,
           CASE WHEN count(DISTINCT t.vehicle_id) >= r.small_count THEN odograph.rounded_count(count(*), r.small_count) END
    FROM odograph.trip t, odograph.road_rule r
    WHERE t.phase <> 'open' AND t.start_h3_r7 IS NOT NULL AND t.end_h3_r7 IS NOT NULL
      AND t.started_at >= od_origin_on.day::timestamp AT TIME ZONE r.tz
      AND t.started_at < (od_origin_on.day + 1)::timestamp AT TIME ZONE r.tz
    GROUP BY t.start_h3_r7, r.small_count
$$;
COMMENT ON FUNCTION serving.od_origin_on IS 'Trips of a local day by origin, rounded apart from their flows: a difference tells nothing exact';

CREATE FUNCTION serving.stop_hot_spot_on(day date) RETURNS TABLE (
    h3_r10 text, suppressed boolean, places bigint, stops bigint, dwell_median_min double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH place AS (
        SELECT p.h3_r10, r.small_count, count(*) AS stops, count(DISTINCT s.vehicle_id) >= r.small_count AS shown,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM s.ended_at - s.began_at)) / 60 AS dwell_min
        FROM odograph.trip_stop s JOIN odograph.stop_place p USING (vehicle_id, began_at), odograph.road_rule r
        WHERE s.ended_at IS NOT NULL AND s.began_at >= stop_hot_spot_on.day::timestamp AT TIME ZONE r.tz
          AND s.began_at < (stop_hot_spot_on.day + 1)::timestamp AT TIME ZONE r.tz
        GROUP BY p.h3_r10, r.small_count
    )
    SELECT h3_r10, false, 1::bigint, odograph.rounded_count(stops, small_count), round(dwell_min) FROM place WHERE shown
    UNION ALL
    SELECT NULL, true, odograph.rounded_count(count(*), max(small_count)), NULL, NULL FROM place WHERE NOT shown HAVING count(*) > 0
$$;
COMMENT ON FUNCTION serving.stop_hot_spot_on IS 'Stops begun on a local day by hexagon of 0.015 km2; those of fewer than road_rule.small_count vehicles are one row without a place';

-- Arrival times --------------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.eta_request (
    request_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vehicle_id text        NOT NULL,
    lat_deg    double precision NOT NULL,
    lon_deg    double precision NOT NULL,
    asked_at   timestamptz NOT NULL,
    outcome    text CHECK (outcome IN ('arrived', 'given up')),
    arrived_at timestamptz
);
CREATE INDEX ON odograph.eta_request (vehicle_id) WHERE outcome IS NULL;
COMMENT ON TABLE odograph.eta_request IS 'Destinations that arrival times are predicted for until the vehicle is there; times are event times of the vehicle';

CREATE TABLE odograph.eta_prediction (
    request_no bigint      NOT NULL REFERENCES odograph.eta_request ON DELETE CASCADE,
    made_at    timestamptz NOT NULL,
    arrival_at timestamptz NOT NULL,
    distance_m double precision NOT NULL,
    PRIMARY KEY (request_no, made_at)
);
COMMENT ON COLUMN odograph.eta_prediction.made_at IS 'event time of the position that it starts from';
COMMENT ON COLUMN odograph.eta_prediction.distance_m IS 'way to go, m';

CREATE FUNCTION odograph.metres_between(lat_a double precision, lon_a double precision, lat_b double precision, lon_b double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT 111195 * sqrt((lat_a - lat_b) ^ 2 + ((lon_a - lon_b) * cos(radians((lat_a + lat_b) / 2))) ^ 2)
$$;
COMMENT ON FUNCTION odograph.metres_between IS 'Distance of places a few kilometres apart, m';

CREATE VIEW serving.eta AS
SELECT DISTINCT ON (q.request_no) q.request_no, q.vehicle_id, q.lat_deg, q.lon_deg, q.asked_at, q.outcome, q.arrived_at, p.made_at, p.arrival_at, p.distance_m
FROM odograph.eta_request q LEFT JOIN odograph.eta_prediction p USING (request_no)
ORDER BY q.request_no, p.made_at DESC;
COMMENT ON VIEW serving.eta IS 'Each request with its newest prediction';

CREATE VIEW serving.eta_quality AS
WITH graded AS (
    SELECT extract(epoch FROM q.arrived_at - p.made_at)::double precision AS horizon_s,
           extract(epoch FROM p.arrival_at - q.arrived_at)::double precision AS error_s
    FROM odograph.eta_prediction p JOIN odograph.eta_request q USING (request_no)
    WHERE q.outcome = 'arrived' AND q.arrived_at > p.made_at
)
SELECT h.from_min, h.to_min, count(*) AS predictions, avg(abs(g.error_s) / g.horizon_s) * 100 AS mape_pct,
       avg(g.error_s / g.horizon_s) * 100 AS bias_pct, avg(g.error_s) AS bias_s
FROM graded g JOIN (VALUES (0.5, 2), (2, 5), (5, 10), (10, 20), (20, 60), (60, 1440)) AS h (from_min, to_min)
  ON g.horizon_s >= h.from_min * 60 AND g.horizon_s < h.to_min * 60
GROUP BY h.from_min, h.to_min;
COMMENT ON VIEW serving.eta_quality IS 'Predictions of those that arrived, by how long before (30 s and more): mean absolute error and bias (positive: predicted too late), % of the time that it took';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.stop_place, odograph.eta_request, odograph.eta_prediction TO odograph_ingest;
GRANT SELECT ON serving.eta, serving.eta_quality TO odograph_dashboard, odograph_ingest;
