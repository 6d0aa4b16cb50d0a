-- The life of alerts: what changed and by whom, silence on purpose, the samples around each, latency by finding.

ALTER TABLE odograph.alert
    ADD COLUMN since_at timestamptz,
    ADD COLUMN cleared_by text,
    ADD COLUMN silence_no bigint,
    ADD COLUMN evidence_at timestamptz,
    ADD COLUMN evidence_frames integer;
COMMENT ON COLUMN odograph.alert.since_at IS 'when the condition began to hold, as far as its rule knows; opened_at is the first finding';
COMMENT ON COLUMN odograph.alert.cleared_by IS 'who ended it; null: its rule did';
COMMENT ON COLUMN odograph.alert.silence_no IS 'the silence that it fell under when it was stored, if any: it was not told';
COMMENT ON COLUMN odograph.alert.evidence_at IS 'when the frames around it were copied to alert_evidence; null: not yet';
COMMENT ON COLUMN odograph.alert.evidence_frames IS 'how many there were';

ALTER TABLE odograph.alert_event
    ADD COLUMN rule_version integer,
    ADD COLUMN limit_value double precision,
    ADD COLUMN ended boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN odograph.alert_event.ended IS 'no finding but its end: the vehicle itself said that it is over';

CREATE TABLE odograph.alert_change (
    change_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_no    bigint      NOT NULL,
    change      text        NOT NULL CHECK (change IN
                    ('opened', 'escalated', 'cleared', 'reopened', 'acknowledged', 'silenced')),
    event_time  timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    severity    text        NOT NULL,
    value       double precision,
    limit_value double precision,
    by_whom     text,
    note        text
);
COMMENT ON TABLE odograph.alert_change IS 'History of each alert, written by a trigger whoever changes it';
COMMENT ON COLUMN odograph.alert_change.event_time IS 'event time of the finding or end; the moment itself for what a person did';
COMMENT ON COLUMN odograph.alert_change.by_whom IS 'null: the pipeline';
CREATE INDEX alert_change_by_alert ON odograph.alert_change (alert_no, change_no);

CREATE TABLE odograph.alert_silence (
    silence_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule       text,
    vehicle_id text,
    from_at    timestamptz NOT NULL DEFAULT now(),
    until_at   timestamptz NOT NULL CHECK (until_at > from_at),
    by_whom    text        NOT NULL,
    why        text        NOT NULL,
    CHECK (rule IS NOT NULL OR vehicle_id IS NOT NULL)
);
COMMENT ON TABLE odograph.alert_silence IS 'Alerts that nobody is told of for a while: by rule, by vehicle, or both; they are stored all the same';
COMMENT ON COLUMN odograph.alert_silence.rule IS 'a rule''s id; null: all rules of the vehicle';

CREATE TABLE odograph.alert_evidence (
    alert_no    bigint      NOT NULL,
    t0          timestamptz NOT NULL,
    boot_id     bigint      NOT NULL,
    seq         bigint      NOT NULL,
    received_at timestamptz NOT NULL,
    verdict     text        NOT NULL,
    kafka_topic text        NOT NULL,
    partition   integer     NOT NULL,
    log_offset  bigint      NOT NULL,
    frame       jsonb       NOT NULL,
    PRIMARY KEY (alert_no, boot_id, seq)
);
COMMENT ON TABLE odograph.alert_evidence IS 'The frames from 30 s before an alert''s first finding to 30 s after it, as the vehicle sent them, with where the log has them';

CREATE FUNCTION odograph.severity_rank(severity text) RETURNS integer LANGUAGE sql IMMUTABLE
    RETURN array_position(ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'], severity);

CREATE FUNCTION odograph.note_alert_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fresh boolean := TG_OP = 'INSERT';
BEGIN
    IF fresh THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, value, limit_value)
        VALUES (NEW.alert_no, 'opened', NEW.opened_at, NEW.severity, NEW.value, NEW.limit_value);
    ELSIF odograph.severity_rank(NEW.severity) > odograph.severity_rank(OLD.severity) THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, value, limit_value)
        VALUES (NEW.alert_no, 'escalated', NEW.last_at, NEW.severity, NEW.value, NEW.limit_value);
    END IF;
    IF NEW.cleared_at IS NOT NULL AND (fresh OR OLD.cleared_at IS NULL) THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, value, limit_value, by_whom)
        VALUES (NEW.alert_no, 'cleared', NEW.cleared_at, NEW.severity, NEW.value, NEW.limit_value, NEW.cleared_by);
    ELSIF NOT fresh AND NEW.cleared_at IS NULL AND OLD.cleared_at IS NOT NULL THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, value, limit_value)
        VALUES (NEW.alert_no, 'reopened', NEW.last_at, NEW.severity, NEW.value, NEW.limit_value);
    END IF;
    IF NEW.acknowledged_at IS NOT NULL AND (fresh OR OLD.acknowledged_at IS DISTINCT FROM NEW.acknowledged_at) THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, by_whom, note)
        VALUES (NEW.alert_no, 'acknowledged', NEW.acknowledged_at, NEW.severity, NEW.acknowledged_by, NEW.note);
    END IF;
    IF NEW.silence_no IS NOT NULL AND (fresh OR OLD.silence_no IS DISTINCT FROM NEW.silence_no) THEN
        INSERT INTO odograph.alert_change (alert_no, change, event_time, severity, by_whom, note)
        SELECT NEW.alert_no, 'silenced', now(), NEW.severity, s.by_whom, s.why
        FROM odograph.alert_silence s WHERE s.silence_no = NEW.silence_no;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER alert_opened AFTER INSERT ON odograph.alert
    FOR EACH ROW EXECUTE FUNCTION odograph.note_alert_change();
CREATE TRIGGER alert_changed AFTER UPDATE ON odograph.alert
    FOR EACH ROW WHEN (OLD.severity <> NEW.severity OR OLD.cleared_at IS DISTINCT FROM NEW.cleared_at
        OR OLD.acknowledged_at IS DISTINCT FROM NEW.acknowledged_at OR OLD.silence_no IS DISTINCT FROM NEW.silence_no)
    EXECUTE FUNCTION odograph.note_alert_change();

CREATE INDEX alert_without_evidence ON odograph.alert (opened_at) WHERE evidence_at IS NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.alert_change, odograph.alert_silence, odograph.alert_evidence TO odograph_ingest;
GRANT EXECUTE ON FUNCTION odograph.severity_rank(text), odograph.note_alert_change() TO odograph_ingest;

CREATE VIEW serving.alert_life AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.rule_version, a.severity, a.message, a.since_at, a.opened_at,
       a.last_at, a.cleared_at, a.cleared_by, a.cleared_at IS NULL AS active,
       a.acknowledged_at IS NOT NULL AS acknowledged, a.acknowledged_at, a.acknowledged_by, a.note,
       extract(epoch FROM coalesce(a.cleared_at, a.last_at) - a.opened_at) AS duration_s,
       a.value, a.worst_value, a.limit_value, a.findings, a.late, s.until_at AS silenced_until, s.why AS silenced_why,
       extract(epoch FROM e.received_at - e.event_time) * 1000 AS event_to_received_ms,
       extract(epoch FROM e.alerted_at - e.received_at) * 1000 AS received_to_alerted_ms,
       extract(epoch FROM e.stored_at - e.alerted_at) * 1000 AS alerted_to_stored_ms,
       a.evidence_at, a.evidence_frames, a.lat_deg, a.lon_deg
FROM odograph.alert a
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.alert_event e ON e.alert_id = a.first_alert_id
LEFT JOIN odograph.alert_silence s ON s.silence_no = a.silence_no;
COMMENT ON VIEW serving.alert_life IS 'Alerts with begin, end, duration (s, to the last finding while active), limit in force, silence, and the first finding''s way: ms from event to receipt, to the alerts topic, into the table';

CREATE VIEW serving.alert_change AS
SELECT c.alert_no, a.vehicle_id, a.rule, c.change, c.event_time, c.recorded_at, c.severity, c.value, c.limit_value, c.by_whom, c.note
FROM odograph.alert_change c JOIN odograph.alert a USING (alert_no);
COMMENT ON VIEW serving.alert_change IS 'History of each alert; who is null where the pipeline did it';

CREATE VIEW serving.alert_silence AS
SELECT silence_no, rule, vehicle_id, from_at, until_at, until_at > now() AS in_force, by_whom, why FROM odograph.alert_silence;
COMMENT ON VIEW serving.alert_silence IS 'Silences asked for, those that are over too';

CREATE VIEW serving.alert_evidence AS
SELECT alert_no, t0, boot_id, seq, received_at, verdict, kafka_topic, partition, log_offset, frame FROM odograph.alert_evidence;
COMMENT ON VIEW serving.alert_evidence IS 'Frames around each alert as sent (signals and units: README, the table of signals); always filter on alert_no';

GRANT SELECT ON serving.alert_life, serving.alert_change, serving.alert_silence, serving.alert_evidence TO odograph_dashboard, odograph_ingest;
