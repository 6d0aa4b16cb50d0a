-- The vault: crash records as received, locks that nothing undoes, a custody log whose entries hold each other, verdicts.
-- A custody entry's actor is the session's user, as the database knows it, and its signature the program's, with a key that no role of the
-- database has; a name that a caller gives is a detail. Each action has one way in, open to one role; a record is never changed.
-- Formerly 9e05248319b21c8ee6e80e395d06993c7b14916cad749cf000e632fd05d8f5f7, with 068_evidence.sql after it.

-- Records ----------------------------------------------------------------------------------------------------------------

ALTER TABLE odograph.crash_record ADD COLUMN raw text, ADD COLUMN defects jsonb, ADD COLUMN receipt text,
    ADD COLUMN signature text CHECK (signature IN ('valid', 'invalid', 'absent', 'unchecked'));
COMMENT ON COLUMN odograph.crash_record.raw IS 'the record''s bytes as received (of parts: put together); null: stored before they were kept';
COMMENT ON COLUMN odograph.crash_record.defects IS 'what of table I of 49 CFR 563.7 is missing, of the wrong shape or implausible, [{element, fault, detail}]; null: not checked';
COMMENT ON COLUMN odograph.crash_record.signature IS 'whether the vehicle signed the raw bytes, as judged on receipt; null: stored before that was judged';
COMMENT ON COLUMN odograph.crash_record.receipt IS 'signature of the event store on the entry of the custody log that says received';
CREATE INDEX crash_record_by_time ON odograph.crash_record (event_time DESC);

CREATE FUNCTION odograph.crash_digest(record odograph.crash_record) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(coalesce(record.raw, record.record::text), 'UTF8')), 'hex')
$$;
COMMENT ON FUNCTION odograph.crash_digest IS 'SHA-256, hex, of a record as received; of one without raw bytes, of its jsonb text';

-- Custody ----------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.custody (
    entry      bigint      PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text        NOT NULL CHECK (actor ~ '^[^\u0001-\u001f\u007f-\u009f]+$'),
    action     text        NOT NULL CHECK (action IN ('received', 'refused', 'locked', 'changed', 'deleted', 'exported')),
    vehicle_id text        NOT NULL CHECK (vehicle_id ~ '^[^\u0001-\u001f\u007f-\u009f]+$'),
    boot_id    bigint      NOT NULL,
    crash_id   text        NOT NULL,
    digest     text        NOT NULL,
    detail     text        NOT NULL CHECK (detail !~ '[\u0001-\u001f\u007f-\u009f]'),
    previous   text        NOT NULL,
    sha256     text        NOT NULL,
    signature  text
);
CREATE INDEX custody_of_record ON odograph.custody (vehicle_id, boot_id, crash_id);
COMMENT ON TABLE odograph.custody IS 'What was done with crash records, and by whom: append only, each entry holds the hash of the one before';
COMMENT ON COLUMN odograph.custody.entry IS 'from 1, without gaps';
COMMENT ON COLUMN odograph.custody.actor IS 'the role of the session that did it, by the database''s word';
COMMENT ON COLUMN odograph.custody.detail IS 'who by their own word and why; nothing is proven by it';
COMMENT ON COLUMN odograph.custody.signature IS 'Ed25519, base64, by the program that did it (infra/contract/evidence.py); null: entered before entries were signed; empty: by nobody';
COMMENT ON COLUMN odograph.custody.digest IS 'SHA-256, hex, of the record as received; of an export, of the bundle';
COMMENT ON COLUMN odograph.custody.crash_id IS 'as the vehicle gave it; a line break in it is written as a space in the hash''s text';
COMMENT ON COLUMN odograph.custody.previous IS 'sha256 of the entry before; of the first, 64 zeros';
COMMENT ON COLUMN odograph.custody.sha256 IS 'hex, of previous, entry, at (UTC, us), actor, action, vehicle_id, boot_id, crash_id, digest, detail, a line each';

CREATE FUNCTION odograph.custody_hash(c odograph.custody) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(array_to_string(ARRAY[
        c.previous, c.entry::text, (extract(epoch FROM c.at) * 1000000)::bigint::text, c.actor, c.action, c.vehicle_id,
        c.boot_id::text, regexp_replace(c.crash_id, '[\u0001-\u001f\u007f-\u009f]', ' ', 'g'), c.digest, c.detail
    ], E'\n'), 'UTF8')), 'hex')
$$;

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

CREATE FUNCTION odograph.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON odograph.custody
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.refuse('the custody log is append only');

-- Locks ------------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.crash_lock (
    vehicle_id text        NOT NULL,
    boot_id    bigint      NOT NULL,
    crash_id   text        NOT NULL,
    locked_at  timestamptz NOT NULL,
    locked_by  text        NOT NULL CHECK (locked_by ~ '^[^\u0001-\u001f\u007f-\u009f]+$'),
    why        text        NOT NULL CHECK (why ~ '^[^\u0001-\u001f\u007f-\u009f]+$'),
    PRIMARY KEY (vehicle_id, boot_id, crash_id)
);
COMMENT ON TABLE odograph.crash_lock IS 'Crash records that nobody may change or delete any more; a lock is for good';
CREATE TRIGGER for_good BEFORE UPDATE OR DELETE OR TRUNCATE ON odograph.crash_lock
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.refuse('a lock is for good');

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

-- What happens to records is noted, whoever does it ----------------------------------------------------------------------

CREATE FUNCTION odograph.crash_arrived() RETURNS trigger
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
CREATE TRIGGER arrived AFTER INSERT ON odograph.crash_record FOR EACH ROW EXECUTE FUNCTION odograph.crash_arrived();

-- Before, not after: INSERT .. ON CONFLICT DO NOTHING leaves no row behind, and what was refused must not go unseen.
CREATE FUNCTION odograph.crash_offered() RETURNS trigger
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
CREATE TRIGGER offered BEFORE INSERT ON odograph.crash_record FOR EACH ROW EXECUTE FUNCTION odograph.crash_offered();

CREATE FUNCTION odograph.crash_guard() RETURNS trigger
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
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON odograph.crash_record FOR EACH ROW EXECUTE FUNCTION odograph.crash_guard();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON odograph.crash_record
    FOR EACH STATEMENT EXECUTE FUNCTION odograph.refuse('crash records leave one by one; see odograph.crash_retire');

CREATE FUNCTION odograph.crash_retire(vehicle text, boot bigint, crash text, why text, signature text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('odograph.why', why, true), set_config('odograph.signature', signature, true);
    DELETE FROM odograph.crash_record c WHERE (c.vehicle_id, c.boot_id, c.crash_id) = (vehicle, boot, crash);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION odograph.crash_retire IS 'Deletes a record that is not locked, by an order that a program signed; false where there is none';

-- Also where a session calls itself a replica, which switches ordinary triggers off.
ALTER TABLE odograph.custody ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE odograph.crash_lock ENABLE ALWAYS TRIGGER for_good;
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER arrived;
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER offered;
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER guard;
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER no_truncate;

-- Verdicts ---------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.crash_verdict (
    vehicle_id text        NOT NULL,
    boot_id    bigint      NOT NULL,
    crash_id   text        NOT NULL,
    event_time timestamptz NOT NULL,
    verdict    text        NOT NULL CHECK (verdict IN ('confirmed', 'suspect', 'pothole')),
    reasons    jsonb       NOT NULL,
    figures    jsonb       NOT NULL,
    basis      text        NOT NULL,
    final      boolean     NOT NULL,
    revision   integer     NOT NULL DEFAULT 0,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (vehicle_id, boot_id, crash_id)
);
COMMENT ON TABLE odograph.crash_verdict IS 'What record and telemetry together say of a crash record; no row: not yet';
COMMENT ON COLUMN odograph.crash_verdict.basis IS 'which of the vehicle''s windows it rests on: it is judged again when that changes';
COMMENT ON COLUMN odograph.crash_verdict.final IS 'the fleet''s time has gone on far enough that only repaired windows can change it';
COMMENT ON COLUMN odograph.crash_verdict.revision IS 'how often the verdict, its reasons or figures changed';

-- Views ------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW serving.crash_record AS
SELECT c.vehicle_id, c.boot_id, c.crash_id, c.event_time, c.received_at, c.profile, c.delta_v_max_kmh, c.airbag_deployed,
       c.complete, c.hash_ok, c.lat_deg, c.lon_deg, c.record, c.raw, c.defects,
       l.locked_at, l.locked_by, l.why AS locked_why,
       coalesce(v.verdict, 'unverified') AS verdict, coalesce(v.reasons, '[]') AS reasons, v.figures, v.final, v.decided_at,
       coalesce(c.signature, 'unchecked') AS signature
FROM odograph.crash_record c
LEFT JOIN odograph.crash_lock l USING (vehicle_id, boot_id, crash_id)
LEFT JOIN odograph.crash_verdict v USING (vehicle_id, boot_id, crash_id);
COMMENT ON VIEW serving.crash_record IS 'EDR crash records with lock, defects and verdict';

CREATE FUNCTION odograph.json_number(value jsonb) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'number' AND abs(value::numeric) < 1e9 THEN value::numeric::double precision END
$$;
CREATE FUNCTION odograph.json_flag(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'boolean' THEN value::boolean END
$$;
CREATE FUNCTION odograph.json_array(value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'array' THEN value ELSE '[]' END
$$;

CREATE VIEW serving.crash_delta_v AS
SELECT c.vehicle_id, c.boot_id, c.crash_id, n.k AS sample, n.k * odograph.json_number(c.record -> 'delta_v_dt_ms') AS t_ms,
       odograph.json_number(odograph.json_array(c.record -> 'delta_v_kmh') -> n.k) AS delta_v_kmh,
       odograph.json_number(odograph.json_array(c.record -> 'delta_v_lat_kmh') -> n.k) AS delta_v_lat_kmh
FROM odograph.crash_record c,
     LATERAL generate_series(0, greatest(jsonb_array_length(odograph.json_array(c.record -> 'delta_v_kmh')),
                                         jsonb_array_length(odograph.json_array(c.record -> 'delta_v_lat_kmh'))) - 1) AS n(k);
COMMENT ON VIEW serving.crash_delta_v IS 'Cumulative delta-V after time zero, km/h, a row a point; t_ms is null where the record does not tell the spacing';

CREATE VIEW serving.crash_pre_crash AS
SELECT c.vehicle_id, c.boot_id, c.crash_id, n.k AS sample,
       (n.k + 1 - size.n) * odograph.json_number(c.record -> 'pre_crash_dt_ms') AS t_ms,
       odograph.json_number(odograph.json_array(c.record #> '{pre_crash,speed_kmh}') -> n.k) AS speed_kmh,
       odograph.json_number(odograph.json_array(c.record #> '{pre_crash,accelerator_pct}') -> n.k) AS accelerator_pct,
       odograph.json_flag(odograph.json_array(c.record #> '{pre_crash,brake_on}') -> n.k) AS brake_on,
       odograph.json_number(odograph.json_array(c.record #> '{pre_crash,engine_rpm}') -> n.k) AS engine_rpm,
       odograph.json_number(odograph.json_array(c.record #> '{pre_crash,steering_deg}') -> n.k) AS steering_deg,
       odograph.json_flag(odograph.json_array(c.record #> '{pre_crash,abs_active}') -> n.k) AS abs_active,
       odograph.json_flag(odograph.json_array(c.record #> '{pre_crash,esc_active}') -> n.k) AS esc_active
FROM odograph.crash_record c,
     LATERAL (SELECT jsonb_array_length(odograph.json_array(c.record #> '{pre_crash,speed_kmh}')) AS n) AS size,
     LATERAL generate_series(0, size.n - 1) AS n(k);
COMMENT ON VIEW serving.crash_pre_crash IS 'The samples before time zero, a row each, the last at 0 ms';

CREATE VIEW serving.custody AS SELECT * FROM odograph.custody;
COMMENT ON VIEW serving.custody IS 'Custody log of the crash records; odograph crash verify checks its hashes';

CREATE VIEW serving.alert_verdict AS
SELECT DISTINCT ON (a.alert_no) a.alert_no, c.crash_id, c.verdict, c.reasons
FROM odograph.alert a
JOIN serving.crash_record c ON c.vehicle_id = a.vehicle_id
    AND c.event_time BETWEEN a.opened_at - INTERVAL '1 second' AND a.last_at + INTERVAL '1 second'
WHERE starts_with(a.rule, 'crash_')
ORDER BY a.alert_no, array_position(ARRAY['confirmed', 'suspect', 'unverified', 'pothole'], c.verdict), c.event_time;
COMMENT ON VIEW serving.alert_verdict IS 'The gravest verdict of the crash records behind an alert';

-- Rights -----------------------------------------------------------------------------------------------------------------

-- Who could make a table of the same columns and put one of these triggers on it could write what it likes.
REVOKE ALL ON FUNCTION odograph.custody_append, odograph.crash_lock_set, odograph.crash_retire, odograph.crash_arrived,
    odograph.crash_offered, odograph.crash_guard, odograph.refuse FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT EXECUTE ON FUNCTION odograph.crash_lock_set TO odograph_ingest;
REVOKE UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON odograph.crash_record FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
REVOKE ALL ON odograph.custody, odograph.crash_lock FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT SELECT ON odograph.custody, odograph.crash_lock TO odograph_ingest;
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.crash_verdict TO odograph_ingest;
GRANT SELECT ON serving.crash_record, serving.crash_delta_v, serving.crash_pre_crash, serving.custody, serving.alert_verdict
    TO odograph_dashboard, odograph_ingest;
