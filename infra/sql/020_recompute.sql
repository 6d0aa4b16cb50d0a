-- The batch layer on request and by night (stream_jobs/recompute/): its runs, alerts and findings that it made, changed or took
-- away, and in every view which layer a row is of: revision 0 is the stream, n is restated n times.

CREATE TABLE odograph.recompute_run (
    run_no           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind             text        NOT NULL CHECK (kind IN ('command', 'nightly')),
    from_at          timestamptz NOT NULL,
    until_at         timestamptz NOT NULL,
    vehicle_id       text,
    late_until       timestamptz,
    started_at       timestamptz NOT NULL DEFAULT now(),
    done_until       timestamptz,
    finished_at      timestamptz,
    late_frames      bigint NOT NULL DEFAULT 0,
    vehicle_windows  bigint NOT NULL DEFAULT 0,
    place_windows    bigint NOT NULL DEFAULT 0,
    unfounded        bigint NOT NULL DEFAULT 0,
    vehicles         bigint NOT NULL DEFAULT 0,
    journeys         bigint NOT NULL DEFAULT 0,
    alerts_added     bigint NOT NULL DEFAULT 0,
    alerts_changed   bigint NOT NULL DEFAULT 0,
    alerts_withdrawn bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE odograph.recompute_run IS 'Runs of the batch layer; one that was killed goes on from done_until when it is asked for again';
COMMENT ON COLUMN odograph.recompute_run.late_until IS 'nightly: frames that were listed as late before it are done; the next run begins here';
COMMENT ON COLUMN odograph.recompute_run.done_until IS 'windows that begin before it are restated; moved in the transaction that restates them';
COMMENT ON COLUMN odograph.recompute_run.late_frames IS 'late frames that it took in and nobody had before';
COMMENT ON COLUMN odograph.recompute_run.vehicle_windows IS 'windows of vehicles that were not as the archive has them: restated';
COMMENT ON COLUMN odograph.recompute_run.place_windows IS 'the same of road cells and edges';
COMMENT ON COLUMN odograph.recompute_run.unfounded IS 'stored windows that nothing in the archive stands for: left as they are';
COMMENT ON COLUMN odograph.recompute_run.vehicles IS 'vehicles whose journeys were put through the core again';
COMMENT ON COLUMN odograph.recompute_run.journeys IS 'trips, stops, idling and harsh events restated or removed';
CREATE INDEX recompute_open ON odograph.recompute_run (kind, from_at, until_at) WHERE finished_at IS NULL;

-- Alerts --------------------------------------------------------------------------------------------------------------------

ALTER TABLE odograph.alert
    ADD COLUMN revision integer NOT NULL DEFAULT 0,
    ADD COLUMN restated_at timestamptz,
    ADD COLUMN withdrawn_at timestamptz;
COMMENT ON COLUMN odograph.alert.revision IS '0: from the stream; n: restated n times by the batch layer';
COMMENT ON COLUMN odograph.alert.withdrawn_at IS 'late frames say that it was none: kept with its history, not shown among alerts';
ALTER TABLE odograph.alert_event
    ADD COLUMN message text,
    ADD COLUMN lat_deg double precision,
    ADD COLUMN lon_deg double precision,
    ADD COLUMN since_at timestamptz,
    ADD COLUMN restated_at timestamptz,
    ADD COLUMN withdrawn_at timestamptz;
COMMENT ON COLUMN odograph.alert_event.restated_at IS 'found by the batch layer and not by the stream';
COMMENT ON COLUMN odograph.alert_event.withdrawn_at IS 'the batch layer does not find it';
CREATE INDEX alert_event_by_identity ON odograph.alert_event (vehicle_id, event_time);
ALTER TABLE odograph.journey_behind ADD COLUMN alerts_at timestamptz;
COMMENT ON COLUMN odograph.journey_behind.alerts_at IS 'when rules that last were put over these frames in their order';
CREATE INDEX journey_behind_alerts ON odograph.journey_behind (noted_at) WHERE alerts_at IS NULL;

ALTER TABLE odograph.alert_change DROP CONSTRAINT alert_change_change_check;
ALTER TABLE odograph.alert_change ADD CONSTRAINT alert_change_change_check CHECK (change IN
    ('opened', 'escalated', 'cleared', 'reopened', 'acknowledged', 'silenced', 'restated', 'withdrawn'));
CREATE FUNCTION odograph.note_alert_restated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, value, limit_value, by_whom)
    VALUES (NEW.alert_no, CASE WHEN NEW.withdrawn_at IS NULL THEN 'restated' ELSE 'withdrawn' END, NEW.last_at, NEW.severity,
            NEW.value, NEW.limit_value, 'batch layer');
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_restated AFTER UPDATE ON odograph.alert
    FOR EACH ROW WHEN (NEW.revision > OLD.revision) EXECUTE FUNCTION odograph.note_alert_restated();
GRANT EXECUTE ON FUNCTION odograph.note_alert_restated() TO odograph_ingest;

-- Roll-ups: the newest layer of the windows below -------------------------------------------------------------------------------

ALTER TABLE odograph.vehicle_minute ADD COLUMN revision integer, ADD COLUMN restated_at timestamptz;
ALTER TABLE odograph.vehicle_hour ADD COLUMN revision integer, ADD COLUMN restated_at timestamptz;
ALTER TABLE odograph.vehicle_day ADD COLUMN revision integer, ADD COLUMN restated_at timestamptz;

-- Views: speed and batch layers as one ------------------------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['vehicle_minute', 'vehicle_hour', 'vehicle_day'] LOOP
        EXECUTE format('CREATE OR REPLACE VIEW serving.%I AS %s', name, regexp_replace(
            pg_get_viewdef(format('serving.%I', name)::regclass), '\n\s+FROM', E',\n    r.revision, r.restated_at\n   FROM'));
        EXECUTE format('COMMENT ON COLUMN serving.%I.revision IS %L', name,
                       'the highest of its windows; 0: all are the stream''s');
    END LOOP;
END
$$;

CREATE OR REPLACE VIEW serving.trip_stop AS
SELECT vehicle_id, began_at, ended_at, ended_at - began_at AS dwell, lat_deg, lon_deg, h3_r7, revision, restated_at FROM odograph.trip_stop;
CREATE OR REPLACE VIEW serving.idle_episode AS
SELECT vehicle_id, began_at, ended_at, phase, duration_s, fuel_l, energy_kwh, lat_deg, lon_deg, revision, restated_at
FROM odograph.idle_episode;
CREATE OR REPLACE VIEW serving.harsh_event AS
SELECT vehicle_id, began_at, ended_at, kind, grade, peak_g, limit_g, speed_kmh, lat_deg, lon_deg,
       extract(epoch FROM ended_at - began_at) * 1000 AS duration_ms, revision, restated_at
FROM odograph.harsh_event;

CREATE OR REPLACE VIEW serving.alert AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.rule_version, a.severity, a.message, a.opened_at, a.last_at, a.cleared_at,
       a.cleared_at IS NULL AS active, a.acknowledged_at, a.acknowledged_by, a.note, a.value, a.worst_value, a.limit_value, a.findings,
       a.late, a.lat_deg, a.lon_deg, coalesce(a.cleared_at, a.last_at) - a.opened_at AS duration, a.revision, a.restated_at
FROM odograph.alert a LEFT JOIN odograph.vehicle v USING (vehicle_id)
WHERE a.withdrawn_at IS NULL;
CREATE OR REPLACE VIEW serving.alert_life AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.rule_version, a.severity, a.message, a.since_at, a.opened_at,
       a.last_at, a.cleared_at, a.cleared_by, a.cleared_at IS NULL AS active,
       a.acknowledged_at IS NOT NULL AS acknowledged, a.acknowledged_at, a.acknowledged_by, a.note,
       extract(epoch FROM coalesce(a.cleared_at, a.last_at) - a.opened_at) AS duration_s,
       a.value, a.worst_value, a.limit_value, a.findings, a.late, s.until_at AS silenced_until, s.why AS silenced_why,
       extract(epoch FROM e.received_at - e.event_time) * 1000 AS event_to_received_ms,
       extract(epoch FROM e.alerted_at - e.received_at) * 1000 AS received_to_alerted_ms,
       extract(epoch FROM e.stored_at - e.alerted_at) * 1000 AS alerted_to_stored_ms,
       a.evidence_at, a.evidence_frames, a.lat_deg, a.lon_deg, a.revision, a.restated_at
FROM odograph.alert a
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.alert_event e ON e.alert_id = a.first_alert_id
LEFT JOIN odograph.alert_silence s ON s.silence_no = a.silence_no
WHERE a.withdrawn_at IS NULL;
CREATE VIEW serving.alert_withdrawn AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.severity, a.message, a.opened_at, a.last_at, a.withdrawn_at, a.revision,
       a.acknowledged_at, a.acknowledged_by, a.note
FROM odograph.alert a LEFT JOIN odograph.vehicle v USING (vehicle_id)
WHERE a.withdrawn_at IS NOT NULL;
COMMENT ON VIEW serving.alert_withdrawn IS 'Alerts that late frames took away: they were raised, perhaps acknowledged, and were none';
CREATE OR REPLACE VIEW serving.alert_latency AS
SELECT rule, severity, event_time, received_at, alerted_at, stored_at,
       extract(epoch FROM alerted_at - received_at) * 1000 AS received_to_alert_ms,
       extract(epoch FROM alerted_at - event_time) * 1000 AS event_to_alert_ms
FROM odograph.alert_event
WHERE restated_at IS NULL;
COMMENT ON VIEW serving.alert_latency IS 'Time of each finding of the stream from event and receipt to the alerts topic, ms';

CREATE VIEW serving.recompute_run AS
SELECT run_no, kind, from_at, until_at, vehicle_id, started_at, done_until, finished_at,
       extract(epoch FROM coalesce(finished_at, now()) - started_at) AS took_s, late_frames, vehicle_windows, place_windows, unfounded,
       vehicles, journeys, alerts_added, alerts_changed, alerts_withdrawn
FROM odograph.recompute_run;
COMMENT ON VIEW serving.recompute_run IS 'Runs of the batch layer and what each restated; took_s in s, until now while it runs; what was restated counts, not what was looked at';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.recompute_run TO odograph_ingest;
GRANT SELECT ON serving.alert_withdrawn, serving.recompute_run TO odograph_dashboard, odograph_ingest;
