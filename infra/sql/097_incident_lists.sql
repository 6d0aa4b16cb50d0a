-- Why a detector ended an alert; and lists of alerts and incidents in their order, of which a page reads no more than it shows.

CREATE OR REPLACE VIEW serving.alert_change AS
SELECT c.alert_no, a.vehicle_id, a.rule, c.change, c.event_time, c.recorded_at, c.severity, c.value, c.limit_value, c.by_whom,
       CASE WHEN c.change <> 'cleared' OR c.by_whom IS NOT NULL THEN c.note
            ELSE (SELECT e.message FROM odograph.alert_event e
                  WHERE e.ended AND e.vehicle_id = a.vehicle_id AND e.event_time = c.event_time AND e.rule = a.rule
                    AND e.message <> a.message LIMIT 1) END AS note
FROM odograph.alert_change c JOIN odograph.alert a USING (alert_no);
COMMENT ON VIEW serving.alert_change IS 'History of each alert; who is null where the pipeline did it, note is then why its detector ended it, if it says so';

CREATE INDEX alert_listed ON odograph.alert
    ((cleared_at IS NULL) DESC, (acknowledged_at IS NULL) DESC, odograph.severity_rank(severity) DESC, opened_at DESC)
    WHERE withdrawn_at IS NULL;

ALTER TABLE odograph.incident
    ADD COLUMN active boolean NOT NULL DEFAULT false,
    ADD COLUMN severity text,
    ADD COLUMN opened_at timestamptz;
COMMENT ON TABLE odograph.incident IS 'Who an incident is and who has it, and what lists go by; its alerts say the rest. One whose alerts are all withdrawn is not shown';
COMMENT ON COLUMN odograph.incident.active IS 'as its alerts have it, like severity and opened_at: kept with each change of them';

CREATE FUNCTION odograph.summarize_incidents(numbers bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- First the rows, in one order: what is counted then is all that others have committed.
    PERFORM FROM odograph.incident i WHERE i.incident_no = ANY(numbers) ORDER BY i.incident_no FOR NO KEY UPDATE;
    UPDATE odograph.incident i SET active = a.active, severity = a.severity, opened_at = a.opened_at
    FROM (SELECT n AS incident_no, coalesce(bool_or(x.cleared_at IS NULL), false) AS active, min(x.opened_at) AS opened_at,
                 (ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'])[max(odograph.severity_rank(x.severity))] AS severity
          FROM unnest(numbers) n LEFT JOIN odograph.alert x ON x.incident_no = n AND x.withdrawn_at IS NULL GROUP BY n) a
    WHERE i.incident_no = a.incident_no
      AND (i.active, i.severity, i.opened_at) IS DISTINCT FROM (a.active, a.severity, a.opened_at);
END $$;
CREATE FUNCTION odograph.note_incidents() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM odograph.summarize_incidents(array_agg(DISTINCT c.incident_no)) FROM changed c HAVING count(c.incident_no) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER incidents_inserted AFTER INSERT ON odograph.alert REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.note_incidents();
CREATE TRIGGER incidents_changed AFTER UPDATE ON odograph.alert REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.note_incidents();
CREATE TRIGGER incidents_deleted AFTER DELETE ON odograph.alert REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.note_incidents();
SELECT odograph.summarize_incidents(array_agg(incident_no)) FROM odograph.incident;
REVOKE EXECUTE ON FUNCTION odograph.summarize_incidents, odograph.note_incidents FROM PUBLIC;

-- The page's lists have the worst first, those of the command line what nobody has seen.
CREATE INDEX incident_by_severity ON odograph.incident
    (active DESC, odograph.severity_rank(severity) DESC, (acknowledged_at IS NULL) DESC, opened_at DESC);
CREATE INDEX incident_by_acknowledgement ON odograph.incident
    (active DESC, (acknowledged_at IS NULL) DESC, odograph.severity_rank(severity) DESC, opened_at DESC);

CREATE VIEW serving.incident_listed AS
SELECT incident_no, active, severity, odograph.severity_rank(severity) AS severity_rank, acknowledged_at IS NULL AS unseen, opened_at
FROM odograph.incident;
COMMENT ON VIEW serving.incident_listed IS 'What lists of incidents filter and sort by, joined with serving.incident: so the limit of a list is the limit of what is read';
GRANT SELECT ON serving.incident_listed TO odograph_dashboard, odograph_ingest;

COMMENT ON TABLE odograph.webhook_settled IS 'Alerts that a webhook was told or that were not for it: it is told none of them again, in whichever region';
