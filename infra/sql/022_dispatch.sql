-- The writing way of people: a role of its own that may do with alerts what `odograph alerts ack | clear | silence` does, and may
-- note that a crash bundle left, and nothing else. It sees no table: the functions of schema dispatch are all that it can name.
-- Formerly 944b49535190bf17840f3327521e72744772bf7f28434cae72f8f12bd0b9e4a4, with 068_evidence.sql after it.

CREATE SCHEMA dispatch;
COMMENT ON SCHEMA dispatch IS 'What people do: the only schema of the role odograph_dispatch; the command line goes the same way';

CREATE FUNCTION dispatch.words(what text, given text, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given IS NULL OR btrim(given) = '' OR length(given) > most OR given ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION '%: a line of 1 to % characters is wanted', what, most USING ERRCODE = 'check_violation';
    END IF;
    RETURN btrim(given);
END $$;
COMMENT ON FUNCTION dispatch.words IS 'One line of text without control characters, else an error that names it';

CREATE FUNCTION dispatch.acknowledge(numbers bigint[], who text, words text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    who := dispatch.words('name', who, 80);
    words := CASE WHEN words IS NOT NULL THEN dispatch.words('note', words, 500) END;
    RETURN QUERY UPDATE odograph.alert a SET acknowledged_at = now(), acknowledged_by = who, note = coalesce(words, a.note)
        WHERE a.alert_no = ANY(numbers) AND a.acknowledged_at IS NULL RETURNING a.alert_no;
END $$;
COMMENT ON FUNCTION dispatch.acknowledge IS 'Somebody has seen these alerts; the numbers of those that nobody had seen before';

CREATE FUNCTION dispatch.clear(numbers bigint[], who text, words text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    who := dispatch.words('name', who, 80);
    words := CASE WHEN words IS NOT NULL THEN dispatch.words('note', words, 500) END;
    RETURN QUERY UPDATE odograph.alert a SET cleared_at = greatest(now(), a.last_at), cleared_by = who, note = coalesce(words, a.note)
        WHERE a.alert_no = ANY(numbers) AND a.cleared_at IS NULL RETURNING a.alert_no;
END $$;
COMMENT ON FUNCTION dispatch.clear IS 'Ends alerts by hand; the numbers of those that were active';

CREATE FUNCTION dispatch.silence(of_rule text, of_vehicle text, seconds double precision, who text, reason text)
RETURNS TABLE (silence_no bigint, until_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One after the other up to the commit: each then writes the file beside the table with all that are in force.
    LOCK TABLE odograph.alert_silence IN SHARE ROW EXCLUSIVE MODE;
    RETURN QUERY INSERT INTO odograph.alert_silence AS s (rule, vehicle_id, until_at, by_whom, why)
        VALUES (of_rule, of_vehicle, now() + make_interval(secs => seconds), dispatch.words('name', who, 80),
                dispatch.words('reason', reason, 500))
        RETURNING s.silence_no, s.until_at;
END $$;
COMMENT ON FUNCTION dispatch.silence IS 'Nobody is told of a rule''s alerts, a vehicle''s, or those of both, for so many s; its number and end';

CREATE FUNCTION dispatch.silences_in_force() RETURNS TABLE (rule text, vehicle_id text, from_ms bigint, until_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.rule, s.vehicle_id, floor(extract(epoch FROM s.from_at) * 1000)::bigint,
           (extract(epoch FROM s.until_at) * 1000)::bigint
    FROM odograph.alert_silence s WHERE s.until_at > now() ORDER BY s.silence_no
$$;
COMMENT ON FUNCTION dispatch.silences_in_force IS 'For the file that the downlink reads; ms since 1970';

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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dispatch FROM PUBLIC;
GRANT USAGE ON SCHEMA dispatch TO odograph_dispatch, odograph_ingest;
GRANT EXECUTE ON FUNCTION dispatch.acknowledge, dispatch.clear, dispatch.silence, dispatch.silences_in_force, dispatch.crash_exported
    TO odograph_dispatch, odograph_ingest;

-- The rules in force, written by `odograph jobs events` when it starts: what a page can say of an alert's limit ---------------------

CREATE TABLE odograph.rule (
    rule         text PRIMARY KEY,
    version      integer     NOT NULL,
    severity     text        NOT NULL CHECK (odograph.severity_rank(severity) IS NOT NULL),
    query        text        NOT NULL,
    kind         text        NOT NULL,
    source       text        NOT NULL,
    condition    text,
    value_sql    text,
    limit_sql    text,
    beyond       text,
    clear_for_s  double precision,
    message      text        NOT NULL,
    in_force     boolean     NOT NULL DEFAULT true,
    noted_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE odograph.rule IS 'Alert rules as the jobs last started with them; those that are gone stay, not in force';
COMMENT ON COLUMN odograph.rule.rule IS 'its id; an alert''s rule may have a part after a point besides';
COMMENT ON COLUMN odograph.rule.value_sql IS 'Spark SQL over the signals of a frame; null: no value in a frame';
COMMENT ON COLUMN odograph.rule.limit_sql IS 'Spark SQL; of kinds frame and level in the value''s unit, compared on the side `beyond`; of others as their kind says';
GRANT SELECT, INSERT, UPDATE ON odograph.rule TO odograph_ingest;

CREATE VIEW serving.rule AS
SELECT rule, version, severity, query, kind, source, condition, value_sql, limit_sql, beyond, clear_for_s, message, in_force, noted_at
FROM odograph.rule;
COMMENT ON VIEW serving.rule IS 'Alert rules as the jobs last started with them; clear_for_s: s without a finding that clear an alert, null: it does not clear by itself';

GRANT SELECT ON serving.rule TO odograph_dashboard, odograph_ingest;

-- What the pages of alerts and crashes read -----------------------------------------------------------------------------------------

CREATE VIEW serving.alert_triage AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.rule_version, a.severity, a.message, coalesce(a.since_at, a.opened_at) AS since_at,
       a.opened_at, a.last_at, a.cleared_at, a.cleared_at IS NULL AS active, a.acknowledged_at, a.acknowledged_by, a.note,
       a.value, a.worst_value, a.limit_value, a.findings, a.late, s.until_at AS silenced_until,
       extract(epoch FROM coalesce(a.cleared_at, a.last_at) - a.opened_at)::double precision AS duration_s
FROM odograph.alert a
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.alert_silence s ON s.silence_no = a.silence_no
WHERE a.withdrawn_at IS NULL;
COMMENT ON VIEW serving.alert_triage IS 'Alerts as a list shows them: since_at is when the condition began, duration_s up to the last finding while active; silenced_until: the silence that it was stored under';

CREATE VIEW serving.crash_integrity AS
SELECT c.vehicle_id, c.boot_id, c.crash_id, odograph.crash_digest(c) AS digest, n.entry, n.digest AS noted_digest,
       n.digest IS NOT DISTINCT FROM odograph.crash_digest(c) AS unchanged, c.raw IS NOT NULL AS raw_kept
FROM odograph.crash_record c
LEFT JOIN LATERAL (
    SELECT k.entry, k.digest FROM odograph.custody k
    WHERE k.vehicle_id = c.vehicle_id AND k.boot_id = c.boot_id AND k.crash_id = c.crash_id AND k.action IN ('received', 'changed')
    ORDER BY k.entry DESC LIMIT 1) n ON true;
COMMENT ON VIEW serving.crash_integrity IS 'SHA-256 (hex) of each record as it is stored now beside the one that the custody log noted last; always filter on the record';

CREATE VIEW serving.custody_link AS
SELECT c.entry, c.at, c.actor, c.action, c.vehicle_id, c.boot_id, c.crash_id, c.digest, c.detail,
       c.sha256 = odograph.custody_hash(c) AND c.previous = coalesce(p.sha256, repeat('0', 64))
           AND (c.entry = 1 OR p.entry IS NOT NULL) AS holds
FROM odograph.custody c LEFT JOIN odograph.custody p ON p.entry = c.entry - 1;
COMMENT ON VIEW serving.custody_link IS 'Custody log with whether each entry says what its hash was taken of and follows from the one before; always filter on the record. The whole log: odograph crash verify';

GRANT SELECT ON serving.alert_triage, serving.crash_integrity, serving.custody_link TO odograph_dashboard, odograph_ingest;
