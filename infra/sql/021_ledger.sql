-- The conservation ledger by hour, filled by a keeper of the stream application; how long each table is kept; how big it is.

CREATE TABLE odograph.audit_hour (
    hour                timestamptz PRIMARY KEY,
    closed_until        timestamptz NOT NULL,
    taken_at            timestamptz NOT NULL DEFAULT now(),
    vehicles            integer NOT NULL,
    generated           bigint NOT NULL,
    lost_on_link        bigint NOT NULL,
    dropped_on_board    bigint NOT NULL,
    on_board            bigint NOT NULL,
    on_the_way          bigint NOT NULL,
    dead                bigint NOT NULL,
    missing             bigint NOT NULL,
    counted             bigint NOT NULL,
    late                bigint NOT NULL,
    quarantined         bigint NOT NULL,
    duplicate           bigint NOT NULL,
    in_time             bigint NOT NULL,
    late_records        bigint NOT NULL,
    late_listed         bigint NOT NULL,
    late_open           bigint NOT NULL,
    repaired            bigint NOT NULL,
    quarantined_records bigint NOT NULL,
    quarantined_listed  bigint NOT NULL,
    dead_unknown        bigint NOT NULL,
    residual            bigint NOT NULL
);
COMMENT ON TABLE odograph.audit_hour IS 'The conservation ledger of each hour of first samples (UTC), as the keeper found it last; columns: infra/audit/account.py';
COMMENT ON COLUMN odograph.audit_hour.closed_until IS 'up to this first sample the hour is in it: frames after it may still come in time';
COMMENT ON COLUMN odograph.audit_hour.residual IS 'frames and records unaccounted for; what the broker dropped is among them';

CREATE TABLE odograph.audit_finding (
    hour       timestamptz NOT NULL REFERENCES odograph.audit_hour ON DELETE CASCADE,
    no         integer     NOT NULL,
    stage      text        NOT NULL,
    vehicle_id text,
    what       text        NOT NULL,
    frames     bigint      NOT NULL,
    PRIMARY KEY (hour, no)
);
COMMENT ON TABLE odograph.audit_finding IS 'What is missing or differs in an hour, in ranges; of many the first';
COMMENT ON COLUMN odograph.audit_finding.stage IS 'between which two stages: vehicle to archive, log to archive, archive to windows';
COMMENT ON COLUMN odograph.audit_finding.frames IS 'frames, or records of the log';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.audit_hour, odograph.audit_finding TO odograph_ingest;

CREATE INDEX late_frame_by_time ON odograph.late_frame (t0_ms);
CREATE INDEX late_frame_by_receipt ON odograph.late_frame (received_at);
CREATE INDEX quarantined_frame_by_receipt ON odograph.quarantined_frame (received_at);
CREATE INDEX dead_letter_by_receipt ON odograph.dead_letter (received_at);

CREATE VIEW serving.audit_hour AS SELECT * FROM odograph.audit_hour WHERE vehicles > 0 OR residual > 0;
COMMENT ON VIEW serving.audit_hour IS 'The conservation ledger by hour of first samples; always filter on hour';
CREATE VIEW serving.audit_finding AS SELECT * FROM odograph.audit_finding;
COMMENT ON VIEW serving.audit_finding IS 'What is missing or differs in an hour, in ranges; always filter on hour';

-- Retention ---------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.retention (
    table_name     text PRIMARY KEY,
    time_column    text NOT NULL,
    kept_days      integer,
    dropped_before timestamptz,
    looked_at      timestamptz
);
COMMENT ON TABLE odograph.retention IS 'Hypertables whose old chunks go; kept_days as the keeper found it in the settings, null: for ever';
COMMENT ON COLUMN odograph.retention.dropped_before IS 'nothing older is there: chunks up to it were dropped; null: none ever was';
INSERT INTO odograph.retention (table_name, time_column) VALUES
    ('vehicle_window', 'window_start'), ('road_cell_window', 'window_start'), ('road_edge_window', 'window_start'),
    ('road_cell_interval', 'interval_start'), ('road_edge_interval', 'interval_start'),
    ('vehicle_minute', 'bucket'), ('vehicle_hour', 'bucket'), ('vehicle_day', 'bucket'), ('query_progress', 'at');
GRANT SELECT ON odograph.retention TO odograph_ingest;

CREATE FUNCTION odograph.expire(wanted text, days integer) RETURNS integer LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    known odograph.retention;
    cutoff timestamptz := now() - make_interval(days => days);
    gone integer;
    bound timestamptz;
BEGIN
    SELECT * INTO STRICT known FROM odograph.retention WHERE table_name = wanted;
    UPDATE odograph.retention SET kept_days = nullif(days, 0), looked_at = now() WHERE table_name = wanted;
    IF coalesce(days, 0) <= 0 OR EXISTS (
        SELECT FROM timescaledb_information.jobs
        WHERE proc_name = 'policy_retention' AND hypertable_schema = 'odograph' AND hypertable_name = wanted
    ) THEN
        RETURN 0;
    END IF;
    SELECT max(range_end) INTO bound FROM timescaledb_information.chunks
    WHERE hypertable_schema = 'odograph' AND hypertable_name = wanted AND range_end <= cutoff;
    SELECT count(*) INTO gone FROM drop_chunks(format('odograph.%I', wanted)::regclass, older_than => cutoff);
    UPDATE odograph.retention SET dropped_before = greatest(dropped_before, bound) WHERE table_name = wanted;
    RETURN gone;
END $$;
COMMENT ON FUNCTION odograph.expire IS 'Drop the chunks of a table that end more than so many days ago; 0: none. Tables with a policy of the license are left to it. The number of chunks';
REVOKE ALL ON FUNCTION odograph.expire FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.expire TO odograph_ingest;

CREATE FUNCTION odograph.forget_listed() RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound timestamptz := (SELECT dropped_before FROM odograph.retention WHERE table_name = 'vehicle_window');
    gone bigint;
    more bigint;
BEGIN
    DELETE FROM odograph.late_frame
    WHERE t0_ms < extract(epoch FROM bound) * 1000 AND (repaired_at IS NOT NULL OR received_at < bound);
    GET DIAGNOSTICS gone = ROW_COUNT;
    DELETE FROM odograph.quarantined_frame WHERE received_at < bound;
    GET DIAGNOSTICS more = ROW_COUNT;
    DELETE FROM odograph.audit_hour WHERE hour < bound;
    RETURN gone + more;
END $$;
COMMENT ON FUNCTION odograph.forget_listed IS 'Lists of late and quarantined frames, and the ledger, go with the windows that they belong to; the number of frames';
REVOKE ALL ON FUNCTION odograph.forget_listed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.forget_listed TO odograph_ingest;

CREATE FUNCTION odograph.minutes_from() RETURNS timestamptz LANGUAGE sql STABLE
    RETURN coalesce((SELECT dropped_before + INTERVAL '2 days' FROM odograph.retention WHERE table_name = 'vehicle_minute'), '-infinity');
COMMENT ON FUNCTION odograph.minutes_from IS 'From here on every minute is there that an hour or a day of any zone is made of';

-- Sizes -------------------------------------------------------------------------------------------------------------------

CREATE VIEW serving.table_size AS
WITH part AS (
    SELECT h.hypertable_schema AS schema, h.hypertable_name AS name, c.oid, ch.range_start
    FROM timescaledb_information.hypertables h
    LEFT JOIN timescaledb_information.chunks ch USING (hypertable_schema, hypertable_name)
    LEFT JOIN pg_namespace n ON n.nspname = ch.chunk_schema
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = ch.chunk_name
    UNION ALL
    SELECT n.nspname, c.relname, c.oid, NULL
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('odograph', 'user_sql') AND c.relkind = 'r'
)
SELECT p.schema, p.name, coalesce(sum(pg_total_relation_size(p.oid)), 0)::bigint AS bytes,
       coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint AS about_rows, count(p.range_start)::integer AS chunks,
       min(p.range_start) AS since, r.kept_days, r.dropped_before
FROM part p
LEFT JOIN pg_class c ON c.oid = p.oid
LEFT JOIN odograph.retention r ON p.schema = 'odograph' AND r.table_name = p.name
GROUP BY p.schema, p.name, r.kept_days, r.dropped_before;
COMMENT ON VIEW serving.table_size IS 'A row a table: bytes with indexes, rows as last estimated (ANALYZE), chunks, begin of the oldest, how long it is kept';
COMMENT ON COLUMN serving.table_size.kept_days IS 'days; null: for ever, or not the retention keeper''s affair';

GRANT SELECT ON serving.audit_hour, serving.audit_finding, serving.table_size TO odograph_dashboard, odograph_ingest;
