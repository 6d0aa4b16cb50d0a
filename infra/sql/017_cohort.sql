-- A vehicle against its like (stream_jobs/cohort/): residuals of closed buckets, and how far the keeper got.

CREATE TABLE odograph.cohort_progress (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    done_until timestamptz NOT NULL
);
COMMENT ON TABLE odograph.cohort_progress IS 'One row: buckets that begin before done_until are judged and not looked at again';

CREATE TABLE odograph.cohort_state (
    metric     text    NOT NULL,
    vehicle_id text    NOT NULL,
    side       integer NOT NULL,
    streak     integer NOT NULL,
    calm       integer NOT NULL,
    raised     boolean NOT NULL,
    since_ms   bigint  NOT NULL,
    last_ms    bigint  NOT NULL,
    PRIMARY KEY (metric, vehicle_id)
);
COMMENT ON TABLE odograph.cohort_state IS 'Vehicles beyond a limit or raised as of done_until (stream_jobs/cohort/lasting.py); times in ms since 1970';

CREATE TABLE odograph.cohort_residual (
    vehicle_id text             NOT NULL,
    metric     text             NOT NULL,
    bucket     timestamptz      NOT NULL,
    bucket_min integer          NOT NULL,
    unit       text             NOT NULL,
    model      text             NOT NULL,
    load_band  integer          NOT NULL,
    ambient_c  integer,
    value      double precision NOT NULL,
    median     double precision NOT NULL,
    scale      double precision NOT NULL,
    others     integer          NOT NULL,
    over       text             NOT NULL CHECK (over IN ('bucket', 'hour')),
    z          double precision NOT NULL,
    z_limit    double precision NOT NULL,
    streak     integer          NOT NULL,
    raised     boolean          NOT NULL,
    PRIMARY KEY (vehicle_id, metric, bucket)
);
COMMENT ON TABLE odograph.cohort_residual IS 'Residuals worth keeping (|z| from ODOGRAPH_COHORT_KEEP_Z on, or remembered), for ODOGRAPH_COHORT_KEPT_DAYS';
SELECT create_hypertable('odograph.cohort_residual', 'bucket', chunk_time_interval => INTERVAL '1 day');
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.cohort_progress, odograph.cohort_state, odograph.cohort_residual TO odograph_ingest;

CREATE VIEW serving.cohort_residual AS
SELECT vehicle_id, metric, bucket, bucket_min, unit, model, load_band, ambient_c, value, median, scale, value - median AS residual,
       z, z_limit, median - z_limit * scale AS limit_low, median + z_limit * scale AS limit_high, others, over, streak, raised
FROM odograph.cohort_residual;
COMMENT ON VIEW serving.cohort_residual IS 'A vehicle''s value against the others of its cohort (model, load, weather) in the same bucket; always filter on bucket';
COMMENT ON COLUMN serving.cohort_residual.bucket IS 'its begin';
COMMENT ON COLUMN serving.cohort_residual.bucket_min IS 'its length, min';
COMMENT ON COLUMN serving.cohort_residual.unit IS 'of value, median, scale, residual and limits';
COMMENT ON COLUMN serving.cohort_residual.load_band IS 'how many of ODOGRAPH_COHORT_LOAD_EDGES_PCT the mean engine load has passed; -1: it has no engine load';
COMMENT ON COLUMN serving.cohort_residual.ambient_c IS 'begin of the band of ambient temperature, degC; null: it does not say';
COMMENT ON COLUMN serving.cohort_residual.median IS 'of the others: a vehicle is never among its own cohort';
COMMENT ON COLUMN serving.cohort_residual.scale IS '1.4826 MAD of the others, at least the metric''s floor';
COMMENT ON COLUMN serving.cohort_residual.z IS 'residual over scale';
COMMENT ON COLUMN serving.cohort_residual.z_limit IS 'z that is beyond the limit, on the metric''s side';
COMMENT ON COLUMN serving.cohort_residual.others IS 'other vehicles in the cohort';
COMMENT ON COLUMN serving.cohort_residual.over IS 'bucket: compared with the others'' same bucket; hour: with their medians of the last hour, because the bucket has too few';
COMMENT ON COLUMN serving.cohort_residual.streak IS 'buckets beyond the limit on end';
COMMENT ON COLUMN serving.cohort_residual.raised IS 'whether the alert cohort_<metric> was on after this bucket';
GRANT SELECT ON serving.cohort_residual TO odograph_dashboard, odograph_ingest;
