-- Vehicles that were erased: what the ledger says of them, and the only ways past what is append only or for good.

ALTER TABLE odograph.audit_hour ADD erased bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN odograph.audit_hour.erased IS 'frames of vehicles that were erased; their records keep place, number and time under a name that is nobody''s';
CREATE OR REPLACE VIEW serving.audit_hour AS SELECT * FROM odograph.audit_hour WHERE vehicles > 0 OR residual > 0;

-- The audit log knows vehicles by pseudonyms, since nothing of it can be deleted: an erased vehicle's goes. Entries of
-- before hold what they held.

CREATE TABLE odograph.pseudonym (
    vehicle_id text PRIMARY KEY,
    pseudonym  text NOT NULL UNIQUE DEFAULT 'vehicle ' || gen_random_uuid()
);
COMMENT ON TABLE odograph.pseudonym IS 'Under which name the audit log has a vehicle; without a row its entries are nobody''s';
REVOKE ALL ON odograph.pseudonym FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;

CREATE FUNCTION odograph.pseudonym_of(vehicle text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    IF vehicle IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO odograph.pseudonym (vehicle_id) VALUES (vehicle) ON CONFLICT DO NOTHING;
    SELECT p.pseudonym INTO found FROM odograph.pseudonym p WHERE p.vehicle_id = vehicle;
    RETURN found;
END $$;
REVOKE ALL ON FUNCTION odograph.pseudonym_of FROM PUBLIC;

CREATE OR REPLACE FUNCTION odograph.audit_append(action text, vehicle text, detail text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last odograph.audit_log;
    next odograph.audit_log;
    name text := odograph.pseudonym_of(vehicle);
BEGIN
    LOCK TABLE odograph.audit_log IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM odograph.audit_log a ORDER BY a.entry DESC LIMIT 1;
    next := ROW(coalesce(last.entry, 0) + 1, clock_timestamp(), session_user,
                coalesce(nullif(current_setting('odograph.actor', true), ''), session_user), action, name,
                left(replace(coalesce(detail, ''), coalesce(vehicle, ' '), coalesce(name, ' ')), 1000),
                coalesce(last.sha256, repeat('0', 64)), '');
    next.sha256 := odograph.audit_hash(next);
    INSERT INTO odograph.audit_log SELECT (next).*;
    RETURN next.entry;
END $$;

CREATE OR REPLACE VIEW serving.audit_log AS
SELECT a.entry, a.at, a.role, a.actor, a.action, coalesce(p.vehicle_id, a.vehicle_id) AS vehicle_id, a.detail, a.sha256,
       a.sha256 = odograph.audit_hash(a) AND a.previous = coalesce(lag(a.sha256) OVER (ORDER BY a.entry), repeat('0', 64))
           AND a.entry = row_number() OVER (ORDER BY a.entry) AS holds
FROM odograph.audit_log a LEFT JOIN odograph.pseudonym p ON p.pseudonym = a.vehicle_id;

CREATE TABLE odograph.log_begin (
    topic          text    NOT NULL,
    partition      integer NOT NULL,
    log_generation text    NOT NULL,
    begins_at      bigint  NOT NULL,
    PRIMARY KEY (topic, partition, log_generation)
);
COMMENT ON TABLE odograph.log_begin IS 'Where a topic that is kept for ever begins since a vehicle was erased: what stays was appended again behind it';
CREATE TRIGGER audited AFTER INSERT OR UPDATE ON odograph.log_begin FOR EACH ROW
    EXECUTE FUNCTION odograph.audit_row('log cut', '', 'topic', 'partition', 'begins_at');
REVOKE ALL ON odograph.log_begin FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT SELECT ON odograph.log_begin TO odograph_ingest;
