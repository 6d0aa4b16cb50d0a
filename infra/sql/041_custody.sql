-- Custody lines that prove who wrote them: the actor is the session's user, as the database knows it; a name that a caller gives is a
-- detail. Each action has one way in, open to one role; a record is never changed, and a trigger function serves its own table only.

CREATE OR REPLACE FUNCTION odograph.custody_append(
    action text, vehicle_id text, boot_id bigint, crash_id text, digest text, detail text
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last odograph.custody;
    next odograph.custody;
BEGIN
    LOCK TABLE odograph.custody IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM odograph.custody c ORDER BY c.entry DESC LIMIT 1;
    next := ROW(coalesce(last.entry, 0) + 1, clock_timestamp(), session_user, action, vehicle_id, boot_id, crash_id, digest,
                detail, coalesce(last.sha256, repeat('0', 64)), '');
    next.sha256 := odograph.custody_hash(next);
    INSERT INTO odograph.custody SELECT (next).*;
    RETURN next.sha256;
END $$;
COMMENT ON FUNCTION odograph.custody_append IS 'The only way into the custody log, for the functions of its actions: nobody may call it; the hash of the new entry';
COMMENT ON COLUMN odograph.custody.actor IS 'the role of the session that did it, by the database''s word; of entries before migration 041 that lock or export a name that somebody gave';
COMMENT ON COLUMN odograph.custody.detail IS 'who by their own word and why; nothing is proven by it';

CREATE OR REPLACE FUNCTION odograph.crash_lock_set(vehicle text, boot bigint, crash text, who text, reason text) RETURNS boolean
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
    PERFORM odograph.custody_append('locked', vehicle, boot, crash, odograph.crash_digest(kept), who || ': ' || reason);
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION odograph.crash_arrived() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deployed boolean := coalesce(NEW.airbag_deployed, false) OR NEW.record -> 'locked' = 'true'::jsonb
        OR jsonb_path_exists(NEW.record, '$.restraints_ms.* ? (@ != null)');
BEGIN
    PERFORM odograph.custody_append('received', NEW.vehicle_id, NEW.boot_id, NEW.crash_id, odograph.crash_digest(NEW), '');
    IF deployed THEN
        PERFORM odograph.crash_lock_set(NEW.vehicle_id, NEW.boot_id, NEW.crash_id, 'recorder', 'a restraint that does not reverse was deployed');
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
                                        'another record under the same identity; the first one stays');
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
    PERFORM odograph.custody_append('deleted', OLD.vehicle_id, OLD.boot_id, OLD.crash_id, odograph.crash_digest(OLD), '');
    RETURN OLD;
END $$;

CREATE OR REPLACE FUNCTION dispatch.crash_exported(vehicle text, boot bigint, crash text, who text, sha256 text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sha256 !~ '^[0-9a-f]{64}$' OR NOT EXISTS (SELECT FROM odograph.crash_record c
            WHERE c.vehicle_id = vehicle AND c.boot_id = boot AND c.crash_id = crash) THEN
        RAISE EXCEPTION 'no crash record % of % (boot %)', crash, vehicle, boot USING ERRCODE = 'check_violation';
    END IF;
    RETURN odograph.custody_append('exported', vehicle, boot, crash, sha256, dispatch.words('name', who, 80));
END $$;

DROP FUNCTION IF EXISTS odograph.custody_note(text, text, text, bigint, text, text, text);

-- Who could make a table of the same columns and put one of these triggers on it could write what it likes.
REVOKE ALL ON FUNCTION odograph.custody_append, odograph.crash_lock_set, odograph.crash_retire, odograph.crash_arrived,
    odograph.crash_offered, odograph.crash_guard, odograph.refuse FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT EXECUTE ON FUNCTION odograph.crash_lock_set TO odograph_ingest;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON odograph.custody, odograph.crash_lock
    FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
REVOKE UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON odograph.crash_record FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;

ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER arrived;
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER offered;
