-- Who did what: one log of what people did, append only for every role, each entry with the hash of the one before. What is stored
-- elsewhere anyway is noted by triggers, so that no program can leave it out; signing in, looking and downloads by dispatch.audit.

CREATE TABLE odograph.audit_log (
    entry      bigint      PRIMARY KEY,
    at         timestamptz NOT NULL,
    role       text        NOT NULL,
    actor      text        NOT NULL,
    action     text        NOT NULL,
    vehicle_id text,
    detail     text        NOT NULL,
    previous   text        NOT NULL,
    sha256     text        NOT NULL
);
COMMENT ON TABLE odograph.audit_log IS 'What people did, and who: append only, each entry holds the hash of the one before';
COMMENT ON COLUMN odograph.audit_log.role IS 'the role of the session that wrote the entry, by the database''s word';
COMMENT ON COLUMN odograph.audit_log.actor IS 'who signed in (OIDC), or the system user of the program: the session''s odograph.actor; without one the role';
COMMENT ON COLUMN odograph.audit_log.detail IS 'what was done with what, and names that people gave; nothing is proven by those';
CREATE INDEX audit_log_by_vehicle ON odograph.audit_log (vehicle_id, entry) WHERE vehicle_id IS NOT NULL;

CREATE FUNCTION odograph.audit_hash(a odograph.audit_log) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(jsonb_build_array(a.previous, a.entry, extract(epoch FROM a.at)::text, a.role, a.actor, a.action,
        a.vehicle_id, a.detail)::text, 'UTF8')), 'hex')
$$;

CREATE FUNCTION odograph.audit_append(action text, vehicle text, detail text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last odograph.audit_log;
    next odograph.audit_log;
BEGIN
    LOCK TABLE odograph.audit_log IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM odograph.audit_log a ORDER BY a.entry DESC LIMIT 1;
    next := ROW(coalesce(last.entry, 0) + 1, clock_timestamp(), session_user,
                coalesce(nullif(current_setting('odograph.actor', true), ''), session_user), action, vehicle,
                left(coalesce(detail, ''), 1000), coalesce(last.sha256, repeat('0', 64)), '');
    next.sha256 := odograph.audit_hash(next);
    INSERT INTO odograph.audit_log SELECT (next).*;
    RETURN next.entry;
END $$;
COMMENT ON FUNCTION odograph.audit_append IS 'The only way into the audit log, for triggers and dispatch.audit: nobody may call it; the new entry';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON odograph.audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.refuse('the audit log is append only');
ALTER TABLE odograph.audit_log ENABLE ALWAYS TRIGGER append_only;

CREATE FUNCTION dispatch.audit(action text, vehicle text, detail text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF action NOT IN ('signed in', 'sign-in refused', 'vehicle viewed', 'downloaded', 'notice sent') THEN
        RAISE EXCEPTION 'action: % is noted by what does it', action USING ERRCODE = 'check_violation';
    END IF;
    RETURN odograph.audit_append(action, vehicle, detail);
END $$;
COMMENT ON FUNCTION dispatch.audit IS 'Notes what leaves no row anywhere else; the new entry';

-- A row of another log: TG_ARGV names the action's first word, then its columns that tell what was done and with what.
CREATE FUNCTION odograph.audit_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line jsonb := to_jsonb(NEW);
BEGIN
    PERFORM odograph.audit_append(concat_ws(' ', TG_ARGV[0], line ->> TG_ARGV[1]), line ->> 'vehicle_id',
        (SELECT string_agg(format('%s %s', name, line ->> name), ', ') FROM unnest(TG_ARGV[2:]) AS name WHERE line ->> name IS NOT NULL));
    RETURN NULL;
END $$;
CREATE TRIGGER audited AFTER INSERT ON odograph.alert_change FOR EACH ROW WHEN (NEW.by_whom IS NOT NULL AND NEW.change <> 'silenced')
    EXECUTE FUNCTION odograph.audit_row('alert', 'change', 'alert_no', 'by_whom', 'note');
CREATE TRIGGER audited AFTER INSERT ON odograph.alert_silence FOR EACH ROW
    EXECUTE FUNCTION odograph.audit_row('alerts silenced', '', 'silence_no', 'rule', 'cause', 'until_at', 'by_whom', 'why');
CREATE TRIGGER audited_end AFTER UPDATE OF ended_by ON odograph.alert_silence FOR EACH ROW WHEN (NEW.ended_by IS NOT NULL)
    EXECUTE FUNCTION odograph.audit_row('silence ended', '', 'silence_no', 'ended_by');
CREATE TRIGGER audited AFTER INSERT ON odograph.incident_note FOR EACH ROW WHEN (NEW.by_whom IS NOT NULL)
    EXECUTE FUNCTION odograph.audit_row('incident', 'kind', 'incident_no', 'by_whom', 'text');
CREATE TRIGGER audited AFTER INSERT ON odograph.custody FOR EACH ROW WHEN (NEW.action IN ('exported', 'deleted') OR NEW.action = 'locked' AND NEW.detail NOT LIKE 'recorder: %')
    EXECUTE FUNCTION odograph.audit_row('crash', 'action', 'crash_id', 'digest', 'detail');
ALTER TABLE odograph.custody ENABLE ALWAYS TRIGGER audited;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF asked_at ON odograph.reinjection FOR EACH ROW
    EXECUTE FUNCTION odograph.audit_row('dead letter reinjected', '', 'partition', 'log_offset', 'kafka_topic', 'digest');
CREATE TRIGGER audited AFTER UPDATE OF state ON odograph.replay_run FOR EACH ROW WHEN (NEW.state IS DISTINCT FROM OLD.state)
    EXECUTE FUNCTION odograph.audit_row('replay', 'state', 'run_id', 'since', 'until');

CREATE VIEW serving.audit_log AS
SELECT a.entry, a.at, a.role, a.actor, a.action, a.vehicle_id, a.detail, a.sha256,
       a.sha256 = odograph.audit_hash(a) AND a.previous = coalesce(lag(a.sha256) OVER (ORDER BY a.entry), repeat('0', 64))
           AND a.entry = row_number() OVER (ORDER BY a.entry) AS holds
FROM odograph.audit_log a;
COMMENT ON VIEW serving.audit_log IS 'The audit log with whether each entry says what its hash was taken of and follows from the one before; for odograph_ingest only';

REVOKE ALL ON odograph.audit_log, serving.audit_log FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
REVOKE ALL ON FUNCTION odograph.audit_append, odograph.audit_row, dispatch.audit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatch.audit TO odograph_dispatch, odograph_ingest;
GRANT SELECT ON serving.audit_log TO odograph_ingest;
