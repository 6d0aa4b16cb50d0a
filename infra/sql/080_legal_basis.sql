-- A crash record leaves by a legal basis only: a kind of infra/contract/legal_basis.py and what proves it, in the custody log.

DROP FUNCTION dispatch.crash_exported(text, bigint, text, text, text, text);
CREATE FUNCTION dispatch.crash_exported(vehicle text, boot bigint, crash text, who text, basis text, sha256 text, signature text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF basis IS NULL OR basis !~ '^(consent|court-order|investigation|emergency|research): \S' THEN
        RAISE EXCEPTION 'legal basis: "%" names none', basis USING ERRCODE = 'check_violation';
    END IF;
    IF sha256 !~ '^[0-9a-f]{64}$' OR NOT EXISTS (SELECT FROM odograph.crash_record c
            WHERE c.vehicle_id = vehicle AND c.boot_id = boot AND c.crash_id = crash) THEN
        RAISE EXCEPTION 'no crash record % of % (boot %)', crash, vehicle, boot USING ERRCODE = 'check_violation';
    END IF;
    RETURN odograph.custody_append('exported', vehicle, boot, crash, sha256,
        dispatch.words('name', who, 80) || ', ' || dispatch.words('legal basis', basis, 250), signature);
END $$;
COMMENT ON FUNCTION dispatch.crash_exported IS 'Notes in the custody log that a bundle with this SHA-256 left, to whom and by which right; the hash of the entry';
REVOKE ALL ON FUNCTION dispatch.crash_exported FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatch.crash_exported TO odograph_dispatch, odograph_ingest;
