-- Incidents: what alerts of one vehicle and one cause, near in time, are together; of many vehicles at once, one of the fleet.
-- Their times, severity and numbers are those of their alerts; a row holds who it is and who has it.

CREATE TABLE odograph.incident (
    incident_no     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incident_id     text NOT NULL UNIQUE,
    vehicle_id      text,
    cause           text NOT NULL,
    acknowledged_at timestamptz,
    acknowledged_by text,
    assigned_to     text,
    CHECK (char_length(incident_id) <= 128 AND char_length(vehicle_id) <= 64 AND char_length(cause) <= 128)
);
COMMENT ON TABLE odograph.incident IS 'Who an incident is and who has it; its alerts say the rest. One whose alerts are all withdrawn is not shown';
COMMENT ON COLUMN odograph.incident.incident_id IS 'the id of its first finding in the order of the log: what vehicles and webhooks are told';
COMMENT ON COLUMN odograph.incident.vehicle_id IS 'null: the fleet''s';
COMMENT ON COLUMN odograph.incident.cause IS 'of the table of causes in the rules file; a rule that is not in it is its own cause';

CREATE TABLE odograph.incident_note (
    note_no     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incident_no bigint      NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    by_whom     text,
    kind        text        NOT NULL CHECK (kind IN ('acknowledged', 'assigned', 'comment', 'silenced', 'closed', 'joined', 'fleet')),
    text        text
);
COMMENT ON TABLE odograph.incident_note IS 'What people did and said; joined: incidents that it took in, fleet: it became the fleet''s';
COMMENT ON COLUMN odograph.incident_note.by_whom IS 'null: the pipeline';
CREATE INDEX incident_note_by_incident ON odograph.incident_note (incident_no, note_no);

ALTER TABLE odograph.alert ADD COLUMN incident_no bigint, ADD COLUMN to_join boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN odograph.alert.to_join IS 'its span is new: the event store has yet to find its incident (stream_jobs/events/incidents.py)';
CREATE INDEX alert_by_incident ON odograph.alert (incident_no);
CREATE INDEX alert_to_join ON odograph.alert (alert_no) WHERE to_join;

ALTER TABLE odograph.alert_silence ADD COLUMN cause text;
ALTER TABLE odograph.alert_silence DROP CONSTRAINT alert_silence_check1, ADD CHECK (num_nonnulls(rule, vehicle_id, cause) > 0);
COMMENT ON COLUMN odograph.alert_silence.cause IS 'an incident''s cause; null: any';

ALTER TABLE odograph.rule ADD COLUMN cause text;
COMMENT ON COLUMN odograph.rule.cause IS 'what its alerts'' incidents are called; parts of a rule may have others';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.incident, odograph.incident_note TO odograph_ingest;

-- Views ------------------------------------------------------------------------------------------------------------------------------

CREATE VIEW serving.incident AS
SELECT i.incident_no, i.incident_id, i.vehicle_id, v.model, i.cause, a.severity, a.message, a.opened_at, a.last_at,
       CASE WHEN NOT a.active THEN a.cleared_at END AS closed_at, a.active, a.alerts, a.vehicles, a.rules,
       i.acknowledged_at, i.acknowledged_by, i.assigned_to, s.silenced_until,
       CASE WHEN i.vehicle_id IS NOT NULL THEN a.lat_deg END AS lat_deg,
       CASE WHEN i.vehicle_id IS NOT NULL THEN a.lon_deg END AS lon_deg,
       extract(epoch FROM CASE WHEN a.active THEN a.last_at ELSE a.cleared_at END - a.opened_at)::double precision AS duration_s
FROM odograph.incident i
CROSS JOIN LATERAL (
      SELECT (array_agg(severity ORDER BY odograph.severity_rank(severity) DESC))[1] AS severity,
             (array_agg(message ORDER BY odograph.severity_rank(severity) DESC, last_at DESC))[1] AS message,
             min(opened_at) AS opened_at, max(last_at) AS last_at, max(cleared_at) AS cleared_at,
             bool_or(cleared_at IS NULL) AS active, count(*)::integer AS alerts,
             count(DISTINCT vehicle_id)::integer AS vehicles, array_agg(DISTINCT rule) AS rules,
             (array_agg(lat_deg ORDER BY last_at DESC) FILTER (WHERE lat_deg IS NOT NULL))[1] AS lat_deg,
             (array_agg(lon_deg ORDER BY last_at DESC) FILTER (WHERE lat_deg IS NOT NULL))[1] AS lon_deg
      FROM odograph.alert x WHERE x.incident_no = i.incident_no AND x.withdrawn_at IS NULL HAVING count(*) > 0) a
LEFT JOIN odograph.vehicle v ON v.vehicle_id = i.vehicle_id
LEFT JOIN LATERAL (
    SELECT max(t.until_at) AS silenced_until FROM odograph.alert_silence t
    WHERE t.until_at > now() AND t.rule IS NULL AND coalesce(t.cause, i.cause) = i.cause
      AND (t.vehicle_id IS NULL OR t.vehicle_id = i.vehicle_id)) s ON true;
COMMENT ON VIEW serving.incident IS 'Incidents: vehicle_id null: of the fleet; severity the worst of its alerts, message the newest of these, position of the newest alert; closed_at null while an alert is active; duration_s up to the last finding while active. Active ones alone: filter on incident_no IN (SELECT incident_no FROM serving.incident_alert WHERE active) too, which reads no others';

CREATE VIEW serving.incident_alert AS
SELECT a.incident_no, t.* FROM serving.alert_triage t JOIN odograph.alert a USING (alert_no) WHERE a.incident_no IS NOT NULL;
COMMENT ON VIEW serving.incident_alert IS 'Alerts with their incident: its timeline, and the vehicles of one of the fleet; filter on incident_no or alert_no';

CREATE VIEW serving.incident_note AS SELECT incident_no, at, by_whom, kind, text FROM odograph.incident_note;
COMMENT ON VIEW serving.incident_note IS 'What was done and said about each incident; by_whom null: the pipeline';

CREATE OR REPLACE VIEW serving.alert_silence AS
SELECT silence_no, rule, vehicle_id, from_at, until_at, until_at > now() AS in_force, by_whom, why, ended_by, cause
FROM odograph.alert_silence;
CREATE OR REPLACE VIEW serving.rule AS
SELECT rule, version, severity, query, kind, source, condition, value_sql, limit_sql, beyond, clear_for_s, message, in_force, noted_at, cause
FROM odograph.rule;

GRANT SELECT ON serving.incident, serving.incident_alert, serving.incident_note TO odograph_dashboard, odograph_ingest;

-- What people do ---------------------------------------------------------------------------------------------------------------------

-- Alerts before their incident, as the event store locks them; one that was joined into another meanwhile is left out.
CREATE FUNCTION dispatch.incident_noted(numbers bigint[], who text, what text, words text) RETURNS SETOF bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO odograph.incident_note (incident_no, by_whom, kind, text)
    SELECT i.incident_no, who, what, words FROM odograph.incident i WHERE i.incident_no = ANY(numbers) FOR KEY SHARE
    RETURNING incident_no
$$;

CREATE FUNCTION dispatch.incident_alerts(numbers bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(a.alert_no ORDER BY a.alert_no) FROM odograph.alert a
    WHERE a.incident_no = ANY(numbers) AND a.withdrawn_at IS NULL
$$;

CREATE FUNCTION dispatch.incident_acknowledge(numbers bigint[], who text, words text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done bigint[];
BEGIN
    PERFORM dispatch.acknowledge(dispatch.incident_alerts(numbers), who, words);
    WITH seen AS (UPDATE odograph.incident i SET acknowledged_at = now(), acknowledged_by = btrim(who)
                  WHERE i.incident_no = ANY(numbers) AND i.acknowledged_at IS NULL RETURNING i.incident_no)
    SELECT array_agg(seen.incident_no) INTO done FROM seen;
    RETURN QUERY SELECT dispatch.incident_noted(done, btrim(who), 'acknowledged', btrim(words));
END $$;
COMMENT ON FUNCTION dispatch.incident_acknowledge IS 'Somebody has seen these incidents and all their alerts; the numbers of those that nobody had seen before';

CREATE FUNCTION dispatch.incident_assign(numbers bigint[], who text, assignee text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done bigint[];
BEGIN
    who := dispatch.words('name', who, 80);
    assignee := CASE WHEN assignee IS NOT NULL THEN dispatch.words('assignee', assignee, 80) END;
    WITH given AS (UPDATE odograph.incident i SET assigned_to = assignee
                   WHERE i.incident_no = ANY(numbers) AND i.assigned_to IS DISTINCT FROM assignee RETURNING i.incident_no)
    SELECT array_agg(given.incident_no) INTO done FROM given;
    RETURN QUERY SELECT dispatch.incident_noted(done, who, 'assigned', coalesce(assignee, 'nobody'));
END $$;
COMMENT ON FUNCTION dispatch.incident_assign IS 'Gives incidents to somebody, null: to nobody; the numbers of those that another or nobody had';

CREATE FUNCTION dispatch.incident_comment(numbers bigint[], who text, words text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT dispatch.incident_noted(numbers, dispatch.words('name', who, 80), 'comment', dispatch.words('comment', words, 500));
END $$;
COMMENT ON FUNCTION dispatch.incident_comment IS 'Says something about incidents; the numbers of those that there are';

CREATE FUNCTION dispatch.incident_silence(numbers bigint[], seconds double precision, who text, reason text)
RETURNS TABLE (incident_no bigint, silence_no bigint, until_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    who := dispatch.words('name', who, 80);
    reason := dispatch.words('reason', reason, 500);
    -- As dispatch.silence: the file beside the table is written by one after the other.
    LOCK TABLE odograph.alert_silence IN SHARE ROW EXCLUSIVE MODE;
    FOR one IN SELECT i.incident_no, i.cause, i.vehicle_id FROM odograph.incident i
               WHERE i.incident_no IN (SELECT dispatch.incident_noted(numbers, who, 'silenced', reason)) ORDER BY 1 LOOP
        RETURN QUERY INSERT INTO odograph.alert_silence AS s (cause, vehicle_id, until_at, by_whom, why)
            VALUES (one.cause, one.vehicle_id, now() + make_interval(secs => seconds), who, reason)
            RETURNING one.incident_no, s.silence_no, s.until_at;
    END LOOP;
END $$;
COMMENT ON FUNCTION dispatch.incident_silence IS 'Nobody is told of what the causes of incidents raise for their vehicles (of the fleet''s: for any) for so many s; a silence each';

CREATE FUNCTION dispatch.incident_close(numbers bigint[], who text, words text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended bigint[];
BEGIN
    ended := ARRAY(SELECT dispatch.clear(dispatch.incident_alerts(numbers), who, words));
    RETURN QUERY SELECT dispatch.incident_noted(
        ARRAY(SELECT DISTINCT a.incident_no FROM odograph.alert a WHERE a.alert_no = ANY(ended)), btrim(who), 'closed', btrim(words));
END $$;
COMMENT ON FUNCTION dispatch.incident_close IS 'Ends the alerts of incidents by hand; the numbers of those that were active. A new finding opens them anew';

DROP FUNCTION dispatch.silences_in_force();
CREATE FUNCTION dispatch.silences_in_force() RETURNS TABLE (rule text, vehicle_id text, from_ms bigint, until_ms bigint, cause text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.rule, s.vehicle_id, floor(extract(epoch FROM s.from_at) * 1000)::bigint,
           (extract(epoch FROM s.until_at) * 1000)::bigint, s.cause
    FROM odograph.alert_silence s WHERE s.until_at > now() ORDER BY s.silence_no
$$;
COMMENT ON FUNCTION dispatch.silences_in_force IS 'For the file that the downlink reads; ms since 1970';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dispatch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatch.incident_acknowledge, dispatch.incident_assign, dispatch.incident_comment,
    dispatch.incident_silence, dispatch.incident_close, dispatch.silences_in_force TO odograph_dispatch, odograph_ingest;
