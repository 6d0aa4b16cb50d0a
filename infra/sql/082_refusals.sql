-- What brokers refused, in the audit log: a minute of a broker once, joined by principal, operation and resource.

CREATE TABLE odograph.refusal_noted (
    service text        PRIMARY KEY CHECK (service ~ '^(kafka|mosquitto)'),
    minute  timestamptz NOT NULL
);
COMMENT ON TABLE odograph.refusal_noted IS 'The last minute of a broker''s log whose refusals are in the audit log';
REVOKE ALL ON odograph.refusal_noted FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT SELECT ON odograph.refusal_noted TO odograph_ingest;

CREATE FUNCTION odograph.note_refusals(of_service text, of_minute timestamptz, refusals jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each record;
    noted bigint := 0;
BEGIN
    INSERT INTO odograph.refusal_noted AS n VALUES (of_service, of_minute)
    ON CONFLICT (service) DO UPDATE SET minute = excluded.minute WHERE n.minute < excluded.minute;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR each IN SELECT * FROM jsonb_to_recordset(refusals) AS f(principal text, vehicle text, what text, times bigint) LIMIT 50 LOOP
        PERFORM set_config('odograph.actor', coalesce(odograph.pseudonym_of(each.vehicle), each.principal), true);
        PERFORM odograph.audit_append('refused by ' || of_service, each.vehicle,
            format('%s; %s times in the minute of %sZ', each.what, each.times, to_char(of_minute AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')));
        noted := noted + 1;
    END LOOP;
    RETURN noted;
END $$;
COMMENT ON FUNCTION odograph.note_refusals IS 'Notes what a broker refused in a minute, whom by the broker''s word; how many entries, 0 for a minute that was noted before';
REVOKE ALL ON FUNCTION odograph.note_refusals FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.note_refusals TO odograph_ingest;
