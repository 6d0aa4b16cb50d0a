-- What any program of ours refuses is in the audit log, and a check that found something altered.

ALTER TABLE odograph.refusal_noted DROP CONSTRAINT refusal_noted_service_check;
COMMENT ON TABLE odograph.refusal_noted IS 'The last minute of a log of broker or program whose refusals are in the audit log';

CREATE OR REPLACE FUNCTION dispatch.audit(action text, vehicle text, detail text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF action NOT IN ('signed in', 'sign-in refused', 'vehicle viewed', 'downloaded', 'notice sent', 'check failed') THEN
        RAISE EXCEPTION 'action: % is noted by what does it', action USING ERRCODE = 'check_violation';
    END IF;
    RETURN odograph.audit_append(action, vehicle, detail);
END $$;
