-- Operations: what the watch (infra/stack/watch/) measures of every part, and who pushes the watermark. "Measured" ends with
-- good_until: after it a sample says nothing of now.

CREATE TABLE odograph.stage_sample (
    stage      text        NOT NULL,
    at         timestamptz NOT NULL,
    good_until timestamptz NOT NULL,
    ready      boolean     NOT NULL,
    reason     text,
    rate_per_s double precision,
    errors     integer,
    lag        bigint,
    saturation double precision,
    cores      double precision,
    memory_mb  double precision,
    restarts   integer,
    PRIMARY KEY (stage, at)
);
COMMENT ON TABLE odograph.stage_sample IS 'Every part of the pipeline as the watch saw it, by the database''s clock; what a part does not tell is null';
COMMENT ON COLUMN odograph.stage_sample.rate_per_s IS 'what it passed on, per s since the sample before: messages, records, frames, commits';
COMMENT ON COLUMN odograph.stage_sample.errors IS 'rejected, dropped, undelivered or rolled back since the sample before';
COMMENT ON COLUMN odograph.stage_sample.lag IS 'messages or records that wait for it';
COMMENT ON COLUMN odograph.stage_sample.saturation IS 'share of what it can hold or do, 1: full; of the jobs what waits over what a batch takes at most';
COMMENT ON COLUMN odograph.stage_sample.cores IS 'CPU cores busy with it since the sample before';
SELECT create_hypertable('odograph.stage_sample', 'at', chunk_time_interval => INTERVAL '1 day');

CREATE TABLE odograph.partition_lag (
    reader     text        NOT NULL,
    topic      text        NOT NULL,
    partition  integer     NOT NULL,
    log_end    bigint      NOT NULL,
    read_to    bigint      NOT NULL,
    rate_per_s double precision,
    at         timestamptz NOT NULL,
    good_until timestamptz NOT NULL,
    PRIMARY KEY (reader, topic, partition)
);
COMMENT ON TABLE odograph.partition_lag IS 'How far each reader is in each partition of the log, as the watch saw it last; queries by their checkpoints';
COMMENT ON COLUMN odograph.partition_lag.log_end IS 'offset of the next record to be appended';
COMMENT ON COLUMN odograph.partition_lag.read_to IS 'offset of the first record that is in no result yet';
COMMENT ON COLUMN odograph.partition_lag.rate_per_s IS 'records appended, per s';

CREATE TABLE odograph.storage_sample (
    place      text        NOT NULL,
    at         timestamptz NOT NULL,
    bytes      bigint      NOT NULL,
    free_bytes bigint,
    PRIMARY KEY (place, at)
);
COMMENT ON TABLE odograph.storage_sample IS 'How big each folder below the home is, and what its disk has left, bytes';
SELECT create_hypertable('odograph.storage_sample', 'at', chunk_time_interval => INTERVAL '30 days');

INSERT INTO odograph.retention (table_name, time_column) VALUES ('stage_sample', 'at'), ('storage_sample', 'at');
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.stage_sample, odograph.partition_lag, odograph.storage_sample TO odograph_ingest;

CREATE VIEW serving.stage_now AS
WITH RECURSIVE known AS (
    (SELECT stage FROM odograph.stage_sample WHERE at > now() - INTERVAL '1 day' ORDER BY stage LIMIT 1)
    UNION ALL
    SELECT (SELECT s.stage FROM odograph.stage_sample s WHERE s.stage > known.stage AND s.at > now() - INTERVAL '1 day' ORDER BY s.stage LIMIT 1)
    FROM known WHERE known.stage IS NOT NULL
)
SELECT n.stage, n.at, now() <= n.good_until AS measured, n.ready, n.reason, n.rate_per_s, n.errors, n.lag, n.saturation, n.cores,
       n.memory_mb, n.restarts, extract(epoch FROM now() - n.at)::double precision AS age_s
FROM known
CROSS JOIN LATERAL (
    SELECT * FROM odograph.stage_sample s WHERE s.stage = known.stage AND s.at > now() - INTERVAL '1 day' ORDER BY s.at DESC LIMIT 1
) n
WHERE known.stage IS NOT NULL;
COMMENT ON VIEW serving.stage_now IS 'The newest sample of each part within a day; where measured is false it says nothing of now';

CREATE VIEW serving.stage_sample AS
SELECT stage, at, ready, rate_per_s, errors, lag, saturation, cores, memory_mb FROM odograph.stage_sample;
COMMENT ON VIEW serving.stage_sample IS 'Samples of the parts; always filter on at';

CREATE VIEW serving.partition_lag AS
SELECT reader, topic, partition, log_end, read_to, log_end - read_to AS lag, rate_per_s, at, now() <= good_until AS measured
FROM odograph.partition_lag;
COMMENT ON VIEW serving.partition_lag IS 'Records of each partition that are in no result of a reader yet';

CREATE VIEW serving.storage AS
SELECT n.place, n.at, n.bytes, n.free_bytes,
       (n.bytes - d.bytes) / nullif(extract(epoch FROM n.at - d.at), 0)::double precision * 86400 AS growth_per_day
FROM (SELECT DISTINCT ON (place) place, at, bytes, free_bytes FROM odograph.storage_sample
      WHERE at > now() - INTERVAL '1 day' ORDER BY place, at DESC) n
LEFT JOIN LATERAL (
    SELECT at, bytes FROM odograph.storage_sample s
    WHERE s.place = n.place AND s.at >= n.at - INTERVAL '1 day' AND s.at < n.at ORDER BY s.at LIMIT 1
) d ON true;
COMMENT ON VIEW serving.storage IS 'How big each folder is, bytes, and by how much it grew, bytes a day over the last day';

CREATE VIEW serving.query_last AS
SELECT q.query, p.at, p.batch_id, p.input_rows, p.rows_per_s, p.batch_ms, p.watermark,
       extract(epoch FROM now() - p.watermark)::double precision AS watermark_lag_s,
       p.state_rows, p.state_bytes, p.dropped_late, p.dropped_duplicates, p.lag_records
FROM (
    WITH RECURSIVE known AS (
        (SELECT query FROM odograph.query_progress WHERE at > now() - INTERVAL '1 day' ORDER BY query LIMIT 1)
        UNION ALL
        SELECT (SELECT query FROM odograph.query_progress
                WHERE query > known.query AND at > now() - INTERVAL '1 day' ORDER BY query LIMIT 1)
        FROM known WHERE known.query IS NOT NULL
    )
    SELECT query FROM known WHERE query IS NOT NULL
) q
CROSS JOIN LATERAL (
    SELECT * FROM odograph.query_progress p WHERE p.query = q.query AND p.at > now() - INTERVAL '1 day' ORDER BY p.at DESC LIMIT 1
) p;
COMMENT ON VIEW serving.query_last IS 'The last batch of each streaming query within a day; from query to query by the index, not through a day of batches';

-- The watermark's defence ------------------------------------------------------------------------------------------------------

CREATE VIEW serving.off_time AS
SELECT 'late' AS kind, vehicle_id, received_at, extract(epoch FROM received_at)::double precision - t0_ms / 1000.0::double precision AS behind_s,
       repaired_at IS NOT NULL AS repaired
FROM odograph.late_frame
UNION ALL
SELECT verdict, vehicle_id, received_at, extract(epoch FROM received_at)::double precision - t0_ms / 1000.0::double precision, NULL
FROM odograph.quarantined_frame;
COMMENT ON VIEW serving.off_time IS 'Frames that came late or whose clock is impossible; behind_s: receipt less first sample, s, negative: ahead; always filter on received_at';

CREATE VIEW serving.clock_ahead AS
SELECT vehicle_id, event_time, updated_at, extract(epoch FROM event_time - updated_at)::double precision AS ahead_s
FROM odograph.vehicle_latest
WHERE event_time > updated_at;
COMMENT ON VIEW serving.clock_ahead IS 'Vehicles whose newest data bears a time after the moment it was stored: they push the watermark, within the limit';

CREATE FUNCTION serving.watermark_defence(hours integer)
RETURNS TABLE (frames bigint, late bigint, quarantined bigint, late_worst_s double precision, ahead_worst_s double precision,
               needed_s double precision)
LANGUAGE sql STABLE AS $$
    WITH total AS (SELECT coalesce(sum(input_rows), 0)::bigint AS frames FROM serving.query_progress
                   WHERE query = 'windows' AND at > now() - make_interval(hours => hours)),
    off AS MATERIALIZED (SELECT kind, behind_s FROM serving.off_time WHERE received_at > now() - make_interval(hours => hours)),
    told AS (SELECT count(*) FILTER (WHERE kind = 'late') AS late, count(*) FILTER (WHERE kind <> 'late') AS quarantined,
                    max(behind_s) FILTER (WHERE kind = 'late') AS late_worst_s,
                    -min(behind_s) FILTER (WHERE kind = 'clock_ahead') AS ahead_worst_s
             FROM off)
    SELECT total.frames, told.late, told.quarantined, told.late_worst_s, told.ahead_worst_s,
           (SELECT behind_s FROM off WHERE kind = 'late' ORDER BY behind_s DESC OFFSET total.frames / 1000 LIMIT 1)
    FROM total, told
$$;
COMMENT ON FUNCTION serving.watermark_defence(integer) IS 'Over the last hours: frames read, late and quarantined ones, the latest and the furthest ahead, s; needed_s: the delay that would have had 99.9 % of the frames in time, null: the one in force had';

-- What every page asks for, bounded ------------------------------------------------------------------------------------------------

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
    FROM odograph.query_progress WHERE query = 'windows' AND at > now() - INTERVAL '1 day'
    ORDER BY at DESC LIMIT 1
) w ON true;
COMMENT ON VIEW serving.freshness IS 'One row: how new the data is, where the watermark stands, what was late, quarantined, dead within a day; late_open of all days';
CREATE INDEX alert_event_by_storing ON odograph.alert_event (stored_at);

GRANT SELECT ON serving.stage_now, serving.stage_sample, serving.partition_lag, serving.storage, serving.query_last, serving.off_time,
    serving.clock_ahead TO odograph_dashboard, odograph_ingest;
