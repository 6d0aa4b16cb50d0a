-- One query makes windows, journeys and findings: `telemetry`, in the place of `windows` and `vehicles`. Its watermark is one of receipt.

CREATE OR REPLACE VIEW serving.freshness AS
SELECT (SELECT max(event_time) FROM odograph.vehicle_latest) AS data_as_of,
       w.watermark,
       w.at AS last_batch_at,
       w.lag_records,
       w.dropped_late,
       (SELECT count(*) FROM odograph.late_frame WHERE received_at > now() - INTERVAL '1 day') AS late_frames,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL) AS late_open,
       (SELECT count(*) FROM odograph.quarantined_frame WHERE received_at > now() - INTERVAL '1 day') AS quarantined_frames,
       (SELECT count(*) FROM odograph.dead_letter WHERE received_at > now() - INTERVAL '1 day') AS dead_letters
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT at, watermark, lag_records, dropped_late
    FROM odograph.query_progress WHERE query = 'telemetry' AND at > now() - INTERVAL '1 day'
    ORDER BY at DESC LIMIT 1
) w ON true;

CREATE OR REPLACE FUNCTION serving.watermark_defence(hours integer)
RETURNS TABLE (frames bigint, late bigint, quarantined bigint, late_worst_s double precision, ahead_worst_s double precision,
               needed_s double precision)
LANGUAGE sql STABLE AS $$
    WITH total AS (SELECT coalesce(sum(input_rows), 0)::bigint AS frames FROM serving.query_progress
                   WHERE query = 'telemetry' AND at > now() - make_interval(hours => hours)),
    off AS MATERIALIZED (SELECT kind, behind_s FROM serving.off_time WHERE received_at > now() - make_interval(hours => hours)),
    told AS (SELECT count(*) FILTER (WHERE kind = 'late') AS late, count(*) FILTER (WHERE kind <> 'late') AS quarantined,
                    max(behind_s) FILTER (WHERE kind = 'late') AS late_worst_s,
                    -min(behind_s) FILTER (WHERE kind = 'clock_ahead') AS ahead_worst_s
             FROM off)
    SELECT total.frames, told.late, told.quarantined, told.late_worst_s, told.ahead_worst_s,
           (SELECT behind_s FROM off WHERE kind = 'late' ORDER BY behind_s DESC OFFSET total.frames / 1000 LIMIT 1)
    FROM total, told
$$;

-- Windows of road cells and edges while they are open: the stream keeps vehicles in buckets that have no vehicle in common, each bucket
-- writes its share, and the window is the sum of its shares. Shares go when no bucket can change their window any more.

CREATE TABLE odograph.road_share (
    start_ms            bigint   NOT NULL,
    place               bigint   NOT NULL,
    heading_sector      smallint NOT NULL,
    bucket              integer  NOT NULL,
    samples             bigint   NOT NULL,
    time_ms_sum         bigint   NOT NULL,
    speed_over_time_sum bigint   NOT NULL,
    vehicles            bigint   NOT NULL,
    vehicle_bits        bigint   NOT NULL,
    PRIMARY KEY (start_ms, place, heading_sector, bucket)
);
COMMENT ON TABLE odograph.road_share IS 'What each bucket of vehicles adds to open windows of road cells and edges';
COMMENT ON COLUMN odograph.road_share.start_ms IS 'start of the window, ms since 1970';
COMMENT ON COLUMN odograph.road_share.place IS 'H3 cell as a number, or network number * 2^32 + edge id + 2';
COMMENT ON COLUMN odograph.road_share.heading_sector IS '0 north, 1 east, 2 south, 3 west, -1 not known; -2: the place is an edge';
COMMENT ON COLUMN odograph.road_share.time_ms_sum IS 'time that the samples stand for, ms';
COMMENT ON COLUMN odograph.road_share.speed_over_time_sum IS 'speed times time, whole steps of speed times ms';
COMMENT ON COLUMN odograph.road_share.vehicle_bits IS 'as in odograph.road_cell_window';

CREATE TABLE odograph.road_share_bucket (
    query_id     text    NOT NULL,
    bucket       integer NOT NULL,
    open_from_ms bigint  NOT NULL,
    PRIMARY KEY (query_id, bucket)
);
COMMENT ON TABLE odograph.road_share_bucket IS 'From which start of windows of places on each bucket may still change them';
COMMENT ON COLUMN odograph.road_share_bucket.query_id IS 'checkpoint of the query that writes the shares: those of another are worth nothing';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.road_share, odograph.road_share_bucket TO odograph_ingest;
