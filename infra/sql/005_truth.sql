-- Ground truth of simulated runs: what really happened, to judge what the service found. Filled by odograph truth load.

CREATE TABLE odograph.truth (
    run_id     text        NOT NULL,
    truth_id   text        NOT NULL,
    kind       text        NOT NULL,
    what       text        NOT NULL,
    vehicle_id text        NOT NULL,
    from_time  timestamptz NOT NULL,
    full_time  timestamptz,
    to_time    timestamptz,
    severity   double precision,
    details    jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (run_id, truth_id)
);
CREATE INDEX ON odograph.truth (vehicle_id, from_time);
COMMENT ON TABLE odograph.truth IS 'What a simulator run says really happened; no job reads it, scorecards do';
COMMENT ON COLUMN odograph.truth.kind IS 'fault, trip, stop, harsh, edge, outage, clock, clone';
COMMENT ON COLUMN odograph.truth.what IS 'the fault''s name, the kind of harsh event, the purpose of a trip, the edge';
COMMENT ON COLUMN odograph.truth.full_time IS 'when a fault has reached its full severity; null where that has no meaning';
COMMENT ON COLUMN odograph.truth.to_time IS 'end; null while it lasts';
COMMENT ON COLUMN odograph.truth.severity IS '0..1; null where it has no meaning';

CREATE VIEW serving.truth AS
SELECT run_id, kind, what, vehicle_id, from_time, full_time, to_time, severity, details FROM odograph.truth;
COMMENT ON VIEW serving.truth IS 'Ground truth of simulated runs';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.truth TO odograph_ingest;
GRANT SELECT ON serving.truth TO odograph_dashboard, odograph_ingest;
