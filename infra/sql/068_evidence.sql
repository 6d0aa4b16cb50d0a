-- Evidence that stands without the database: records signed by their device, entries of the custody log signed by the program that made
-- them, with a key that no role of the database has. What has no signature was done by nobody of this service.

ALTER TABLE odograph.crash_record
    ADD COLUMN signature text CHECK (signature IN ('valid', 'invalid', 'absent', 'unchecked')),
    ADD COLUMN receipt text;
COMMENT ON COLUMN odograph.crash_record.signature IS 'whether the vehicle signed the raw bytes, as judged on receipt; null: stored before that was judged';
COMMENT ON COLUMN odograph.crash_record.receipt IS 'signature of the event store on the entry of the custody log that says received';
ALTER TABLE odograph.custody ADD COLUMN signature text;
COMMENT ON COLUMN odograph.custody.signature IS 'Ed25519, base64, by the program that did it (infra/contract/evidence.py); null: entered before entries were signed; empty: by nobody';

DROP FUNCTION odograph.custody_append(text, text, bigint, text, text, text);
CREATE FUNCTION odograph.custody_append(
    action text, vehicle_id text, boot_id bigint, crash_id text, digest text, detail text, signature text
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last odograph.custody;
    next odograph.custody;
BEGIN
    LOCK TABLE odograph.custody IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM odograph.custody c ORDER BY c.entry DESC LIMIT 1;
    next := ROW(coalesce(last.entry, 0) + 1, clock_timestamp(), session_user, action, vehicle_id, boot_id, crash_id, digest,
                detail, coalesce(last.sha256, repeat('0', 64)), '', coalesce(signature, ''));
    next.sha256 := odograph.custody_hash(next);
    INSERT INTO odograph.custody SELECT (next).*;
    RETURN next.sha256;
END $$;
COMMENT ON FUNCTION odograph.custody_append IS 'The only way into the custody log, for the functions of its actions: nobody may call it; the hash of the new entry';

DROP FUNCTION odograph.crash_lock_set(text, bigint, text, text, text);
CREATE FUNCTION odograph.crash_lock_set(vehicle text, boot bigint, crash text, who text, reason text, signature text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept odograph.crash_record;
BEGIN
    SELECT * INTO kept FROM odograph.crash_record c
    WHERE c.vehicle_id = vehicle AND c.boot_id = boot AND c.crash_id = crash FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no crash record % of % (boot %)', crash, vehicle, boot USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO odograph.crash_lock VALUES (vehicle, boot, crash, clock_timestamp(), who, reason) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM odograph.custody_append('locked', vehicle, boot, crash, odograph.crash_digest(kept), who || ': ' || reason, signature);
    RETURN true;
END $$;
COMMENT ON FUNCTION odograph.crash_lock_set IS 'Lock a record for good; false where it was locked before';

CREATE OR REPLACE FUNCTION odograph.crash_arrived() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deployed boolean := coalesce(NEW.airbag_deployed, false) OR NEW.record -> 'locked' = 'true'::jsonb
        OR jsonb_path_exists(NEW.record, '$.restraints_ms.* ? (@ != null)');
BEGIN
    PERFORM odograph.custody_append('received', NEW.vehicle_id, NEW.boot_id, NEW.crash_id, odograph.crash_digest(NEW), '', NEW.receipt);
    IF deployed THEN
        PERFORM odograph.crash_lock_set(NEW.vehicle_id, NEW.boot_id, NEW.crash_id, 'recorder',
                                        'a restraint that does not reverse was deployed', NEW.receipt);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION odograph.crash_offered() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept odograph.crash_record;
    offered text := odograph.crash_digest(NEW);
BEGIN
    SELECT * INTO kept FROM odograph.crash_record c
    WHERE c.vehicle_id = NEW.vehicle_id AND c.boot_id = NEW.boot_id AND c.crash_id = NEW.crash_id;
    IF FOUND AND kept.raw IS NOT NULL AND odograph.crash_digest(kept) <> offered AND NOT EXISTS (
        SELECT FROM odograph.custody c WHERE c.vehicle_id = NEW.vehicle_id AND c.boot_id = NEW.boot_id
            AND c.crash_id = NEW.crash_id AND c.action = 'refused' AND c.digest = offered)
    THEN
        PERFORM odograph.custody_append('refused', NEW.vehicle_id, NEW.boot_id, NEW.crash_id, offered,
                                        'another record under the same identity; the first one stays', NEW.receipt);
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION odograph.crash_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'UPDATE on crash_record: record % of %: nobody changes what a recorder sent', OLD.crash_id, OLD.vehicle_id
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Waits for a lock that is being set: crash_lock_set holds the record's row.
    IF EXISTS (SELECT FROM odograph.crash_lock l WHERE l.vehicle_id = OLD.vehicle_id AND l.boot_id = OLD.boot_id
               AND l.crash_id = OLD.crash_id) THEN
        RAISE EXCEPTION 'DELETE on crash_record: record % of % is locked', OLD.crash_id, OLD.vehicle_id
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM odograph.custody_append('deleted', OLD.vehicle_id, OLD.boot_id, OLD.crash_id, odograph.crash_digest(OLD),
        coalesce(current_setting('odograph.why', true), ''), current_setting('odograph.signature', true));
    RETURN OLD;
END $$;

DROP FUNCTION odograph.crash_retire(timestamptz);
CREATE FUNCTION odograph.crash_retire(vehicle text, boot bigint, crash text, why text, signature text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('odograph.why', why, true), set_config('odograph.signature', signature, true);
    DELETE FROM odograph.crash_record c WHERE (c.vehicle_id, c.boot_id, c.crash_id) = (vehicle, boot, crash);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION odograph.crash_retire IS 'Deletes a record that is not locked, by an order that a program signed; false where there is none';

DROP FUNCTION dispatch.crash_exported(text, bigint, text, text, text);
CREATE FUNCTION dispatch.crash_exported(vehicle text, boot bigint, crash text, who text, sha256 text, signature text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sha256 !~ '^[0-9a-f]{64}$' OR NOT EXISTS (SELECT FROM odograph.crash_record c
            WHERE c.vehicle_id = vehicle AND c.boot_id = boot AND c.crash_id = crash) THEN
        RAISE EXCEPTION 'no crash record % of % (boot %)', crash, vehicle, boot USING ERRCODE = 'check_violation';
    END IF;
    RETURN odograph.custody_append('exported', vehicle, boot, crash, sha256, dispatch.words('name', who, 80), signature);
END $$;
COMMENT ON FUNCTION dispatch.crash_exported IS 'Notes in the custody log that a bundle with this SHA-256 left; the hash of the entry';

REVOKE ALL ON FUNCTION odograph.custody_append, odograph.crash_lock_set, odograph.crash_retire, dispatch.crash_exported FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.crash_lock_set TO odograph_ingest;
GRANT EXECUTE ON FUNCTION dispatch.crash_exported TO odograph_dispatch, odograph_ingest;

CREATE OR REPLACE VIEW serving.custody AS SELECT * FROM odograph.custody;
CREATE OR REPLACE VIEW serving.crash_record AS
SELECT c.vehicle_id, c.boot_id, c.crash_id, c.event_time, c.received_at, c.profile, c.delta_v_max_kmh, c.airbag_deployed,
       c.complete, c.hash_ok, c.lat_deg, c.lon_deg, c.record, c.raw, c.defects,
       l.locked_at, l.locked_by, l.why AS locked_why,
       coalesce(v.verdict, 'unverified') AS verdict, coalesce(v.reasons, '[]') AS reasons, v.figures, v.final, v.decided_at,
       coalesce(c.signature, 'unchecked') AS signature
FROM odograph.crash_record c
LEFT JOIN odograph.crash_lock l USING (vehicle_id, boot_id, crash_id)
LEFT JOIN odograph.crash_verdict v USING (vehicle_id, boot_id, crash_id);
